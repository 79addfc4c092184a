package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// TestCollectLater: only the first collection is put off.
func TestCollectLater(t *testing.T) {
	percent := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(77))
	collectLater()
	for begun := time.Now(); percent() != 77; runtime.Gosched() {
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("after the first collection the heap may grow by %d %%", percent())
		}
		runtime.GC()
	}
	t.Setenv("GOGC", "50")
	collectLater()
	if got := percent(); got != 77 {
		t.Errorf("with GOGC set by the operator: %d", got)
	}
}
