// Package spill knows how to keep more values than memory may hold: the first ones there, the others in a temporary
// file. It refuses to know what they are.
package spill

import (
	"bufio"
	"bytes"
	"cmp"
	"container/heap"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/bits"
	"os"
	"slices"
)

// AppendKey appends a record's key, with which each record begins, behind its length.
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

// Sorter sorts records stably by key, in memory and in sorted runs in a temporary file.
type Sorter struct {
	room  int    // bytes in memory, exceeded by a long record
	dir   string // of the file; "" for the system's
	arena []byte
	held  []piece // records in the arena
	file  *os.File
	runs  []piece // of the file
	count int64
	bytes int64
	left  int64
	given bool // the caller still has the first of merge
	merge runs
}

// NewSorter makes a Sorter with room bytes in memory and its file in dir.
func NewSorter(room int, dir string) *Sorter { return &Sorter{room: room, dir: dir} }

// Len is the number of records.
func (s *Sorter) Len() int64 { return s.count }

// Bytes is their size.
func (s *Sorter) Bytes() int64 { return s.bytes }

// piece is a part of the arena, or of the file.
type piece struct{ at, size int64 }

const sorterRead, sorterWrite = 16 << 10, 64 << 10

// Add copies a record. After an error there is no room for another.
func (s *Sorter) Add(record []byte) error {
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

func (s *Sorter) record(p piece) []byte { return s.arena[p.at : p.at+p.size] }

// write writes the arena in order, each record behind its length. A Writer that failed tells so when it is flushed.
func (s *Sorter) write(out io.Writer) (size int64) {
	slices.SortFunc(s.held, func(a, b piece) int {
		return cmp.Or(bytes.Compare(Key(s.record(a)), Key(s.record(b))), cmp.Compare(a.at, b.at))
	})
	var head [binary.MaxVarintLen64]byte
	for _, h := range s.held {
		n := binary.PutUvarint(head[:], uint64(h.size))
		_, _ = out.Write(head[:n])
		_, _ = out.Write(s.record(h))
		size += int64(n) + h.size
	}
	return size
}

// spill writes the arena as a run.
func (s *Sorter) spill() error {
	if s.file == nil {
		file, err := os.CreateTemp(s.dir, "resyncd-list-")
		if err != nil {
			return err
		}
		_ = os.Remove(file.Name()) // so that a kill leaves nothing; on Windows only Reset can remove it
		s.file = file
	}
	run := piece{}
	if n := len(s.runs); n > 0 {
		run.at = s.runs[n-1].at + s.runs[n-1].size
	}
	out := bufio.NewWriterSize(io.NewOffsetWriter(s.file, run.at), sorterWrite)
	run.size = s.write(out)
	if err := out.Flush(); err != nil {
		return err
	}
	s.runs = append(s.runs, run)
	s.arena, s.held = s.arena[:0], s.held[:0]
	return nil
}

// Sort begins to hand the records out, by Next. More may be added afterwards, and all be sorted again.
func (s *Sorter) Sort() error {
	s.merge, s.given, s.left = nil, false, s.count
	var held bytes.Buffer // the last run
	s.write(&held)
	for i := range len(s.runs) + 1 {
		var from io.Reader = &held
		if i < len(s.runs) {
			from = io.NewSectionReader(s.file, s.runs[i].at, s.runs[i].size)
		}
		r := &run{no: i, from: bufio.NewReaderSize(from, sorterRead), most: s.bytes}
		more, err := r.advance()
		if err != nil {
			return s.Unreadable(err)
		}
		if more {
			s.merge = append(s.merge, r)
		}
	}
	heap.Init(&s.merge)
	return nil
}

// Next is the next record, valid until the one after; ok is false at the end.
func (s *Sorter) Next() (record []byte, ok bool, err error) {
	if s.left == 0 {
		return nil, false, nil
	}
	if s.given {
		s.given = false // it is passed
		switch more, err := s.merge[0].advance(); {
		case err != nil:
			return nil, false, s.Unreadable(err)
		case more:
			heap.Fix(&s.merge, 0)
		default:
			heap.Pop(&s.merge)
		}
	}
	if len(s.merge) == 0 { // a lost record must not look unlisted to the sweep
		return nil, false, s.Unreadable(io.ErrUnexpectedEOF)
	}
	s.left--
	s.given = true
	return s.merge[0].record, true, nil
}

// Unreadable names the file of a record that changed.
func (s *Sorter) Unreadable(err error) error {
	if s.file == nil {
		return fmt.Errorf("take up again what was kept: %w", err)
	}
	return fmt.Errorf("read what was kept back from %s (TMPDIR chooses another disk): %w", s.file.Name(), err)
}

// Reset empties it and removes its file.
func (s *Sorter) Reset() error {
	file := s.file
	*s = Sorter{room: s.room, dir: s.dir, arena: s.arena[:0], held: s.held[:0]}
	if file == nil {
		return nil
	}
	err := file.Close()
	if rerr := os.Remove(file.Name()); !errors.Is(rerr, os.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

// run is one sorted piece.
type run struct {
	no     int // earlier ones hold earlier records
	from   *bufio.Reader
	most   int64 // bytes of a record
	record []byte
	key    []byte
}

// advance goes to the next record, if any, in the memory of the last one. An early io.EOF is found by Next.
func (r *run) advance() (more bool, err error) {
	size, err := binary.ReadUvarint(r.from)
	switch {
	case errors.Is(err, io.EOF):
		return false, nil
	case err == nil && size > uint64(r.most):
		err = errors.New("not as it was written")
	case err == nil:
		r.record = slices.Grow(r.record[:0], int(size))[:size]
		if _, err = io.ReadFull(r.from, r.record); errors.Is(err, io.EOF) {
			return false, nil
		}
		r.key = Key(r.record)
	}
	return err == nil, err
}

// runs are a heap.Interface by the next record.
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

// listRoom is how many bytes of a List stay in memory.
const listRoom = 1 << 20

// List keeps values in order, as JSON: the first ones in memory, the others in a temporary file.
type List[T any] struct{ values Sorter }

// Empty reports whether nothing was added.
func (l *List[T]) Empty() bool { return l.values.count == 0 }

// Add appends a value. Equal keys keep the order in which records came.
func (l *List[T]) Add(v T) error {
	b, err := json.Marshal(v)
	if err == nil {
		l.values.room = listRoom
		err = l.values.Add(append(AppendKey(nil, ""), b...))
	}
	if err != nil {
		return fmt.Errorf("keep what was found: %w", err)
	}
	return nil
}

// Pages hands the values over in pages, as often as it is called; changes to a page are not kept.
func (l *List[T]) Pages(size int, each func([]T) error) error {
	if err := l.values.Sort(); err != nil {
		return err
	}
	page := make([]T, 0, size)
	for {
		record, more, err := l.values.Next()
		if err != nil {
			return err
		}
		if more {
			var v T
			if err := json.Unmarshal(record[1:], &v); err != nil {
				return l.values.Unreadable(err)
			}
			page = append(page, v)
		}
		if len(page) == size || !more && len(page) > 0 {
			if err := each(page); err != nil {
				return err
			}
			page = page[:0]
		}
		if !more {
			return nil
		}
	}
}

// Close removes the file.
func (l *List[T]) Close() error { return l.values.Reset() }

// Bitmap is a set of row ids, one bit each.
type Bitmap struct {
	pages map[int64]*[512]uint64
	Len   int64
}

func NewBitmap() *Bitmap { return &Bitmap{pages: map[int64]*[512]uint64{}} }

func (b *Bitmap) Add(id int64) {
	p := b.pages[id>>15]
	if p == nil {
		p = new([512]uint64)
		b.pages[id>>15] = p
	}
	if word, bit := &p[(id>>6)&511], uint64(1)<<(id&63); *word&bit == 0 {
		*word |= bit
		b.Len++
	}
}

func (b *Bitmap) Remove(id int64) {
	if b.Has(id) {
		b.pages[id>>15][(id>>6)&511] &^= 1 << (id & 63)
		b.Len--
	}
}

func (b *Bitmap) Has(id int64) bool {
	p := b.pages[id>>15]
	return p != nil && p[(id>>6)&511]&(1<<(id&63)) != 0
}

// Clone is a copy to go over while others change b.
func (b *Bitmap) Clone() *Bitmap {
	c := &Bitmap{pages: make(map[int64]*[512]uint64, len(b.pages)), Len: b.Len}
	for page, words := range b.pages {
		copied := *words
		c.pages[page] = &copied
	}
	return c
}

// All goes over the ids, in no order.
func (b *Bitmap) All() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for page, words := range b.pages {
			for i, word := range words {
				for ; word != 0; word &= word - 1 {
					if !yield(page<<15 | int64(i)<<6 | int64(bits.TrailingZeros64(word))) {
						return
					}
				}
			}
		}
	}
}

// Pages goes over the ids in pages of up to n, each of which lasts until the next.
func (b *Bitmap) Pages(n int) iter.Seq[[]int64] {
	return func(yield func([]int64) bool) {
		page, left := make([]int64, 0, n), b.Len
		for id := range b.All() {
			page = append(page, id)
			if left--; left > 0 && len(page) < n {
				continue
			}
			if !yield(page) {
				return
			}
			page = page[:0]
		}
	}
}
