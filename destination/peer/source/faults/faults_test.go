package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := Parse("latency=20ms, error5xx=0.05,throttle=0.1,retry-after=3,cut=1,doc-html=0.5,doc-slow=100,seed=7")
	if err != nil {
		t.Fatal(err)
	}
	want := &Set{
		Seed:      7,
		Resources: HTTP{Latency: 20 * time.Millisecond, RetryAfter: 3, Error5xx: 0.05, Throttle: 0.1, Cut: 1},
		Documents: HTTP{RetryAfter: 1, HTML: 0.5, Slow: 100},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Set{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if f, err := Parse(""); f != nil || err != nil {
		t.Errorf("nothing: %v, %v", f, err)
	}
	for _, bad := range []string{
		"cut", "cut=2", "cut=-1", "cut=NaN", "cut=x", "latency=5", "latency=-1s", "slow=0", "nothing=1", "doc-seed=1", "seed=-1",
		"retry-after=-1", "cut=0.1,,", "doc-doc-cut=1",
	} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// TestDeterministic asks twice for the same history.
func TestDeterministic(t *testing.T) {
	t.Parallel()
	history := func(seed int, order []string) map[string]string {
		f, err := Parse(fmt.Sprintf("error5xx=0.3,throttle=0.3,seed=%d", seed))
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for range 30 {
			for _, path := range order {
				kind, _ := f.choose(&f.Resources, path)
				out[path] += fmt.Sprint(int(kind))
			}
		}
		return out
	}
	one, two := history(1, []string{"/a", "/b"}), history(1, []string{"/b", "/a"})
	if diff := cmp.Diff(one, two); diff != "" {
		t.Errorf("the order of requests matters:\n%s", diff)
	}
	if cmp.Equal(one, history(2, []string{"/a", "/b"})) {
		t.Error("the seed does not matter")
	}
	all := one["/a"] + one["/b"]
	for _, kind := range "012" {
		if n := strings.Count(all, string(kind)); n < 8 || n > 40 {
			t.Errorf("fault %c %d times in 60: %s", kind, n, all)
		}
	}
}
