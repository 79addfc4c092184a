package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestGrowth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 300}, {1 << 20, 300}, {3 << 20, 300}, {4 << 20, 200}, {5 << 20, 140}, {heapFloor / 2, 100},
		{heapFloor, 100}, {1 << 30, 100},
	} {
		if got := growth(c.live); got != c.want {
			t.Errorf("of %d live bytes by %d %%, not %d", c.live, got, c.want)
		}
	}
}

// TestFloorHeap: each collection sets the growth, and none where the operator has.
func TestFloorHeap(t *testing.T) {
	now := func() int {
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return int(sample[0].Value.Uint64())
	}
	const theirs = 77
	defer debug.SetGCPercent(debug.SetGCPercent(theirs))
	t.Setenv("GOGC", "77")
	floorHeap()
	if got := now(); got != theirs {
		t.Errorf("with GOGC set: %d %%", got)
	}
	t.Setenv("GOGC", "")
	floorHeap()
	for range 3 {
		debug.SetGCPercent(theirs)
		for begun := time.Now(); now() == theirs; runtime.Gosched() {
			if time.Since(begun) > 10*time.Second {
				t.Fatal("a collection went unnoticed")
			}
			runtime.GC()
		}
	}
}
