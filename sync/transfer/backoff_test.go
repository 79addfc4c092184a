package transfer

import (
	"testing"
	"time"
)

// TestBackoff: a wrong answer is asked for again sooner, but not for ever.
func TestBackoff(t *testing.T) {
	t.Parallel()
	ms := func(all ...int) (ds []time.Duration) {
		for _, n := range all {
			ds = append(ds, time.Duration(n)*time.Millisecond)
		}
		return ds
	}
	for name, tc := range map[string]struct {
		f    failure
		want []time.Duration // after each failure, the jitter taken off
	}{
		"passing":                {failure{}, ms(250, 500, 1000, 2000, 4000, 8000)},
		"wrong":                  {failure{wrong: true, stale: true}, ms(25, 100, 400, 1600, 4000, 8000)},
		"wrong, asked to wait":   {failure{wrong: true, wait: time.Second}, ms(1000, 1000, 1000, 1600, 4000)},
		"lasting":                {failure{lasts: true}, ms(3600_000, 3600_000)},
		"wrong in a way to last": {failure{lasts: true, wrong: true}, ms(3600_000, 3600_000)},
		"the disk":               {failure{class: classDisk}, ms(10_000, 10_000)},
	} {
		for i, want := range tc.want {
			for range 100 {
				if got := backoff(i+1, tc.f); got > want || got < max(want*3/4, tc.f.wait) {
					t.Fatalf("%s: %v after %d failures, not %v and up to a quarter less", name, got, i+1, want)
				}
			}
		}
		for attempts := range 100 {
			if got := backoff(attempts, tc.f); got <= 0 || got > retryCap {
				t.Fatalf("%s: %v after %d failures", name, got, attempts)
			}
		}
	}
}

// TestAsksOfARun: with the usual time for retries, a resource that fails each time is asked for eight times at most.
func TestAsksOfARun(t *testing.T) {
	t.Parallel()
	const run = 30 * time.Second // network.retry_for, if it is not set
	for name, tt := range map[string]struct {
		f           failure
		first, then int
	}{
		"cut, after quick retries": {failure{class: classTruncated}, 3, 1},
		"a wrong body":             {failure{wrong: true}, 1, 1},
		"nothing vouches for it":   {failure{class: classUnproven}, 2, 2},
	} {
		asked, spent := tt.first, time.Duration(0)
		for {
			wait := retryCap
			for range 1000 {
				wait = min(wait, backoff(asked, tt.f))
			}
			if spent += wait; spent > run {
				break
			}
			asked += tt.then
		}
		if asked > 8 {
			t.Errorf("%s: asked for %d times", name, asked)
		}
	}
}
