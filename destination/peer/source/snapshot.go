package source

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"resyncd/destination/rsdoc"
)

// snapshot is one Resource List. It never changes, so that its parts belong together (F67, F69).
type snapshot struct {
	frozen
	at, completed rsdoc.Micros
	serial        uint64 // the changes that it contains
	starts        []int  // the slot at which each part begins
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
	next := &snapshot{at: s.clock.tick(), frozen: s.catalog.freeze(), serial: s.serial}
	next.completed = s.clock.tick()
	s.mu.Unlock()
	next.divide(s.options.ListSize)
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
	return s.serial != current.serial && age >= s.listAge()
}

// listAge is the least age before a new list is taken; the caller holds the lock.
func (s *Source) listAge() time.Duration {
	if s.options.ListEvery == 0 && s.catalog.live > s.options.ListSize {
		return time.Minute + time.Duration(s.catalog.live)*time.Millisecond
	}
	return s.options.ListEvery
}

func (n *snapshot) divide(size int) {
	count := 0
	for slot := range n.slots {
		if !n.frozen.at(slot).live {
			continue
		}
		if count%size == 0 {
			n.starts = append(n.starts, slot)
		}
		count++
	}
	if len(n.starts) == 0 {
		n.starts = []int{0}
	}
}

func (n *snapshot) end(part int) int {
	if part+1 < len(n.starts) {
		return n.starts[part+1]
	}
	return n.slots
}

// partName ends the URI of a part. No other Resource List has it.
func (n *snapshot) partName(part int) string { return fmt.Sprintf("%s-%05d.xml", stamp(n.at), part+1) }

// part finds a part of the current Resource List or the one before.
func (s *Source) part(name string) (*snapshot, int, bool) {
	s.lists.mu.Lock()
	defer s.lists.mu.Unlock()
	part := numberIn(name) - 1
	for _, n := range []*snapshot{s.lists.current, s.lists.previous} {
		if n != nil && len(n.starts) > 1 && part >= 0 && part < len(n.starts) && n.partName(part) == name {
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
