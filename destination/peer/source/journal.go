package source

import (
	"slices"

	"resyncd/destination/feed"
	"resyncd/destination/rsdoc"
)

// event is an entry of a Change List, a notification or a feed: a new state of a resource, a document of the framework
// that has come or changed, or an edit of a record.
type event struct {
	at   rsdoc.Micros
	kind rsdoc.Change // of an edit none
	*record
	*document
	edit *feed.Edit
}

// history is a sequence of events that grows at its end. Their numbers count from 1; the oldest may be forgotten. The
// Source's lock guards it, but events are only appended behind those that span returned.
type history struct {
	events []event
	past   int // forgotten
	// newest is the instant of the newest event, or of the beginning; changed is since when a feed of it shows what it
	// shows.
	newest, changed rsdoc.Micros
	readers         []*channel
}

func newHistory(begin rsdoc.Micros) *history { return &history{newest: begin, changed: begin} }

// total is the number of the newest event.
func (h *history) total() int { return h.past + len(h.events) }

// add adds an event and wakes those who tell of it.
func (h *history) add(e event) {
	h.events = append(h.events, e)
	h.newest, h.changed = e.at, e.at
	for _, c := range h.readers {
		c.added()
	}
}

// span returns the events after the from-th up to the to-th.
func (h *history) span(from, to int) []event { return h.events[from-h.past : to-h.past : to-h.past] }

// forget forgets the events up to the n-th, but none that somebody has still to tell.
func (h *history) forget(n int) {
	for _, c := range h.readers {
		n = min(n, c.told)
	}
	if n > h.past {
		h.events, h.past = h.events[n-h.past:], n
	}
}

// changeList is one Change List: the changes after the first up to the last. With until it is closed and never changes
// again.
type changeList struct {
	name        string // last part of its URI, never used again
	from, until rsdoc.Micros
	first, last int
}

func (l *changeList) closed() bool { return l.until.Known() }

// journal is a chain of Change Lists without holes. A list that is closed keeps its URI, so that its readers see
// `until` and go to the index [9, 12].
type journal struct {
	*history
	lists      []changeList // oldest first, the open one last
	archived   []changeList // oldest first
	size       int          // changes in a list
	keep       int          // closed ones in lists; negative: all
	archive    int
	closedOnly bool // the open list is not published
	// capabilities is since when the Capability List is what it is, and archiving since when there is an archive.
	capabilities, archiving rsdoc.Micros
}

func newJournal(o Options, from rsdoc.Micros) *journal {
	return &journal{
		history: newHistory(from), size: o.ChangeListSize, keep: o.KeepChangeLists, archive: o.Archive,
		closedOnly: o.ClosedLists, lists: []changeList{newChangeList(from, 0)}, capabilities: from,
		archiving: rsdoc.NoTime,
	}
}

func newChangeList(from rsdoc.Micros, first int) changeList {
	return changeList{name: stamp(from) + ".xml", from: from, until: rsdoc.NoTime, first: first, last: first}
}

func (j *journal) open() *changeList { return &j.lists[len(j.lists)-1] }

// add adds a change; full: the list is to be closed.
func (j *journal) add(c event) (full bool) {
	j.history.add(c)
	l := j.open()
	l.last++
	return l.last-l.first >= j.size
}

func (j *journal) rotate(at rsdoc.Micros) {
	indexed := j.indexed()
	j.open().until = at
	j.lists = append(j.lists, newChangeList(at, j.total()))
	if n := len(j.lists) - 1 - j.keep; j.keep >= 0 && n > 0 {
		j.archived = append(j.archived, j.lists[:n]...)
		j.lists = slices.Delete(j.lists, 0, n)
	}
	if n := len(j.archived) - j.archive; n > 0 {
		j.archived = slices.Delete(j.archived, 0, n)
	}
	j.forget(j.all()[0].first)
	j.changed = at
	if !j.archiving.Known() && len(j.archived) > 0 {
		j.archiving, j.capabilities = at, at
	}
	if indexed != j.indexed() {
		j.capabilities = at
	}
}

// indexed reports whether the Capability List names the index, or the only list itself.
func (j *journal) indexed() bool { return j.closedOnly || len(j.lists) > 1 }

func (j *journal) published() []changeList {
	if j.closedOnly {
		return j.lists[:len(j.lists)-1]
	}
	return j.lists
}

func (j *journal) all() []changeList { return slices.Concat(j.archived, j.lists) }

// lookup finds a published list and its changes.
func (j *journal) lookup(name string) (changeList, []event, bool) {
	for _, l := range slices.Concat(j.archived, j.published()) {
		if l.name == name {
			return l, j.span(l.first, l.last), true
		}
	}
	return changeList{}, nil, false
}

// reaches is from when on the index covers every change.
func (j *journal) reaches() rsdoc.Micros { return j.lists[0].from }

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

// announceList announces a new Resource List; the caller holds the lock. A list that is taken anew for each reader is
// not announced: each announcement would bring the reader that makes the next.
func (s *Source) announceList(n, before *snapshot) {
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
