// Package window knows what a feed's newest document showed, and whether a later reading reaches back to it. It refuses
// to know how a feed is read.
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

// Order is the order of a feed's pages.
type Order string

// The orders: without NewestFirst every pull reads all pages.
const (
	OrderUnknown Order = ""
	NewestFirst  Order = "newest-first"
	NoOrder      Order = "none"
)

// PageOrder tests whether pages are newest first: few entries may be newer than the older quarter of the page before.
type PageOrder struct {
	page     []store.Micros
	before   store.Micros // start of the last page's older quarter
	turned   bool
	up, down int
	Found    Order
}

// Meet notes an entry.
func (o *PageOrder) Meet(when store.Micros) { o.page = append(o.page, when) }

// Newest is the newest instant of the page, or NoTime.
func (o *PageOrder) Newest() store.Micros {
	if len(o.page) == 0 {
		return store.NoTime
	}
	return slices.Max(o.page)
}

func (o *PageOrder) Turn() {
	newer := 0
	for i, when := range o.page {
		if !when.Known() || !o.before.Known() || when > o.before {
			newer++
		}
		switch {
		case i == 0:
		case when > o.page[i-1]:
			o.up++
		case when < o.page[i-1]:
			o.down++
		}
	}
	if o.turned && o.Found != NoOrder && len(o.page) > 0 {
		if o.Found = NewestFirst; newer > len(o.page)/10 || o.up >= o.down {
			o.Found = NoOrder
		}
	}
	slices.Sort(o.page)
	if o.turned, o.before = true, store.NoTime; len(o.page) > 0 {
		o.before = o.page[len(o.page)/4]
	}
	o.page = o.page[:0]
}

// Flaws are the places of unreadable entries among readable ones.
type Flaws struct {
	next   int
	before uint64
	places [][2]uint64
}

// Meet notes a readable entry by its place.
func (f *Flaws) Meet(key uint64, ordinal int) {
	f.End(key, ordinal-f.next)
	f.next, f.before = ordinal+1, key
}

func (f *Flaws) End(key uint64, n int) {
	for range n {
		f.places = append(f.places, [2]uint64{f.before, key})
	}
}

// Len is their number.
func (f *Flaws) Len() int { return len(f.places) }

// Beside are the entries that leave the feed before each flaw, the older neighbours.
func (f *Flaws) Beside(order *PageOrder) (all [][]uint64) {
	for _, p := range f.places[:min(len(f.places), flawsMost)] {
		switch {
		case order.down > order.up:
			all = append(all, p[1:])
		case order.up > order.down:
			all = append(all, p[:1])
		default:
			all = append(all, p[:])
		}
	}
	return all
}

const flawsMost = 100

// Reach judges whether a walk reaches back to a window. The oldest entries leave first, so one that stands vouches for
// all newer ones, unless it is pinned, dated ahead or edited.
type Reach struct {
	entries map[uint64]*landmark
	lines   [][]*landmark
}

type landmark struct {
	at         store.Micros
	met, moved bool
}

// Reach begins a walk.
func (w *Window) Reach() *Reach {
	r := &Reach{entries: make(map[uint64]*landmark, len(w.Entries))}
	dated, ahead := true, !w.Regular()
	var line []*landmark
	for _, e := range w.Entries {
		if r.entries[e.Key] != nil {
			continue
		}
		r.entries[e.Key] = &landmark{at: e.At}
		if !e.Ahead || ahead {
			line = append(line, r.entries[e.Key])
			dated = dated && e.At.Known()
		}
	}
	if dated {
		slices.SortStableFunc(line, func(a, b *landmark) int { return cmp.Compare(b.at, a.at) })
	}
	if r.lines = [][]*landmark{line}; !dated {
		back := slices.Clone(line)
		slices.Reverse(back)
		r.lines = append(r.lines, back)
	}
	return r
}

// Meet notes an entry and tells whether the window had it.
func (r *Reach) Meet(key uint64, when store.Micros) (known bool) {
	e := r.entries[key]
	if e == nil {
		return false
	}
	e.met, e.moved = true, e.moved || when > e.at
	return true
}

// Reached asks that most of the window, or of its newer half, still shows, and that one has not moved up.
func (r *Reach) Reached() bool { return slices.ContainsFunc(r.lines, vouched) }

func vouched(line []*landmark) bool {
	still := 0
	for _, e := range line {
		if e.met && !e.moved {
			still++
		}
	}
	return still > 0 && (mostMet(line) || mostMet(line[:min(max(2, (len(line)+1)/2), len(line))]))
}

// Vanished reports whether an entry is missing among older ones: deleted, or redated.
func (r *Reach) Vanished() bool {
	missing := false
	for _, e := range r.lines[0] {
		if missing && e.met && !e.moved {
			return len(r.lines) == 1
		}
		missing = missing || !e.met
	}
	return false
}

func mostMet(line []*landmark) bool {
	met := 0
	for _, e := range line {
		if e.met {
			met++
		}
	}
	return 2*met > len(line)
}

// Left tells whether an unreadable entry seems to have left; still are those of now.
func (r *Reach) Left(flaws, still [][]uint64) bool {
	return slices.ContainsFunc(flaws, func(beside []uint64) bool {
		same := func(other []uint64) bool { return slices.Equal(beside, other) }
		gone := func(key uint64) bool {
			e := r.entries[key]
			return e == nil || !e.met || e.moved
		}
		return !slices.ContainsFunc(still, same) && slices.ContainsFunc(beside, gone)
	})
}
