package source

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"resyncd/destination/rsdoc"
)

// maxTombstones is how many deleted names are answered with 410 Gone rather than 404 Not Found.
const maxTombstones = 10_000

// record is one state of a resource. It never changes, so that lists and readers share it.
type record struct {
	name     string // unescaped path
	sums     string // the other digests, one after another
	sum      [32]byte
	length   int64
	modified int64 // HTTP Last-Modified, in seconds since 1970
	version  int64 // of a made-up resource its number; of a file its time of modification in nanoseconds
	live     bool
	content  content // nil of a dead one, and in the history
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

// snapshot is one Resource List. It never changes, so that its parts belong together (F67, F69).
type snapshot struct {
	records       []*record
	size          int // of a part
	at, completed rsdoc.Micros
	changes       int // that it contains
}

// resourceList returns the current Resource List, a new one if that is due. The published Change Lists reach back to
// it.
func (s *Source) resourceList() *snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	current := s.lists[0]
	if current != nil && !s.due(current) {
		return current
	}
	next := &snapshot{at: s.clock.tick(), size: s.options.ListSize, changes: s.journal.total()}
	next.records, next.completed = alive(slices.Clone(s.catalog.all)), s.clock.tick()
	s.lists = [2]*snapshot{next, current}
	s.announceList(next, current)
	return next
}

// due reports whether a Resource List is too old; the caller holds the lock.
func (s *Source) due(current *snapshot) bool {
	if s.journal.reaches() > current.at {
		return true
	}
	age := time.Duration(s.options.Now().UnixMicro()-int64(current.at)) * time.Microsecond
	return s.journal.total() != current.changes && age >= s.listAge()
}

// listAge is the least age before a new list is taken; the caller holds the lock.
func (s *Source) listAge() time.Duration {
	if s.options.ListEvery == 0 && s.catalog.live > s.options.ListSize {
		return time.Minute + time.Duration(s.catalog.live)*time.Millisecond
	}
	return s.options.ListEvery
}

// parts is the number of lists that it takes, at least one.
func (n *snapshot) parts() int { return max(1, (len(n.records)+n.size-1)/n.size) }

func (n *snapshot) part(i int) []*record {
	return n.records[i*n.size : min((i+1)*n.size, len(n.records))]
}

// partName ends the URI of a part. No other Resource List has it.
func (n *snapshot) partName(part int) string { return fmt.Sprintf("%s-%05d.xml", stamp(n.at), part+1) }

// part finds a part of the current Resource List or the one before.
func (s *Source) part(name string) (*snapshot, int, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	part := numberIn(name) - 1
	for _, n := range s.lists {
		if n != nil && n.parts() > 1 && part >= 0 && part < n.parts() && n.partName(part) == name {
			return n, part, true
		}
	}
	return nil, 0, false
}

// numberIn is the number in the name of a part or archive, 0 for none.
func numberIn(name string) int {
	_, digits, _ := strings.Cut(strings.TrimSuffix(name, path.Ext(name)), "-")
	n, _ := strconv.Atoi(digits)
	return n
}

// stamp writes an instant for a URI.
func stamp(m rsdoc.Micros) string { return m.Time().Format("20060102T150405.000000Z") }
