package sync

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// sorted takes all out of a sorter.
func sorted(t tester, s *sorter) (out []entry, err error) {
	t.Helper()
	if err := s.sort(); err != nil {
		return nil, err
	}
	for {
		e, ok, err := s.next()
		if err != nil || !ok {
			return out, err
		}
		out = append(out, e)
	}
}

// numbered is an entry of a URI that tells its place in the list.
func numbered(uri string, n int) entry {
	e := entry{uri: uri, baseline: true}
	e.cand.Version.Ordinal = int64(n)
	return e
}

func inOrder(list []entry) []entry {
	out := slices.Clone(list)
	slices.SortStableFunc(out, func(a, b entry) int { return cmp.Compare(a.uri, b.uri) })
	return out
}

// TestSorter: all that came goes, by URI and then as it came, whether it fits into memory or not, and again after that.
func TestSorter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		s := &sorter{room: rapid.SampledFrom([]int{1, 50, 300, 1 << 20}).Draw(rt, "room"), dir: dir}
		for range 2 {
			var list []entry
			for i, uri := range rapid.SliceOfN(rapid.StringMatching(`[ab]{0,3}`), 0, 60).Draw(rt, "uris") {
				list = append(list, numbered(uri, i))
				if err := s.add(&list[i]); err != nil {
					rt.Fatal(err)
				}
			}
			if most := s.room + 100; len(s.arena) > most || s.count != int64(len(list)) {
				rt.Fatalf("%d bytes of at most %d held, %d entries of %d", len(s.arena), most, s.count, len(list))
			}
			if spilt := s.file != nil; spilt && s.bytes < int64(s.room) || !spilt && s.bytes >= int64(s.room) {
				rt.Fatalf("%d bytes, on disk: %v", s.bytes, spilt)
			}
			got, err := sorted(rt, s)
			if err != nil || !slices.Equal(got, inOrder(list)) {
				rt.Fatalf("%v, %v\nof %v", got, err, list)
			}
			file := s.file
			if err := s.reset(); err != nil {
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

// TestSorterCannotWrite: an entry is taken up even where there is no room for another, first or later.
func TestSorterCannotWrite(t *testing.T) {
	t.Parallel()
	s := &sorter{room: 64, dir: filepath.Join(t.TempDir(), "none")}
	e := numbered("b", 0)
	for s.add(&e) == nil {
		e.cand.Version.Ordinal++
	}
	if err := s.spill(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if got, err := sorted(t, s); err != nil || int64(len(got)) != e.cand.Version.Ordinal+1 {
		t.Errorf("%d entries, %v", len(got), err)
	}

	later := &sorter{room: 64, dir: t.TempDir()}
	var list []entry
	for i := range 20 {
		list = append(list, numbered(fmt.Sprint("http://lib.example/", (i*7)%10), i))
	}
	for i := range list {
		err := later.add(&list[i])
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
	if got, err := sorted(t, later); err != nil || len(list) == 20 || len(later.runs) == 0 || !slices.Equal(got, inOrder(list)) {
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
	build := func() *sorter {
		s := &sorter{room: 50, dir: folder}
		for i := range 14 {
			e := numbered(fmt.Sprint("r", i%5), i)
			if err := s.add(&e); err != nil {
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
			t.Errorf("cut after %d bytes: %d entries and no error", cut, len(got))
		}
		if err := s.reset(); err != nil {
			t.Error(err)
		}
	}
	if got, err := sorted(t, whole); err != nil || len(got) != 14 {
		t.Errorf("%d, %v", len(got), err)
	}
	for _, s := range []*sorter{whole, {room: 10}} {
		if err := s.reset(); err != nil {
			t.Error(err)
		}
		if got, err := sorted(t, s); err != nil || len(got) > 0 {
			t.Errorf("empty: %v, %v", got, err)
		}
	}
}
