package source

import (
	"slices"

	"resyncd/destination/rsdoc"
)

// change is one entry of a Change List.
type change struct {
	slot     int
	name     string
	kind     rsdoc.Change
	at       rsdoc.Micros
	sum      [32]byte
	sums     string
	length   int64
	modified int64
}

// changeList is one Change List. With until it is closed and nothing in it is ever written again.
type changeList struct {
	name        string // last part of its URI; made from its beginning, so no later run of the program reuses it
	from, until rsdoc.Micros
	changes     []change
}

func (l *changeList) closed() bool { return l.until.Known() }

// journal is the history: a chain of Change Lists in which each begins where the one before ended. The last list is open
// (not published in closed mode). Rotation keeps the URI of the list that is closed, and the new one gets a new URI, so
// that whoever polls the old one sees `until` and goes to the index [9, 12].
type journal struct {
	lists    []*changeList // oldest first, the open one last
	archived []*changeList // oldest first
	size     int           // changes in a list
	keep     int           // closed ones in lists; negative: all
	archive  int
	hidden   bool         // the open list is not published
	past     int          // changes in lists that are in neither
	newest   rsdoc.Micros // the instant of the newest change; before the first, the beginning
	// rotations so far: what the index and the archive say depends on them alone.
	rotations uint64
	// shaped is the instant since when the Capability List is what it is: it changes when an index or archive appears.
	shaped rsdoc.Micros
}

func newJournal(o Options, from rsdoc.Micros) *journal {
	j := &journal{size: o.ChangeListSize, keep: o.KeepChangeLists, archive: o.Archive, hidden: o.ClosedLists}
	j.lists = []*changeList{newChangeList(from)}
	j.shaped, j.newest = from, from
	return j
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
		j.shaped = at
	}
}

// indexed tells whether the Capability List names the index: always when only closed lists are published, else as soon as
// there are two. While there is one open list, it is named itself.
func (j *journal) indexed() bool { return j.hidden || len(j.lists) > 1 }

// published returns copies of the lists that the index names. The copies are safe to read without the lock: changes are
// only ever appended behind the end that a copy knows.
func (j *journal) published() []changeList {
	lists := j.lists
	if j.hidden {
		lists = lists[:len(lists)-1]
	}
	return copyLists(lists)
}

func copyLists(lists []*changeList) []changeList {
	out := make([]changeList, len(lists))
	for i, l := range lists {
		out[i] = *l
	}
	return out
}

// lookup returns a copy of a published or archived list.
func (j *journal) lookup(name string) (changeList, bool) {
	for _, lists := range [][]*changeList{j.lists, j.archived} {
		for _, l := range lists {
			if l.name == name && (l.closed() || !j.hidden) {
				return *l, true
			}
		}
	}
	return changeList{}, false
}

// span returns the changes after the from-th up to the to-th of all that ever were; none of them may be forgotten.
func (j *journal) span(from, to int) []change {
	out := make([]change, 0, to-from)
	begin := j.past // changes before the list at hand
	for _, lists := range [][]*changeList{j.archived, j.lists} {
		for _, l := range lists {
			n := len(l.changes)
			if low, high := max(from-begin, 0), min(to-begin, n); low < high {
				out = append(out, l.changes[low:high]...)
			}
			begin += n
		}
	}
	return out
}

// reaches is the instant from which on the index covers every change.
func (j *journal) reaches() rsdoc.Micros { return j.lists[0].from }
