package sync

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"resyncd/store"
)

// windowMost bounds what is remembered of a feed's newest document.
const windowMost = 2000

// window is what a feed's newest document showed: by it the next pull knows whether it reaches back to this one.
type window struct {
	Entries []shown `json:"entries"`
	// Gone is how many pulls since then did not find an older document that the feed names.
	Gone int `json:"gone,omitempty"`
}

// shown is one entry of a window: its key and its instant.
type shown struct {
	Key uint64       `json:"k"`
	At  store.Micros `json:"at"`
}

func keyHash(key string) uint64 {
	sum := sha256.Sum256([]byte(key))
	return binary.BigEndian.Uint64(sum[:8])
}

// core are the entries of which one must be met unchanged for the next reading to have missed nothing: the newer half of
// those with dates, because some feeds keep an old entry pinned among the newest, and all without, which may stand in any
// order.
func (w *window) core() map[uint64]store.Micros {
	var dated []shown
	core := map[uint64]store.Micros{}
	for _, s := range w.Entries {
		if s.At.Known() {
			dated = append(dated, s)
		} else {
			core[s.Key] = s.At
		}
	}
	slices.SortStableFunc(dated, func(a, b shown) int { return cmp.Compare(b.At, a.At) })
	if len(dated) > 3 {
		dated = dated[:(len(dated)+1)/2]
	}
	for _, s := range dated {
		core[s.Key] = s.At
	}
	return core
}

// keys are the keys of all entries; true once met.
func (w *window) keys() map[uint64]bool {
	keys := make(map[uint64]bool, len(w.Entries))
	for _, s := range w.Entries {
		keys[s.Key] = false
	}
	return keys
}

// trim leaves the newest entries, wherever the feed has them, and of those without dates the first ones.
func (w *window) trim() {
	if len(w.Entries) > windowMost {
		slices.SortStableFunc(w.Entries, func(a, b shown) int { return cmp.Compare(b.At, a.At) })
		w.Entries = w.Entries[:windowMost]
	}
}

// look compares an entry of this walk with what the last pull saw. It reports whether the entry was not there then and is
// newer.
func (w *walk) look(h uint64, when store.Micros) (fresh bool) {
	if w.pages == 0 {
		w.now.Entries = append(w.now.Entries, shown{Key: h, At: when})
	}
	if when.Known() && when <= w.items.from.Limit {
		w.newest = max(w.newest, when)
	}
	if w.was == nil {
		return false
	}
	if met, was := w.keys[h]; was {
		if !met {
			w.keys[h], w.again = true, w.again+1
		}
		if was, core := w.core[h]; core && when <= was { // it did not move up
			w.met = true
		}
		return false
	}
	if when.Known() && when <= w.p.cover.ProvenPosition() {
		return false // older than what was known then
	}
	if when.Known() && (!w.oldest.Known() || when < w.oldest) {
		w.oldest = when
	}
	return true
}

// reached: the walk has met what the last pull saw, so that nothing in between was missed. Nothing fell out of a feed that
// still shows all that it showed then, even if all of it has changed.
func (w *walk) reached() bool { return w.was == nil || w.met || w.again == len(w.keys) }

// enough: no older document is needed.
func (w *walk) enough() bool { return !w.all && w.reached() }
