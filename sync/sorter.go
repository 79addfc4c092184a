package sync

import (
	"bufio"
	"bytes"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// sorter brings entries into the order of their URIs; those of one URI stay in the order in which they came. They are held
// packed in one piece of memory, and where that is full, as a sorted run in a temporary file.
type sorter struct {
	room  int    // bytes held in memory; somewhat more where an entry is long
	dir   string // of the file; "" for the system's
	arena []byte
	held  []piece // of the arena: a record each
	file  *os.File
	runs  []piece // of the file
	count int64   // entries
	bytes int64   // of them
	left  int64   // entries to hand out, once sorted
	merge runs
}

// piece is a part of the arena, or of the file.
type piece struct{ at, size int64 }

// How much of the file is read and written at once.
const sorterRead, sorterWrite = 16 << 10, 64 << 10

// add takes an entry up. Its error says that the file cannot be written: all entries are there nevertheless, but there is no
// room for another.
func (s *sorter) add(e *entry) error {
	if s.arena == nil {
		s.arena = make([]byte, 0, s.room+s.room/16)
	}
	at := len(s.arena)
	s.arena = pack(s.arena, e)
	size := int64(len(s.arena) - at)
	s.held = append(s.held, piece{int64(at), size})
	s.count++
	s.bytes += size
	if len(s.arena) < s.room {
		return nil
	}
	return s.spill()
}

// record is one that the arena holds.
func (s *sorter) record(p piece) []byte { return s.arena[p.at : p.at+p.size] }

// order sorts what the arena holds. Of equal ones the first to come stands first there, too.
func (s *sorter) order() {
	slices.SortFunc(s.held, func(a, b piece) int {
		if c := bytes.Compare(packedURI(s.record(a)), packedURI(s.record(b))); c != 0 {
			return c
		}
		return int(a.at - b.at)
	})
}

// spill writes what the arena holds as a run.
func (s *sorter) spill() error {
	if s.file == nil {
		file, err := tempFile(s.dir, "resyncd-list-")
		if err != nil {
			return err
		}
		s.file = file
	}
	run := piece{}
	if n := len(s.runs); n > 0 {
		run.at = s.runs[n-1].at + s.runs[n-1].size
	}
	s.order()
	out := bufio.NewWriterSize(io.NewOffsetWriter(s.file, run.at), sorterWrite)
	var head [binary.MaxVarintLen64]byte
	for _, h := range s.held {
		n := binary.PutUvarint(head[:], uint64(h.size))
		_, _ = out.Write(head[:n]) // Flush tells of what failed
		_, _ = out.Write(s.record(h))
		run.size += int64(n) + h.size
	}
	if err := out.Flush(); err != nil {
		return err
	}
	s.runs = append(s.runs, run)
	s.arena, s.held = s.arena[:0], s.held[:0]
	return nil
}

// sort ends the adding: next hands the entries out from now on.
func (s *sorter) sort() error {
	s.order()
	for _, p := range s.runs {
		from := bufio.NewReaderSize(io.NewSectionReader(s.file, p.at, p.size), sorterRead)
		s.merge = append(s.merge, &run{read: func(into []byte) ([]byte, error) { return readRecord(from, into, p.size) }})
	}
	held := s.held
	s.merge = append(s.merge, &run{read: func([]byte) ([]byte, error) {
		if len(held) == 0 {
			return nil, io.EOF
		}
		first := held[0]
		held = held[1:]
		return s.record(first), nil
	}})
	s.left = s.count
	full := s.merge[:0]
	for i, r := range s.merge {
		r.no = i
		more, err := r.advance()
		if err != nil {
			return s.unreadable(err)
		}
		if more {
			full = append(full, r)
		}
	}
	s.merge = full
	heap.Init(&s.merge)
	return nil
}

// next is the next entry in order; ok is false behind the last one.
func (s *sorter) next() (e entry, ok bool, err error) {
	if s.left == 0 {
		return entry{}, false, nil
	}
	if len(s.merge) == 0 { // or the sweep would take what is lost here for something that the list does not name
		return entry{}, false, s.unreadable(io.ErrUnexpectedEOF)
	}
	first := s.merge[0]
	if e, err = unpack(first.record); err != nil {
		return entry{}, false, s.unreadable(err)
	}
	more, err := first.advance()
	switch {
	case err != nil:
		return entry{}, false, s.unreadable(err)
	case more:
		heap.Fix(&s.merge, 0)
	default:
		heap.Pop(&s.merge)
	}
	s.left--
	return e, true, nil
}

func (s *sorter) unreadable(err error) error {
	if s.file == nil {
		return fmt.Errorf("take up the entries of a list again: %w", err)
	}
	return fmt.Errorf("read the entries of a list back from %s (TMPDIR chooses another disk): %w", s.file.Name(), err)
}

// reset empties it and removes its file; its memory is kept for the next ones.
func (s *sorter) reset() error {
	file := s.file
	*s = sorter{room: s.room, dir: s.dir, arena: s.arena[:0], held: s.held[:0]}
	return dropTemp(file)
}

// run is one of the sorted pieces that are merged.
type run struct {
	no     int // earlier ones hold earlier entries
	read   func(into []byte) ([]byte, error)
	record []byte // the first that was not handed out
	uri    []byte // of that
}

// advance goes to the next record, if there is one.
func (r *run) advance() (more bool, err error) {
	if r.record, err = r.read(r.record); errors.Is(err, io.EOF) {
		return false, nil
	}
	r.uri = packedURI(r.record)
	return err == nil, err
}

// readRecord reads a record of a run into memory that it may take; io.EOF is its end, or an early one, which next finds.
func readRecord(from *bufio.Reader, into []byte, most int64) ([]byte, error) {
	size, err := binary.ReadUvarint(from)
	if err != nil {
		return nil, err
	}
	if size > uint64(most) {
		return nil, errPacked
	}
	into = slices.Grow(into[:0], int(size))[:size]
	_, err = io.ReadFull(from, into)
	return into, err
}

// runs are a heap: the one whose record is the next in order stands first. It implements heap.Interface.
type runs []*run

func (m runs) Len() int      { return len(m) }
func (m runs) Swap(i, j int) { m[i], m[j] = m[j], m[i] }
func (m *runs) Push(x any)   { *m = append(*m, x.(*run)) }

func (m runs) Less(i, j int) bool {
	if c := bytes.Compare(m[i].uri, m[j].uri); c != 0 {
		return c < 0
	}
	return m[i].no < m[j].no
}

func (m *runs) Pop() any {
	last := len(*m) - 1
	r := (*m)[last]
	*m = (*m)[:last]
	return r
}
