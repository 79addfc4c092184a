package spill

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

// errRecord tells a file that does not hold what was written.
var errRecord = errors.New("not as it was written")

// AppendKey appends the key of a record, with which each begins: what it is sorted by, behind its length.
func AppendKey(b []byte, key string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(key))), key...)
}

// Key is the key of a record, in place; nil if it has none.
func Key(record []byte) []byte {
	n, w := binary.Uvarint(record)
	if w <= 0 || n > uint64(len(record)-w) {
		return nil
	}
	return record[w : w+int(n)]
}

// Sorter brings records into the order of their keys; those of one key stay in the order in which they came. They are
// held in one piece of memory, and where that is full, as a sorted run in a temporary file.
type Sorter struct {
	room  int    // bytes held in memory; somewhat more where a record is long
	dir   string // of the file; "" for the system's
	arena []byte
	held  []piece // of the arena: a record each
	file  *os.File
	runs  []piece // of the file
	count int64   // records
	bytes int64   // of them
	left  int64   // records to hand out, once sorted
	given bool    // the first of merge was handed out, and is the caller's until the next one is asked for
	merge runs
}

// NewSorter makes a Sorter that holds so many bytes in memory, and its file in a folder, "" for the system's.
func NewSorter(room int, dir string) *Sorter { return &Sorter{room: room, dir: dir} }

// Len is how many records were added.
func (s *Sorter) Len() int64 { return s.count }

// Bytes is how many bytes were added.
func (s *Sorter) Bytes() int64 { return s.bytes }

// piece is a part of the arena, or of the file.
type piece struct{ at, size int64 }

// How much of the file is read and written at once.
const sorterRead, sorterWrite = 16 << 10, 64 << 10

// Add takes a record up; its memory is the caller's again. The error says that the file cannot be written: all records
// are there nevertheless, but there is no room for another.
func (s *Sorter) Add(record []byte) error {
	if s.arena == nil {
		s.arena = make([]byte, 0, s.room+s.room/16)
	}
	at := len(s.arena)
	s.arena = append(s.arena, record...)
	size := int64(len(record))
	s.held = append(s.held, piece{int64(at), size})
	s.count++
	s.bytes += size
	if len(s.arena) < s.room {
		return nil
	}
	return s.spill()
}

// record is one that the arena holds.
func (s *Sorter) record(p piece) []byte { return s.arena[p.at : p.at+p.size] }

// order sorts what the arena holds. Of equal ones the first to come stands first there, too.
func (s *Sorter) order() {
	slices.SortFunc(s.held, func(a, b piece) int {
		if c := bytes.Compare(Key(s.record(a)), Key(s.record(b))); c != 0 {
			return c
		}
		return int(a.at - b.at)
	})
}

// spill writes what the arena holds as a run.
func (s *Sorter) spill() error {
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

// Sort ends the adding: Next hands the records out from now on.
func (s *Sorter) Sort() error {
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
			return s.Unreadable(err)
		}
		if more {
			full = append(full, r)
		}
	}
	s.merge = full
	heap.Init(&s.merge)
	return nil
}

// Next is the next record in order, valid until the one after it is asked for; ok is false behind the last one.
func (s *Sorter) Next() (record []byte, ok bool, err error) {
	if s.left == 0 {
		return nil, false, nil
	}
	if s.given {
		if err := s.advance(); err != nil {
			return nil, false, s.Unreadable(err)
		}
	}
	if len(s.merge) == 0 { // or the sweep would take what is lost here for something that the list does not name
		return nil, false, s.Unreadable(io.ErrUnexpectedEOF)
	}
	s.left--
	s.given = true
	return s.merge[0].record, true, nil
}

// advance goes over the record that was handed out.
func (s *Sorter) advance() error {
	s.given = false
	more, err := s.merge[0].advance()
	switch {
	case err != nil:
		return err
	case more:
		heap.Fix(&s.merge, 0)
	default:
		heap.Pop(&s.merge)
	}
	return nil
}

// Unreadable names the file that a record came from, which is not what it was.
func (s *Sorter) Unreadable(err error) error {
	if s.file == nil {
		return fmt.Errorf("take up the entries of a list again: %w", err)
	}
	return fmt.Errorf("read the entries of a list back from %s (TMPDIR chooses another disk): %w", s.file.Name(), err)
}

// Reset empties it and removes its file; its memory is kept for the next ones.
func (s *Sorter) Reset() error {
	file := s.file
	*s = Sorter{room: s.room, dir: s.dir, arena: s.arena[:0], held: s.held[:0]}
	return dropTemp(file)
}

// run is one of the sorted pieces that are merged.
type run struct {
	no     int // earlier ones hold earlier records
	read   func(into []byte) ([]byte, error)
	record []byte // the first that was not handed out
	key    []byte // of that
}

// advance goes to the next record, if there is one.
func (r *run) advance() (more bool, err error) {
	if r.record, err = r.read(r.record); errors.Is(err, io.EOF) {
		return false, nil
	}
	r.key = Key(r.record)
	return err == nil, err
}

// readRecord reads a record of a run into memory that it may take; io.EOF is its end, or an early one, which Next
// finds.
func readRecord(from *bufio.Reader, into []byte, most int64) ([]byte, error) {
	size, err := binary.ReadUvarint(from)
	if err != nil {
		return nil, err
	}
	if size > uint64(most) {
		return nil, errRecord
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
	if c := bytes.Compare(m[i].key, m[j].key); c != 0 {
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
