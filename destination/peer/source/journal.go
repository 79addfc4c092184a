package source

import (
	"slices"

	"resyncd/destination/rsdoc"
)

// change is one entry of a Change List.
type change struct {
	slot int
	kind rsdoc.Change
	at   rsdoc.Micros
	record
}

// changeList is one Change List. With until it is closed and nothing in it is ever written again.
type changeList struct {
	name        string // last part of its URI; made from its beginning, so no later run of the program reuses it
	from, until rsdoc.Micros
	changes     []change
}

func (l *changeList) closed() bool { return l.until.Known() }

// journal is the history: a chain of Change Lists in which each begins where the one before ended. A list that is closed
// keeps its URI, so that whoever polls it sees `until` and goes to the index [9, 12].
type journal struct {
	lists      []*changeList // oldest first, the open one last
	archived   []*changeList // oldest first
	size       int           // changes in a list
	keep       int           // closed ones in lists; negative: all
	archive    int
	closedOnly bool         // the open list is not published
	past       int          // changes in lists that are in neither
	newest     rsdoc.Micros // the instant of the newest change; before the first, the beginning
	rotations  uint64       // what the index and the archive say depends on these alone
	// capabilities is the instant since when the Capability List is what it is: it changes when an index or archive
	// appears.
	capabilities rsdoc.Micros
}

func newJournal(o Options, from rsdoc.Micros) *journal {
	return &journal{
		size: o.ChangeListSize, keep: o.KeepChangeLists, archive: o.Archive, closedOnly: o.ClosedLists,
		lists: []*changeList{newChangeList(from)}, capabilities: from, newest: from,
	}
}

func newChangeList(from rsdoc.Micros) *changeList {
	return &changeList{name: stamp(from) + ".xml", from: from, until: rsdoc.NoTime}
}

func (j *journal) open() *changeList { return j.lists[len(j.lists)-1] }

// add appends a change and closes the list when it is full.
func (j *journal) add(c change, clock *clock) {
	l := j.open()
	l.changes = append(l.changes, c)
	j.newest = c.at
	if len(l.changes) >= j.size {
		j.rotate(clock.tick())
	}
}

// rotate closes the open list at an instant later than its last change and opens the next one there.
func (j *journal) rotate(at rsdoc.Micros) {
	indexed, archived := j.indexed(), len(j.archived) > 0
	l := j.open()
	l.until = at
	l.changes = slices.Clip(l.changes)
	j.lists = append(j.lists, newChangeList(at))
	j.rotations++
	for j.keep >= 0 && len(j.lists)-1 > j.keep {
		if j.archive > 0 {
			j.archived = append(j.archived, j.lists[0])
		} else {
			j.past += len(j.lists[0].changes)
		}
		j.lists = slices.Delete(j.lists, 0, 1)
	}
	if n := len(j.archived) - j.archive; n > 0 {
		for _, l := range j.archived[:n] {
			j.past += len(l.changes)
		}
		j.archived = slices.Delete(j.archived, 0, n)
	}
	if indexed != j.indexed() || archived != (len(j.archived) > 0) {
		j.capabilities = at
	}
}

// indexed tells whether the Capability List names the index: always when only closed lists are published, else as soon as
// there are two.
func (j *journal) indexed() bool { return j.closedOnly || len(j.lists) > 1 }

// published lists those that the index names.
func (j *journal) published() []*changeList {
	if j.closedOnly {
		return j.lists[:len(j.lists)-1]
	}
	return j.lists
}

// copyLists makes copies that are safe to read without the lock: changes are only ever appended behind the end that a
// copy knows.
func copyLists(lists []*changeList) []changeList {
	out := make([]changeList, len(lists))
	for i, l := range lists {
		out[i] = *l
	}
	return out
}

// lookup returns a copy of a published or archived list.
func (j *journal) lookup(name string) (changeList, bool) {
	for _, l := range slices.Concat(j.archived, j.published()) {
		if l.name == name {
			return *l, true
		}
	}
	return changeList{}, false
}

// span returns the changes after the from-th up to the to-th of all that ever were; none of them may be forgotten.
func (j *journal) span(from, to int) []change {
	out := make([]change, 0, to-from)
	begin := j.past // changes before the list at hand
	for _, l := range slices.Concat(j.archived, j.lists) {
		n := len(l.changes)
		if low, high := max(from-begin, 0), min(to-begin, n); low < high {
			out = append(out, l.changes[low:high]...)
		}
		begin += n
	}
	return out
}

// reaches is the instant from which on the index covers every change.
func (j *journal) reaches() rsdoc.Micros { return j.lists[0].from }
