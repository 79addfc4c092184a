package dir

import (
	"errors"
	"io/fs"
	"slices"
	"testing"

	"resyncd/store/blob"
)

// TestLanes: many stages are spread among more lanes, whose descriptors are let go at rest (F11), but not under a stage.
func TestLanes(t *testing.T) {
	t.Parallel()
	m, _ := newMirror(t, Options{})
	var stages []*stage
	grow := func(n int) {
		t.Helper()
		for len(stages) < n {
			stages = append(stages, staged(t, m, "body").(*stage))
		}
	}
	lanes := func(want int) {
		t.Helper()
		if n := len(m.area.lanes); n != want {
			t.Errorf("%d lanes, not %d", n, want)
		}
	}
	grow(2 * laneFiles)
	lanes(lanesLeast)
	grow(5*laneFiles + 1)
	lanes(5)
	for _, l := range m.area.lanes {
		if n := l.waiting.Load(); n > 2*laneFiles {
			t.Errorf("%d stages in one lane", n)
		}
	}
	grow(2 * laneFiles * lanesMost)
	lanes(lanesMost)

	all := slices.Clone(m.area.lanes)
	stays := slices.IndexFunc(stages, func(s *stage) bool { return s.lane == all[3] })
	stages[0], stages[stays] = stages[stays], stages[0]
	for _, s := range stages[1:] {
		if err := s.Discard(); err != nil {
			t.Fatal(err)
		}
	}
	stages = stages[:1]
	grow(2)
	lanes(4)
	place(t, m, []blob.Placement{{Stage: stages[0], Key: "a.txt"}, {Stage: stages[1], Key: "b.txt"}})
	stages = nil
	grow(1)
	lanes(lanesLeast)
	for i, l := range all {
		if _, err := l.root.Lstat("x"); errors.Is(err, fs.ErrNotExist) != (i < lanesLeast) {
			t.Errorf("lane %d: %v", i, err)
		}
	}
	grow(5*laneFiles + 1) // the folders are there already
	lanes(5)
}
