package source

import (
	"iter"
	"slices"

	"resyncd/destination/rsdoc"
)

// documentChange is a document of the framework that has come or changed, never an index.
type documentChange struct {
	loc    string
	kind   rsdoc.Kind
	change rsdoc.Change
	index  string // the index over the document, if there is one
	at     rsdoc.Micros
}

// announce queues document changes; the caller holds the lock, and the documents can be fetched.
func (s *Source) announce(all ...documentChange) {
	if s.framework == nil {
		return
	}
	for _, d := range all {
		// The two values of `up` never share a notification.
		up := s.at(capabilityList)
		if d.kind == rsdoc.KindCapabilityList {
			up = s.Description()
		}
		b := s.framework.room(400+len(d.loc)+len(d.index), up)
		b.documents = append(b.documents, d)
	}
}

// rotate closes the open Change List, opens the next and announces both; the caller holds the lock.
func (s *Source) rotate() {
	s.journal.rotate(s.clock.tick())
	if s.framework == nil {
		return
	}
	j := s.journal
	opened, closed := j.lists[len(j.lists)-1], j.lists[len(j.lists)-2]
	announce := func(name string, kind rsdoc.Kind, change rsdoc.Change, index string) {
		s.announce(documentChange{loc: s.at(name), kind: kind, change: change, index: index, at: opened.from})
	}
	index := s.at(changeListIndex)
	if j.closedOnly {
		announce(changeListPart+closed.name, rsdoc.KindChangeList, rsdoc.ChangeCreated, index)
	} else {
		announce(changeListPart+closed.name, rsdoc.KindChangeList, rsdoc.ChangeUpdated, index)
		announce(changeListPart+opened.name, rsdoc.KindChangeList, rsdoc.ChangeCreated, index)
	}
	switch {
	case j.archiving == opened.from:
		announce(changeListArchive, rsdoc.KindChangeListArchive, rsdoc.ChangeCreated, "")
	case j.archiving.Known():
		announce(changeListArchive, rsdoc.KindChangeListArchive, rsdoc.ChangeUpdated, "")
	}
	if j.capabilities == opened.from {
		announce(capabilityList, rsdoc.KindCapabilityList, rsdoc.ChangeUpdated, "")
	}
}

// announceList announces a new Resource List; the caller holds s.lists.mu. A list that is taken anew for each reader is
// not announced: each announcement would bring the reader that makes the next.
func (s *Source) announceList(n, before *snapshot) {
	if s.framework == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listAge() <= 0 {
		return
	}
	d := documentChange{loc: s.at(resourceList), kind: rsdoc.KindResourceList, at: n.completed}
	d.change = rsdoc.ChangeUpdated
	switch {
	case len(n.starts) > 1:
		d.loc, d.index, d.change = s.at(resourceListPart+n.partName(0)), s.at(resourceList), rsdoc.ChangeCreated
	case before == nil:
		d.change = rsdoc.ChangeCreated
	}
	s.announce(d)
}

func documentEntries(all []documentChange) iter.Seq[*rsdoc.Entry] {
	return eachEntry(slices.Values(all), func(e *rsdoc.Entry, d documentChange) {
		*e = rsdoc.NewEntry(d.loc)
		e.Capability, e.Change, e.Datetime = d.kind, d.change, d.at
		if d.index != "" {
			e.Links = []rsdoc.Link{rsdoc.NewLink(rsdoc.RelIndex, d.index)}
		}
	})
}
