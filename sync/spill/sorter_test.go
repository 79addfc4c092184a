package spill

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// sorted takes all out of a Sorter.
func sorted(t interface{ Helper() }, s *Sorter) (out [][]byte, err error) {
	t.Helper()
	if err := s.Sort(); err != nil {
		return nil, err
	}
	for {
		record, ok, err := s.Next()
		if err != nil || !ok {
			return out, err
		}
		out = append(out, slices.Clone(record))
	}
}

// numbered is a record that tells its place among those that were added.
func numbered(key string, n int) []byte { return binary.AppendVarint(AppendKey(nil, key), int64(n)) }

func inOrder(list [][]byte) [][]byte {
	out := slices.Clone(list)
	slices.SortStableFunc(out, func(a, b []byte) int { return bytes.Compare(Key(a), Key(b)) })
	return out
}

func equal(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }

// TestSorter: all that came goes, by key and then as it came, whether it fits into memory or not, and again after that.
func TestSorter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		s := &Sorter{room: rapid.SampledFrom([]int{1, 50, 300, 1 << 20}).Draw(rt, "room"), dir: dir}
		for range 2 {
			var list [][]byte
			for i, key := range rapid.SliceOfN(rapid.StringMatching(`[ab]{0,3}`), 0, 60).Draw(rt, "keys") {
				list = append(list, numbered(key, i))
				if err := s.Add(list[i]); err != nil {
					rt.Fatal(err)
				}
			}
			if most := s.room + 100; len(s.arena) > most || s.count != int64(len(list)) {
				rt.Fatalf("%d bytes of at most %d held, %d records of %d", len(s.arena), most, s.count, len(list))
			}
			if spilt := s.file != nil; spilt && s.bytes < int64(s.room) || !spilt && s.bytes >= int64(s.room) {
				rt.Fatalf("%d bytes, on disk: %v", s.bytes, spilt)
			}
			got, err := sorted(rt, s)
			if err != nil || !equal(got, inOrder(list)) {
				rt.Fatalf("%v, %v\nof %v", got, err, list)
			}
			file := s.file
			if err := s.Reset(); err != nil {
				rt.Fatal(err)
			}
			if file != nil && !errors.Is(file.Close(), os.ErrClosed) {
				rt.Fatal("its file is open still")
			}
		}
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestSorterCannotWrite: a record is taken up even where there is no room for another, first or later.
func TestSorterCannotWrite(t *testing.T) {
	t.Parallel()
	s := &Sorter{room: 64, dir: filepath.Join(t.TempDir(), "none")}
	n := 1
	for s.Add(numbered("b", n)) == nil {
		n++
	}
	if err := s.spill(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if got, err := sorted(t, s); err != nil || len(got) != n {
		t.Errorf("%d records, %v", len(got), err)
	}

	later := &Sorter{room: 64, dir: t.TempDir()}
	var list [][]byte
	for i := range 20 {
		list = append(list, numbered(fmt.Sprint("http://lib.example/", (i*7)%10), i))
	}
	for i := range list {
		err := later.Add(list[i])
		if i == 10 {
			later.file = unwritable(t, later.file)
		}
		if err != nil {
			if i < 10 {
				t.Fatal(err)
			}
			list = list[:i+1]
			break
		}
	}
	if got, err := sorted(t, later); err != nil || len(list) == 20 || len(later.runs) == 0 || !equal(got, inOrder(list)) {
		t.Errorf("%d of %d came back, %d runs, %v", len(got), len(list), len(later.runs), err)
	}
	if err := later.file.Close(); err != nil { // not reset, which removes it by its name: of this one that may be another file by now
		t.Error(err)
	}
}

// unwritable is a file that can be read only, from now on.
func unwritable(t *testing.T, file *os.File) *os.File {
	t.Helper()
	same, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	if err != nil {
		t.Skip("a descriptor cannot be opened for reading only, which needs /proc: ", err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return same
}

// TestSorterLosesNothing: a file that does not hold what was written gives an error, never a shorter list.
func TestSorterLosesNothing(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	build := func() *Sorter {
		s := &Sorter{room: 50, dir: folder}
		for i := range 14 {
			if err := s.Add(numbered(fmt.Sprint("r", i%5), i)); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	whole := build()
	end := whole.runs[len(whole.runs)-1]
	for cut := range end.at + end.size {
		s := build()
		if err := s.file.Truncate(cut); err != nil {
			t.Fatal(err)
		}
		if got, err := sorted(t, s); err == nil {
			t.Errorf("cut after %d bytes: %d records and no error", cut, len(got))
		}
		if err := s.Reset(); err != nil {
			t.Error(err)
		}
	}
	if got, err := sorted(t, whole); err != nil || len(got) != 14 {
		t.Errorf("%d, %v", len(got), err)
	}
	for _, s := range []*Sorter{whole, {room: 10}} {
		if err := s.Reset(); err != nil {
			t.Error(err)
		}
		if got, err := sorted(t, s); err != nil || len(got) > 0 {
			t.Errorf("empty: %v, %v", got, err)
		}
	}
}
