package source

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"resyncd/destination/rsdoc"
)

// snapshot is one Resource List. It never changes, so that its parts belong together (F67, F69).
type snapshot struct {
	records       []*record
	size          int // of a part
	at, completed rsdoc.Micros
	changes       int // that it contains
}

// snapshots are the current Resource List and the one before, which may still be read.
type snapshots struct {
	mu                sync.Mutex // taken before the Source's lock
	current, previous *snapshot
}

// resourceList returns the current Resource List, a new one if that is due. The published Change Lists reach back to
// it.
func (s *Source) resourceList() *snapshot {
	s.lists.mu.Lock()
	defer s.lists.mu.Unlock()
	s.mu.Lock()
	current := s.lists.current
	if current != nil && !s.due(current) {
		s.mu.Unlock()
		return current
	}
	next := &snapshot{at: s.clock.tick(), size: s.options.ListSize, changes: s.journal.total()}
	all := slices.Clone(s.catalog.all)
	next.completed = s.clock.tick()
	s.mu.Unlock()
	next.records = alive(all)
	s.lists.previous, s.lists.current = current, next
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
	s.lists.mu.Lock()
	defer s.lists.mu.Unlock()
	part := numberIn(name) - 1
	for _, n := range []*snapshot{s.lists.current, s.lists.previous} {
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
