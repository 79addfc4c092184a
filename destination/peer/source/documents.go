package source

import (
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"resyncd/destination/rsdoc"
)

// Where the documents are, below the root. The dot keeps the folder apart from real ones.
const (
	wellKnown         = ".well-known/resourcesync"
	documents         = ".resourcesync"
	capabilityList    = documents + "/capabilitylist.xml"
	resourceList      = documents + "/resourcelist.xml" // the list, or the index once the set is too large for one
	resourceListPart  = documents + "/resourcelist/"
	changeListIndex   = documents + "/changelist.xml"
	changeListPart    = documents + "/changelist/"
	changeListArchive = documents + "/changelist-archive.xml"
	changeTopic       = documents + "/topic/change"
	frameworkTopic    = documents + "/topic/framework"
	changeFeed        = documents + "/feed/changes.atom"
	changeFeedArchive = documents + "/feed/changes/"
)

// Where the record feed is: the name that the Resource Finder gave it. Its archives are below.
const (
	recordFeed        = "feeds/delta"
	recordFeedArchive = recordFeed + "/"
)

// document is a document, feed or topic. fetched: somebody reads it.
func (s *Source) document(name string, fetched bool) (text, error) {
	if f, archive := s.feedAt(name); f != nil {
		return f.text(archive, fetched)
	}
	for _, c := range s.setChannels() {
		if c.name == name {
			return c.text(fetched), nil
		}
	}
	switch name {
	case wellKnown:
		return s.descriptionDocument(), nil
	case capabilityList:
		return s.capabilityDocument(), nil
	case resourceList:
		n := s.resourceList()
		if n.parts() > 1 {
			return s.resourceIndexDocument(n), nil
		}
		return s.resourceDocument(n, 0), nil
	case changeListIndex:
		return s.changeIndexDocument(), nil
	case changeListArchive:
		return s.archiveDocument()
	}
	if part, ok := strings.CutPrefix(name, resourceListPart); ok {
		if n, i, ok := s.part(part); ok {
			return s.resourceDocument(n, i), nil
		}
	}
	if part, ok := strings.CutPrefix(name, changeListPart); ok {
		s.mu.RLock()
		l, changes, ok := s.journal.lookup(part)
		s.mu.RUnlock()
		if ok {
			return s.changeDocument(l, changes), nil
		}
	}
	return text{}, errAbsent
}

// newDocument is a ResourceSync document, written anew each time and never held as a whole. Each of its entries is
// valid until the next.
func (s *Source) newDocument(tag string, modified rsdoc.Micros, head rsdoc.Head, entries iter.Seq[*rsdoc.Entry]) text {
	return text{
		tag: tag, modified: modified, mediaType: "application/xml",
		write: func(w io.Writer) error { return s.write(w, head, entries) },
	}
}

func (s *Source) descriptionDocument() text {
	head := rsdoc.NewHead(rsdoc.List, rsdoc.KindDescription)
	head.Links = s.describedBy()
	entries := []*rsdoc.Entry{s.capability(capabilityList, rsdoc.KindCapabilityList)}
	return s.newDocument("d", s.begin, head, slices.Values(entries))
}

func (s *Source) capabilityDocument() text {
	s.mu.RLock()
	since, changes, archived := s.journal.capabilities, changeListIndex, len(s.journal.archived) > 0
	if !s.journal.indexed() {
		changes = changeListPart + s.journal.open().name
	}
	s.mu.RUnlock()
	head := rsdoc.NewHead(rsdoc.List, rsdoc.KindCapabilityList)
	head.Links = append([]rsdoc.Link{rsdoc.NewLink(rsdoc.RelUp, s.Description())}, s.describedBy()...)
	entries := []*rsdoc.Entry{
		s.capability(resourceList, rsdoc.KindResourceList), s.capability(changes, rsdoc.KindChangeList),
	}
	if archived {
		entries = append(entries, s.capability(changeListArchive, rsdoc.KindChangeListArchive))
	}
	for _, c := range s.setChannels() {
		entry := s.capability(c.name, c.kind)
		entry.Links = []rsdoc.Link{rsdoc.NewLink(rsdoc.RelHub, c.hub.url)}
		entries = append(entries, entry)
	}
	return s.newDocument(fmt.Sprintf("c%x", int64(since)), since, head, slices.Values(entries))
}

func (s *Source) describedBy() []rsdoc.Link {
	if s.options.DescribedBy == "" {
		return nil
	}
	return []rsdoc.Link{rsdoc.NewLink(rsdoc.RelDescribedBy, s.options.DescribedBy)}
}

// capability is an entry for a document of the framework.
func (s *Source) capability(name string, kind rsdoc.Kind) *rsdoc.Entry {
	e := rsdoc.NewEntry(s.at(name))
	e.Capability = kind
	return &e
}

// newHead is the head of a document below the Capability List.
func (s *Source) newHead(shape rsdoc.Shape, kind rsdoc.Kind) rsdoc.Head {
	head := rsdoc.NewHead(shape, kind)
	head.Links = []rsdoc.Link{rsdoc.NewLink(rsdoc.RelUp, s.at(capabilityList))}
	return head
}

func (s *Source) write(w io.Writer, head rsdoc.Head, entries iter.Seq[*rsdoc.Entry]) error {
	out, err := rsdoc.NewWriter(w, head)
	if err != nil {
		return err
	}
	out.Spec10 = s.options.Spec == "1.0"
	for entry := range entries {
		if err := out.Write(entry); err != nil {
			return err
		}
	}
	return out.Close()
}
