package source

import (
	"fmt"
	"io"
	"iter"
	"strings"

	"resyncd/destination/rsdoc"
)

// Where the documents are, below the root. The folder begins with a dot so that it hardly ever meets a real one.
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

// Where the record feed is, if there is one: the name that the Resource Finder gave it. What is below is its archives.
const (
	recordFeed        = "feeds/delta"
	recordFeedArchive = recordFeed + "/"
)

// document is one ResourceSync document, written as often as it is asked for and never held as a whole.
type document struct {
	// tag is the same for two documents at one URI exactly when they are the same byte by byte.
	tag      string
	modified rsdoc.Micros
	head     rsdoc.Head
	entries  iter.Seq[*rsdoc.Entry] // each is valid until the next
}

// document finds the document at a path.
func (s *Source) document(name string) (document, bool) {
	switch name {
	case wellKnown:
		return s.descriptionDocument(), true
	case capabilityList:
		return s.capabilityDocument(), true
	case resourceList:
		n := s.resourceList()
		if len(n.starts) > 1 {
			return s.resourceIndexDocument(n), true
		}
		return s.resourceDocument(n, 0), true
	case changeListIndex:
		return s.changeIndexDocument(), true
	case changeListArchive:
		return s.archiveDocument()
	}
	if part, ok := strings.CutPrefix(name, resourceListPart); ok {
		if n, i, ok := s.part(part); ok {
			return s.resourceDocument(n, i), true
		}
	}
	if part, ok := strings.CutPrefix(name, changeListPart); ok {
		s.mu.RLock()
		l, ok := s.journal.lookup(part)
		s.mu.RUnlock()
		if ok {
			return s.changeDocument(l), true
		}
	}
	return document{}, false
}

func (s *Source) descriptionDocument() document {
	head := newHead(rsdoc.List, rsdoc.KindDescription)
	head.Links = s.describedBy(nil)
	entry := newEntry(s.at(capabilityList))
	entry.Capability = rsdoc.KindCapabilityList
	return document{tag: "d", modified: s.begin, head: head, entries: sequence(entry)}
}

func (s *Source) capabilityDocument() document {
	s.mu.RLock()
	shaped, changes, archived := s.journal.shaped, changeListIndex, len(s.journal.archived) > 0
	if !s.journal.indexed() {
		changes = changeListPart + s.journal.open().name
	}
	s.mu.RUnlock()
	head := newHead(rsdoc.List, rsdoc.KindCapabilityList, rsdoc.NewLink(rsdoc.RelUp, s.at(wellKnown)))
	head.Links = s.describedBy(head.Links)
	entries := []*rsdoc.Entry{newEntry(s.at(resourceList)), newEntry(s.at(changes))}
	entries[0].Capability, entries[1].Capability = rsdoc.KindResourceList, rsdoc.KindChangeList
	if archived {
		entry := newEntry(s.at(changeListArchive))
		entry.Capability = rsdoc.KindChangeListArchive
		entries = append(entries, entry)
	}
	for _, c := range s.setChannels() {
		entry := newEntry(s.at(c.name))
		entry.Capability, entry.Links = c.kind, []rsdoc.Link{rsdoc.NewLink(rsdoc.RelHub, c.hub.url)}
		entries = append(entries, entry)
	}
	return document{tag: fmt.Sprintf("c%x", int64(shaped)), modified: shaped, head: head, entries: sequence(entries...)}
}

func (s *Source) describedBy(links []rsdoc.Link) []rsdoc.Link {
	if s.options.DescribedBy == "" {
		return links
	}
	return append(links, rsdoc.NewLink(rsdoc.RelDescribedBy, s.options.DescribedBy))
}

// at is the URI of a document.
func (s *Source) at(name string) string { return s.options.Base + "/" + name }

// write writes the document as a stream.
func (s *Source) write(w io.Writer, d document) error {
	out, err := rsdoc.NewWriter(w, d.head)
	if err != nil {
		return err
	}
	out.Spec10 = s.options.Spec == "1.0"
	for entry := range d.entries {
		if err := out.Write(entry); err != nil {
			return err
		}
	}
	return out.Close()
}

func newHead(shape rsdoc.Shape, kind rsdoc.Kind, links ...rsdoc.Link) rsdoc.Head {
	head := rsdoc.NewHead(shape, kind)
	head.Links = links
	return head
}

func newEntry(loc string) *rsdoc.Entry {
	e := rsdoc.NewEntry(loc)
	return &e
}

func sequence(entries ...*rsdoc.Entry) iter.Seq[*rsdoc.Entry] {
	return func(yield func(*rsdoc.Entry) bool) {
		for _, e := range entries {
			if !yield(e) {
				return
			}
		}
	}
}
