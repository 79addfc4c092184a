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

// Most bounds the entries of a Window.
const Most = 2000

// Window is a feed's newest document.
type Window struct {
	Entries []Entry `json:"entries"`
	// Gone counts later pulls that missed an older document.
	Gone int `json:"gone,omitempty"`
	// Broken: a later pull ended early, known entries prove nothing.
	Broken bool `json:"broken,omitempty"`
	// Rest are older documents not read to the end.
	Rest []string `json:"rest,omitempty"`
	// Flawed are older documents with unreadable entries.
	Flawed []string `json:"flawed,omitempty"`
	// Flaws are its own unreadable entries, as Beside has them, since Since.
	Flaws [][]uint64   `json:"flaws,omitempty"`
	Since store.Micros `json:"since,omitempty"`
	Order Order        `json:"order,omitempty"`
}

// Entry is one entry's key and instant.
type Entry struct {
	Key uint64       `json:"k"`
	At  store.Micros `json:"at"`
	// Ahead: the instant was to come.
	Ahead bool `json:"ahead,omitempty"`
}

// KeyHash hashes an entry's key.
func KeyHash(key string) uint64 {
	sum := sha256.Sum256([]byte(key))
	return binary.BigEndian.Uint64(sum[:8])
}

// Trim keeps the newest entries.
func (w *Window) Trim() {
	if len(w.Entries) > Most {
		slices.SortStableFunc(w.Entries, func(a, b Entry) int { return cmp.Compare(b.At, a.At) })
		w.Entries = w.Entries[:Most]
	}
}

// Regular reports whether an entry is not dated ahead.
func (w *Window) Regular() bool {
	return slices.ContainsFunc(w.Entries, func(e Entry) bool { return !e.Ahead })
}
