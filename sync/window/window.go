// Package window knows what a feed's newest document showed, and from that whether a later reading of the feed reaches
// back to it, in which order its pages stand, and which entries could not be read. It refuses to know how a feed is
// read.
package window

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"resyncd/store"
)

// Most bounds what is remembered of a feed's newest document.
const Most = 2000

// Window is what a feed's newest document showed: by it the next pull knows whether it reaches back to this one.
type Window struct {
	Entries []Entry `json:"entries"` // in the order of the document
	// Gone is how many pulls since then did not find an older document that the feed names.
	Gone int `json:"gone,omitempty"`
	// Broken: a pull since then has taken up entries and did not come to its end, so that to know an entry proves nothing.
	Broken bool `json:"broken,omitempty"`
	// Rest are the older documents at which the reading of the history ended before its end.
	Rest []string `json:"rest,omitempty"`
	// Flawed are older documents of which entries could not be read: they are read again until they can.
	Flawed []string `json:"flawed,omitempty"`
	// Flaws are those of its own entries that could not be read, told after Since: the entries beside each that leave the
	// feed before it does, 0 where there is none.
	Flaws [][]uint64   `json:"flaws,omitempty"`
	Since store.Micros `json:"since,omitempty"`
	// Order is in which order pages stand, once more than one was read.
	Order Order `json:"order,omitempty"`
}

// Entry is one entry of a window: its key and its instant.
type Entry struct {
	Key uint64       `json:"k"`
	At  store.Micros `json:"at"`
	// Ahead: its instant had not come yet. Such an entry stands for long, whatever comes and goes behind it.
	Ahead bool `json:"ahead,omitempty"`
}

// KeyHash is how a window keeps an entry's key.
func KeyHash(key string) uint64 {
	sum := sha256.Sum256([]byte(key))
	return binary.BigEndian.Uint64(sum[:8])
}

// Trim leaves the newest entries, wherever the feed has them, and of those without dates the first ones.
func (w *Window) Trim() {
	if len(w.Entries) > Most {
		slices.SortStableFunc(w.Entries, func(a, b Entry) int { return cmp.Compare(b.At, a.At) })
		w.Entries = w.Entries[:Most]
	}
}

// Regular reports whether some entry is not dated ahead.
func (w *Window) Regular() bool {
	return slices.ContainsFunc(w.Entries, func(e Entry) bool { return !e.Ahead })
}
