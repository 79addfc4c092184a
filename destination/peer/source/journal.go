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

// changeList is one Change List. With until it is closed and never changes again.
type changeList struct {
	name        string // last part of its URI, never used again
	from, until rsdoc.Micros
	changes     []change
}

func (l *changeList) closed() bool { return l.until.Known() }

// journal is a chain of Change Lists without holes. A list that is closed keeps its URI, so that its readers see
// `until` and go to the index [9, 12].
type journal struct {
	lists      []*changeList // oldest first, the open one last
	archived   []*changeList // oldest first
	size       int           // changes in a list
	keep       int           // closed ones in lists; negative: all
	archive    int
	closedOnly bool         // the open list is not published
	past       int          // changes in forgotten lists
	newest     rsdoc.Micros // instant of the newest change
	// capabilities is since when the Capability List is what it is, and archiving since when there is an archive.
	capabilities, archiving rsdoc.Micros
}

func newJournal(o Options, from rsdoc.Micros) *journal {
	return &journal{
		size: o.ChangeListSize, keep: o.KeepChangeLists, archive: o.Archive, closedOnly: o.ClosedLists,
		lists: []*changeList{newChangeList(from)}, capabilities: from, newest: from, archiving: rsdoc.NoTime,
	}
}

func newChangeList(from rsdoc.Micros) *changeList {
	return &changeList{name: stamp(from) + ".xml", from: from, until: rsdoc.NoTime}
}

func (j *journal) open() *changeList { return j.lists[len(j.lists)-1] }

// add adds a change; full: the list is to be closed.
func (j *journal) add(c change) (full bool) {
	l := j.open()
	l.changes = append(l.changes, c)
	j.newest = c.at
	return len(l.changes) >= j.size
}

func (j *journal) rotate(at rsdoc.Micros) {
	indexed := j.indexed()
	l := j.open()
	l.until = at
	l.changes = slices.Clip(l.changes)
	j.lists = append(j.lists, newChangeList(at))
	for j.keep >= 0 && len(j.lists)-1 > j.keep {
		j.archived = append(j.archived, j.lists[0])
		j.lists = slices.Delete(j.lists, 0, 1)
	}
	if n := len(j.archived) - j.archive; n > 0 {
		for _, l := range j.archived[:n] {
			j.past += len(l.changes)
		}
		j.archived = slices.Delete(j.archived, 0, n)
	}
	if !j.archiving.Known() && len(j.archived) > 0 {
		j.archiving, j.capabilities = at, at
	}
	if indexed != j.indexed() {
		j.capabilities = at
	}
}

// indexed reports whether the Capability List names the index, or the only list itself.
func (j *journal) indexed() bool { return j.closedOnly || len(j.lists) > 1 }

func (j *journal) published() []*changeList {
	if j.closedOnly {
		return j.lists[:len(j.lists)-1]
	}
	return j.lists
}

// copyLists copies lists to read without the lock: changes are only appended behind the end of a copy.
func copyLists(lists []*changeList) []changeList {
	out := make([]changeList, len(lists))
	for i, l := range lists {
		out[i] = *l
	}
	return out
}

func (j *journal) lookup(name string) (changeList, bool) {
	for _, l := range slices.Concat(j.archived, j.published()) {
		if l.name == name {
			return *l, true
		}
	}
	return changeList{}, false
}

// span returns the changes after the from-th up to the to-th.
func (j *journal) span(from, to int) []change {
	out := make([]change, 0, to-from)
	begin := j.past
	for _, l := range slices.Concat(j.archived, j.lists) {
		n := len(l.changes)
		if low, high := max(from-begin, 0), min(to-begin, n); low < high {
			out = append(out, l.changes[low:high]...)
		}
		begin += n
	}
	return out
}

// reaches is from when on the index covers every change.
func (j *journal) reaches() rsdoc.Micros { return j.lists[0].from }
