package window

import (
	"cmp"
	"slices"

	"resyncd/store"
)

// Reach judges whether a walk reaches back to a window. The oldest entries leave first, so one that is still there
// vouches for all newer ones, unless it is pinned, dated ahead or edited.
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

// Reached asks that most of the window, or of its newer half, still shows.
// One must not have moved up, or all may be new.
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
