package coverage

import (
	"testing"

	"resyncd/store"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	const no = store.NoTime
	for _, tt := range []struct {
		from, until, position store.Micros
		want                  Verdict
	}{
		{10, 20, 10, Next},
		{5, 20, 10, Next},
		{10, 11, 10, Next},
		{5, 10, 10, Stale},
		{5, 9, 10, Stale},
		{10, 10, 10, Stale},
		{11, 20, 10, Gap},
		{11, 11, 10, Gap},
		{20, 11, 10, Unknown},
		{no, 20, 10, Unknown},
		{5, no, 10, Unknown},
		{5, 20, no, Unknown},
		{no, no, no, Unknown},
	} {
		if got := Judge(store.Interval{From: tt.from, Until: tt.until}, tt.position); got != tt.want {
			t.Errorf("Judge(%d, %d, %d) = %s, want %s", tt.from, tt.until, tt.position, got, tt.want)
		}
	}
}
