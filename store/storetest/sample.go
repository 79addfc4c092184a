package storetest

import (
	"slices"
	"testing"

	"resyncd/store"
)

func testSample(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	sample := func(source int64, n int) []int64 {
		t.Helper()
		rs, err := b.st.Sample(b.ctx, source, n)
		b.ok(err)
		for _, r := range rs {
			if r.SourceID != source || r.URI == "" || source == b.src.ID && len(r.Wants) == 0 {
				t.Fatalf("half a resource, or that of another Source: %+v", r)
			}
		}
		got := ids(rs)
		if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Fatalf("not in order, or one twice: %v", got)
		}
		return got
	}
	b.same("of none", []int64{}, append([]int64{}, sample(b.src.ID, 5)...))
	const n = 300
	var rs []store.ResourceChange
	for i := range n {
		rs = append(rs, b.change(i, present(1)))
	}
	all := b.put(rs...)
	two, claim, _ := b.source("two")
	b.ok(b.st.Commit(b.ctx, &store.Commit{Claim: claim,
		Resources: []store.ResourceChange{{URI: "x", Key: "x"}, {URI: "y", Key: "y"}}}))
	b.same("no more than there are", all, sample(b.src.ID, n))
	b.same("fewer than asked for", all, sample(b.src.ID, n+1))
	b.same("none asked for", []int64{}, append([]int64{}, sample(b.src.ID, 0)...))
	if got := sample(two.ID, 9); len(got) != 2 {
		t.Errorf("of the other Source: %v", got)
	}
	if got := sample(two.ID, 1); len(got) != 1 {
		t.Errorf("one of the other Source: %v", got)
	}
	seen := map[int64]int{}
	for range 200 {
		got := sample(b.src.ID, 30)
		if len(got) > 30 || len(got) < 10 {
			t.Fatalf("%d of 30", len(got))
		}
		for _, id := range got {
			seen[id]++
		}
	}
	for i, id := range all { // each is left out with a chance below 1e-8
		if seen[id] == 0 {
			t.Errorf("resource %d of %d was never drawn", i, n)
		}
	}
}
