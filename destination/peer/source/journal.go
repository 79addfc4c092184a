package source

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

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
	options  *Options
	lists    []changeList // oldest first, the open one last
	archived []changeList // oldest first
	// capabilities is since when the Capability List is what it is, and archiving since when there is an archive.
	capabilities, archiving rsdoc.Micros
}

func newJournal(o *Options, from rsdoc.Micros) *journal {
	return &journal{
		history: newHistory(from), options: o, lists: []changeList{newChangeList(from, 0)},
		capabilities: from, archiving: rsdoc.NoTime,
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
	return l.last-l.first >= j.options.ChangeListSize
}

func (j *journal) rotate(at rsdoc.Micros) {
	indexed := j.indexed()
	j.open().until = at
	j.lists = append(j.lists, newChangeList(at, j.total()))
	if keep := j.options.KeepChangeLists; keep >= 0 && len(j.lists)-1 > keep {
		n := len(j.lists) - 1 - keep
		j.archived = append(j.archived, j.lists[:n]...)
		j.lists = slices.Delete(j.lists, 0, n)
	}
	if n := len(j.archived) - j.options.Archive; n > 0 {
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
func (j *journal) indexed() bool { return j.options.ClosedLists || len(j.lists) > 1 }

func (j *journal) published() []changeList {
	if j.options.ClosedLists {
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
	s.state.ended(s, at)
	opened := changeListPart + j.open().name
	if j.options.ClosedLists {
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
	patch    *patch  // from the version before, of one that is published next or in the history
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

// snapshot is one Resource List or Resource Dump. It stays as it is, so that its parts belong together (F67, F69); only
// a dump is completed later, when its packages are gathered.
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
	if current != nil && !s.due(current, s.listAge()) {
		return current
	}
	next := s.snapshot(s.options.ListSize)
	s.lists = [2]*snapshot{next, current}
	s.announceList(next, current)
	return next
}

// snapshot takes one; the caller holds the lock.
func (s *Source) snapshot(size int) *snapshot {
	n := &snapshot{at: s.clock.tick(), size: size, changes: s.journal.total()}
	n.records, n.completed = alive(slices.Clone(s.catalog.all)), s.instant()
	return n
}

// due reports whether a snapshot is too old; the caller holds the lock.
func (s *Source) due(current *snapshot, least time.Duration) bool {
	return s.journal.reaches() > current.at || s.journal.total() != current.changes && s.age(current.at) >= least
}

// age is how long ago an instant was.
func (s *Source) age(at rsdoc.Micros) time.Duration {
	return time.Duration(s.options.Now().UnixMicro()-int64(at)) * time.Microsecond
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
