package pull

import (
	"resyncd/store"
	"resyncd/sync/window"
)

// look compares an entry of this walk with what the last pull saw. It reports whether the entry was not there then.
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

// reached: the walk has met what the last pull saw, so that nothing in between was missed.
func (w *walk) reached() bool { return w.reach == nil || w.reach.Reached() }

// searchMost is how many older documents are searched for an entry that has left its place.
const searchMost = 8

// enough: no older document is needed.
func (w *walk) enough() bool {
	if w.all || w.path.order.Found == window.NoOrder || w.was.Order == window.NoOrder || !w.reached() || len(w.sought) > 0 {
		return false // where documents have no order what is new may be in any
	}
	if (w.reach.Vanished() || len(w.was.Entries) == 1) && w.path.searched < searchMost { // the only one may be pinned
		w.path.searched++
		return false
	}
	return w.path.next == "" || w.was.Order == window.NewestFirst || w.path.order.Found == window.NewestFirst // which shows once two pages were read
}
