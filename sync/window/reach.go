package window

import (
	"cmp"
	"slices"

	"resyncd/store"
)

// Reach judges whether the entries of a walk reach back to those of a window. What leaves a feed are its oldest
// entries, so one that is still there vouches for all that came after it, unless it is pinned, dated ahead, or moved up
// by an edit.
type Reach struct {
	entries map[uint64]*landmark
	// lines are the entries that may vouch, newest first; both ways where dates do not tell.
	lines [][]*landmark
}

// landmark is an entry of a window: whether it was met, and whether it was newer then.
type landmark struct {
	at         store.Micros
	met, moved bool
}

// Reach begins a walk that may meet the entries of the window.
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

// Meet notes an entry of the walk, and tells whether it stood in the window.
func (r *Reach) Meet(key uint64, when store.Micros) (known bool) {
	e := r.entries[key]
	if e == nil {
		return false
	}
	e.met, e.moved = true, e.moved || when > e.at
	return true
}

// Reached asks that most of the window still shows, or most of its newer half, because a few entries may be pinned; and
// that one of them did not move up since, or all may have come anew over what was missed.
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

// Vanished reports whether an entry is missing among older ones that stand where they stood. It was deleted without a
// word, or put back to where its new date belongs.
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

// Left tells whether an entry that could not be read has left the feed, as far as anybody can tell. still are those of
// now.
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
