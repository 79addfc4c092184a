package pull

import (
	"resyncd/store"
	"resyncd/sync/window"
)

// look compares an entry with the last pull and reports whether it is new.
func (w *walk) look(h uint64, when store.Micros) (fresh bool) {
	limit := w.items.From.Limit
	if w.path.pages == 0 {
		w.now.Entries = append(w.now.Entries, window.Entry{Key: h, At: when, Ahead: when.Known() && when > limit})
		w.times.shows = store.Earliest(w.times.shows, when)
	}
	if when.Known() && when <= limit {
		w.times.newest = max(w.times.newest, when)
	}
	delete(w.sought, h)
	if w.was == nil {
		return false
	}
	if w.reach.Meet(h, when) {
		return false
	}
	w.times.oldest = store.Earliest(w.times.oldest, when)
	return true
}

// reached reports whether the walk met the last pull, so that nothing in between was missed.
func (w *walk) reached() bool { return w.reach == nil || w.reach.Reached() }

// searchMost bounds the documents searched for an entry that left its place.
const searchMost = 8

func (w *walk) enough() bool {
	if w.all || w.path.order.Found == window.NoOrder || w.was.Order == window.NoOrder || !w.reached() ||
		len(w.sought) > 0 {
		return false // unordered news may be in any document
	}
	if (w.reach.Vanished() || len(w.was.Entries) == 1) && w.path.searched < searchMost {
		w.path.searched++
		return false
	}
	// the order shows after two pages
	return w.path.next == "" || w.was.Order == window.NewestFirst || w.path.order.Found == window.NewestFirst
}
