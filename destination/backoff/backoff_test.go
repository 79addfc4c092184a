package backoff

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDoubled(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for _, tc := range []struct {
		failures int
		want     time.Duration
	}{{-1, s}, {0, s}, {1, s}, {2, 2 * s}, {3, 4 * s}, {9, 256 * s}, {10, 300 * s}, {math.MaxInt, 300 * s}} {
		if got := Doubled(s, tc.failures, 300*s); got != tc.want {
			t.Errorf("after %d failures %v, want %v", tc.failures, got, tc.want)
		}
	}
	if got := Doubled(time.Hour, 5, time.Minute); got != time.Minute {
		t.Errorf("a first wait beyond the most: %v", got)
	}
}

func TestJittered(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "wait"))
		part := rapid.Int64Range(1, 10).Draw(t, "part")
		if got := Jittered(d, part); got > d || got < d-d/time.Duration(part) {
			t.Fatalf("%v becomes %v", d, got)
		}
	})
}
