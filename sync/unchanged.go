package sync

import (
	"slices"

	"resyncd/store"
)

// ends are the resources that a reconciler was done with since a pull began: what a list of that pull, read again, calls right by
// then need not have been so before.
type ends struct {
	right *bitmap // what was on disk already was what is wanted
	other *bitmap // fetched, removed, refused or failed
}

// counts is what a reconciler had done when a pull began, and what it is done with since.
type counts struct {
	fetched, deleted int64
	ends             *ends
}

// counts begins to count for a pull, until counted is called with it.
func (r *reconciler) counts() (c counts) {
	c.ends = &ends{right: newBitmap(), other: newBitmap()}
	r.tally.add(func(t *tally) {
		c.fetched, c.deleted = t.fetched, t.deleted
		t.ends = append(t.ends, c.ends)
	})
	return c
}

// counted: the pull is concluded, or never will be.
func (r *reconciler) counted(c counts) {
	r.tally.add(func(t *tally) {
		t.ends = slices.DeleteFunc(t.ends, func(e *ends) bool { return e == c.ends })
	})
}

// end notes for the pulls under way that a resource is done with. The caller holds the lock.
func (t *tally) end(id int64, right bool) {
	for _, e := range t.ends {
		if right {
			e.right.add(id)
		} else {
			e.other.add(id)
		}
	}
}

// unchanged counts the resources that were as they are wanted before the pull: of those that its lists called right, and those
// that were found right, the ones that nothing else happened to. However often they were listed or looked at.
func (e *ends) unchanged(calm *bitmap) int64 {
	if calm == nil {
		calm = newBitmap()
	}
	n := calm.len
	for id := range e.right.all() {
		if !calm.has(id) {
			n++
		}
	}
	for id := range e.other.all() {
		if calm.has(id) || e.right.has(id) {
			n--
		}
	}
	return n
}

// calmed notes a resource that an entry found as it is wanted, with nothing to do. What is refused has no file, nor has what is
// to be absent.
func (p *planner) calmed(r *row) {
	if r.want.State == store.WantAbsent || r.want.Refused != "" {
		return
	}
	if p.calm == nil {
		p.calm = newBitmap()
	}
	p.calm.add(r.res.ID)
}

// calms is how many there are.
func (p *planner) calms() int64 {
	if p.calm == nil {
		return 0
	}
	return p.calm.len
}
