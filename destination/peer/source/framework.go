package source

import "resyncd/destination/rsdoc"

// document is a document of the framework, never an index.
type document struct {
	loc   string
	kind  rsdoc.Kind
	index string // the index over the document, if there is one
}

// announce queues that a document has come or changed; the caller holds the lock, and the document can be fetched.
func (s *Source) announce(at rsdoc.Micros, change rsdoc.Change, kind rsdoc.Kind, name, index string) {
	if s.framework == nil {
		return
	}
	d := &document{loc: s.at(name), kind: kind}
	if index != "" {
		d.index = s.at(index)
	}
	s.framework.history.add(event{at: at, kind: change, document: d})
}

// rotate closes the open Change List, opens the next and announces both; the caller holds the lock.
func (s *Source) rotate() {
	j := s.journal
	closed := changeListPart + j.open().name
	at := s.clock.tick()
	j.rotate(at)
	opened := changeListPart + j.open().name
	if j.closedOnly {
		s.announce(at, rsdoc.ChangeCreated, rsdoc.KindChangeList, closed, changeListIndex)
	} else {
		s.announce(at, rsdoc.ChangeUpdated, rsdoc.KindChangeList, closed, changeListIndex)
		s.announce(at, rsdoc.ChangeCreated, rsdoc.KindChangeList, opened, changeListIndex)
	}
	switch {
	case j.archiving == at:
		s.announce(at, rsdoc.ChangeCreated, rsdoc.KindChangeListArchive, changeListArchive, "")
	case j.archiving.Known():
		s.announce(at, rsdoc.ChangeUpdated, rsdoc.KindChangeListArchive, changeListArchive, "")
	}
	if j.capabilities == at {
		s.announce(at, rsdoc.ChangeUpdated, rsdoc.KindCapabilityList, capabilityList, "")
	}
}

// announceList announces a new Resource List; the caller holds s.lists.mu. A list that is taken anew for each reader is
// not announced: each announcement would bring the reader that makes the next.
func (s *Source) announceList(n, before *snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.listAge() <= 0:
	case n.parts() > 1:
		first := resourceListPart + n.partName(0)
		s.announce(n.completed, rsdoc.ChangeCreated, rsdoc.KindResourceList, first, resourceList)
	case before == nil:
		s.announce(n.completed, rsdoc.ChangeCreated, rsdoc.KindResourceList, resourceList, "")
	default:
		s.announce(n.completed, rsdoc.ChangeUpdated, rsdoc.KindResourceList, resourceList, "")
	}
}
