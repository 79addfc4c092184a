package dir

import (
	"testing"
)

// TestShards: stages are spread evenly among a few folders.
func TestShards(t *testing.T) {
	t.Parallel()
	m, _ := newMirror(t, Options{})
	in := map[*folder]int{}
	for range 10 * shards {
		in[staged(t, m, "body").(*stage).shard]++
	}
	for shard, n := range in {
		if len(in) != shards || n != 10 {
			t.Errorf("%d stages in %s, one of %d", n, shard.path, len(in))
		}
	}
}
