package source

import "resyncd/destination/rsdoc"

// news is one document of the framework that has come or changed. It never names an index: that is beside it.
type news struct {
	loc    string
	kind   rsdoc.Kind
	change rsdoc.Change
	index  string // the index over the document, if there is one
	at     rsdoc.Micros
}

// tell queues news in the order of their instants. The caller holds the lock, and what the news are about can be fetched.
func (s *Source) tell(all ...news) {
	if s.framework == nil {
		return
	}
	for _, n := range all {
		// News of a capability document lead up to the Capability List, those of a Capability List to the Source
		// Description; so the two never share a notification.
		up := s.at(capabilityList)
		if n.kind == rsdoc.KindCapabilityList {
			up = s.at(wellKnown)
		}
		c := s.framework.out.room(400+len(n.loc)+len(n.index), up)
		c.news = append(c.news, n)
	}
}

// history is what news of the Change Lists depend on.
type history struct {
	rotations uint64
	shaped    rsdoc.Micros
	archived  bool
}

func (s *Source) history() history {
	return history{s.journal.rotations, s.journal.shaped, len(s.journal.archived) > 0}
}

// rotate closes the open Change List and tells of it; the caller holds the lock.
func (s *Source) rotate() {
	before := s.history()
	s.journal.rotate(s.clock.tick())
	s.tellRotation(before)
}

// tellRotation tells what has become of the Change Lists if one was closed; the caller holds the lock.
func (s *Source) tellRotation(before history) {
	now := s.history()
	if s.framework == nil || now.rotations == before.rotations {
		return
	}
	lists := s.journal.lists
	opened, closed := lists[len(lists)-1], lists[len(lists)-2]
	list := func(l *changeList, change rsdoc.Change) news {
		return news{
			loc: s.at(changeListPart + l.name), kind: rsdoc.KindChangeList, change: change, index: s.at(changeListIndex), at: opened.from,
		}
	}
	if s.journal.hidden {
		s.tell(list(closed, rsdoc.ChangeCreated))
	} else {
		s.tell(list(closed, rsdoc.ChangeUpdated), list(opened, rsdoc.ChangeCreated))
	}
	if now.archived {
		change := rsdoc.ChangeUpdated
		if !before.archived {
			change = rsdoc.ChangeCreated
		}
		s.tell(news{loc: s.at(changeListArchive), kind: rsdoc.KindChangeListArchive, change: change, at: opened.from})
	}
	if now.shaped != before.shaped {
		s.tell(news{loc: s.at(capabilityList), kind: rsdoc.KindCapabilityList, change: rsdoc.ChangeUpdated, at: opened.from})
	}
}

// tellList tells of a new Resource List; the caller holds s.lists.mu and has put it in place. A list that is as new as the
// question whenever it is asked for has no editions to tell of: each telling would bring the questions that make the next.
func (s *Source) tellList(n, before *snapshot) {
	if s.framework == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listAge() <= 0 {
		return
	}
	it := news{loc: s.at(resourceList), kind: rsdoc.KindResourceList, change: rsdoc.ChangeUpdated, at: n.completed}
	switch {
	case len(n.starts) > 1:
		it.loc, it.index, it.change = s.at(resourceListPart+n.partName(0)), s.at(resourceList), rsdoc.ChangeCreated
	case before == nil:
		it.change = rsdoc.ChangeCreated
	}
	s.tell(it)
}
