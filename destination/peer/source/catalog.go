package source

import "slices"

// maxTombstones is how many deleted names are answered with 410 Gone rather than 404 Not Found.
const maxTombstones = 10_000

// record is one state of a resource. It never changes, so that lists, notifications and readers share it.
type record struct {
	name     string // unescaped path
	sums     string // the other digests, one after another
	sum      [32]byte
	length   int64
	modified int64 // HTTP Last-Modified, in seconds since 1970
	version  int64 // of a made-up resource its number; of a file its time of modification in nanoseconds
	live     bool
	content  content // nil of a dead one
}

// content is where the bytes of a record are.
type content interface {
	open(rec *record) (body, error)
}

// catalog is what is published now. The Source's lock guards it.
type catalog struct {
	all   []*record      // live or dead, nil where a dead one was forgotten
	slots map[string]int // in all
	free  []int
	live  int
	dead  []*record // oldest first, some of names that live again
	most  int       // dead ones that are remembered; 0: all
}

// find is nil for a name that is not known.
func (c *catalog) find(name string) *record {
	if slot, ok := c.slots[name]; ok {
		return c.all[slot]
	}
	return nil
}

// set puts a new state in the place of the one before; beyond most it forgets the name that has been dead longest.
func (c *catalog) set(next *record) {
	slot, known := c.slots[next.name]
	switch n := len(c.free); {
	case known:
	case n > 0:
		slot, c.free = c.free[n-1], c.free[:n-1]
	default:
		slot = len(c.all)
		c.all = append(c.all, nil)
	}
	c.slots[next.name] = slot
	if before := c.all[slot]; before != nil && before.live {
		c.live--
	}
	c.all[slot] = next
	if next.live {
		c.live++
	}
	if next.live || c.most == 0 {
		return
	}
	c.dead = append(c.dead, next)
	if len(c.dead) <= c.most {
		return
	}
	oldest := c.dead[0]
	c.dead = c.dead[1:]
	if slot := c.slots[oldest.name]; c.all[slot] == oldest {
		delete(c.slots, oldest.name)
		c.all[slot] = nil
		c.free = append(c.free, slot)
	}
}

// alive returns the living records among all.
func alive(all []*record) []*record {
	return slices.DeleteFunc(all, func(r *record) bool { return r == nil || !r.live })
}
