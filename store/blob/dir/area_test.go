package dir

import (
	"errors"
	"io/fs"
	"slices"
	"testing"

	"resyncd/store/blob"
)

// TestShards: many stages are spread among more shards, whose descriptors are let go at rest (F11), but not under a stage.
func TestShards(t *testing.T) {
	t.Parallel()
	m, _ := newMirror(t, Options{})
	var stages []*stage
	grow := func(n int) {
		t.Helper()
		for len(stages) < n {
			stages = append(stages, staged(t, m, "body").(*stage))
		}
	}
	shards := func(want int) {
		t.Helper()
		if n := len(m.area.shards); n != want {
			t.Errorf("%d shards, not %d", n, want)
		}
	}
	grow(2 * shardFiles)
	shards(minShards)
	grow(5*shardFiles + 1)
	shards(5)
	for _, l := range m.area.shards {
		if n := l.waiting.Load(); n > 2*shardFiles {
			t.Errorf("%d stages in one shard", n)
		}
	}
	grow(2 * shardFiles * maxShards)
	shards(maxShards)

	all := slices.Clone(m.area.shards)
	stays := slices.IndexFunc(stages, func(s *stage) bool { return s.shard == all[3] })
	stages[0], stages[stays] = stages[stays], stages[0]
	for _, s := range stages[1:] {
		if err := s.Discard(); err != nil {
			t.Fatal(err)
		}
	}
	stages = stages[:1]
	grow(2)
	shards(4)
	place(t, m, []blob.Placement{{Stage: stages[0], Key: "a.txt"}, {Stage: stages[1], Key: "b.txt"}})
	stages = nil
	grow(1)
	shards(minShards)
	for i, l := range all {
		if _, err := l.root.Lstat("x"); errors.Is(err, fs.ErrNotExist) != (i < minShards) {
			t.Errorf("shard %d: %v", i, err)
		}
	}
	grow(5*shardFiles + 1) // the folders are there already
	shards(5)
}
