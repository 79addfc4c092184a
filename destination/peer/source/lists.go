package source

import (
	"fmt"
	"iter"
	"slices"

	"resyncd/destination/rsdoc"
)

// resourceDocument is a Resource List: the only one, or a part [10].
func (s *Source) resourceDocument(n *snapshot, part int) text {
	head := s.newHead(rsdoc.List, rsdoc.KindResourceList)
	if len(n.starts) > 1 {
		head.Links = append(head.Links, rsdoc.NewLink(rsdoc.RelIndex, s.at(resourceList)))
	}
	head.At, head.Completed = n.at, n.completed
	slots := func(yield func(int) bool) {
		for slot := n.starts[part]; slot < n.end(part); slot++ {
			if n.frozen.at(slot).live && !yield(slot) {
				return
			}
		}
	}
	entries := eachEntry(slots, func(e *rsdoc.Entry, slot int) { s.describe(e, slot, n.frozen.at(slot)) })
	return s.newDocument(fmt.Sprintf("r%x.%d", int64(n.at), part), n.at, head, entries)
}

func (s *Source) resourceIndexDocument(n *snapshot) text {
	head := s.newHead(rsdoc.Index, rsdoc.KindResourceList)
	head.At, head.Completed = n.at, n.completed
	var parts []string
	for part := range n.starts {
		parts = append(parts, n.partName(part))
	}
	entries := eachEntry(slices.Values(parts), func(e *rsdoc.Entry, name string) {
		*e = rsdoc.NewEntry(s.at(resourceListPart + name))
		e.At, e.Completed = n.at, n.completed
	})
	return s.newDocument(fmt.Sprintf("i%x", int64(n.at)), n.at, head, entries)
}

// changeDocument is a Change List [12]. One that is open grows at its end.
func (s *Source) changeDocument(l changeList) text {
	head := s.newHead(rsdoc.List, rsdoc.KindChangeList)
	head.Links = append(head.Links, rsdoc.NewLink(rsdoc.RelIndex, s.at(changeListIndex)))
	head.From, head.Until = l.from, l.until
	modified := l.from
	if n := len(l.changes); n > 0 {
		modified = l.changes[n-1].at
	}
	if l.closed() {
		modified = l.until
	}
	tag := fmt.Sprintf("l%x.%d.%t", int64(l.from), len(l.changes), l.closed())
	return s.newDocument(tag, modified, head, s.changeEntries(l.changes))
}

func (s *Source) changeEntries(changes []change) iter.Seq[*rsdoc.Entry] {
	return eachEntry(slices.Values(changes), func(e *rsdoc.Entry, c change) {
		s.describe(e, c.slot, &c.record)
		e.Change, e.Datetime = c.kind, c.at
	})
}

// changeIndexDocument is the Change List Index [12.2], which has no `until`.
func (s *Source) changeIndexDocument() text {
	s.mu.RLock()
	lists := copyLists(s.journal.published())
	modified, from := s.journal.open().from, s.journal.reaches()
	archived := len(s.journal.archived) > 0
	s.mu.RUnlock()
	head := s.newHead(rsdoc.Index, rsdoc.KindChangeList)
	if archived {
		head.Links = append(head.Links, rsdoc.NewLink(rsdoc.RelArchives, s.at(changeListArchive)))
	}
	head.From = from
	return s.newDocument(fmt.Sprintf("j%x", int64(modified)), modified, head, s.intervals(lists))
}

// archiveDocument lists the Change Lists that have left the index (Archives 2).
func (s *Source) archiveDocument() (text, error) {
	s.mu.RLock()
	lists := copyLists(s.journal.archived)
	modified := s.journal.open().from
	s.mu.RUnlock()
	if len(lists) == 0 {
		return text{}, errAbsent
	}
	head := s.newHead(rsdoc.List, rsdoc.KindChangeListArchive)
	return s.newDocument(fmt.Sprintf("a%x", int64(modified)), modified, head, s.intervals(lists)), nil
}

// intervals lists Change Lists, oldest first.
func (s *Source) intervals(lists []changeList) iter.Seq[*rsdoc.Entry] {
	return eachEntry(slices.Values(lists), func(e *rsdoc.Entry, l changeList) {
		*e = rsdoc.NewEntry(s.at(changeListPart + l.name))
		e.From, e.Until = l.from, l.until
	})
}

// eachEntry writes what fill says about each of all. An entry is valid until the next.
func eachEntry[T any](all iter.Seq[T], fill func(*rsdoc.Entry, T)) iter.Seq[*rsdoc.Entry] {
	return func(yield func(*rsdoc.Entry) bool) {
		var entry rsdoc.Entry
		for one := range all {
			fill(&entry, one)
			if !yield(&entry) {
				return
			}
		}
	}
}

// describe fills an entry with what is known about a resource, of a dead one its URI alone. It uses the slices again.
func (s *Source) describe(entry *rsdoc.Entry, slot int, rec *record) {
	name, digests := s.catalog.name(slot, rec), entry.Digests[:0]
	*entry = rsdoc.NewEntry(s.URI(name))
	entry.Digests = digests
	if rec.live {
		entry.Digests = s.digests.append(digests, rec)
		entry.Length, entry.Type, entry.LastMod = rec.length, s.mediaType(name), seconds(rec.modified)
	}
}

// seconds is a Last-Modified time, or none where W3C Datetime cannot write it.
func seconds(unix int64) rsdoc.Micros {
	if unix < -62_135_596_800 || unix > 253_402_300_799 {
		return rsdoc.NoTime
	}
	return rsdoc.Micros(unix * 1_000_000)
}
