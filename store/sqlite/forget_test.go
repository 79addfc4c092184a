package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"resyncd/store"
)

// TestForgetInSlices: a Source with much goes in bounded transactions, wherever it is interrupted, and nothing is left.
func TestForgetInSlices(t *testing.T) {
	t.Parallel()
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	const slice = 1200
	f.s.limits.forget = slice
	c := store.Commit{Claim: f.claim}
	for i := range slice + 1 {
		c.Edits = append(c.Edits, store.Edit{URI: benchURI(i % 10), Digest: [32]byte{byte(i), byte(i >> 8)}})
		if i < 2*bodySlice+1 {
			c.Resources = append(c.Resources, store.ResourceChange{URI: benchURI(i), Content: []byte("x")})
		}
	}
	var points []store.Point
	for i := range slice + 1 {
		at := store.Micros(i) * 60e6
		points = append(points, store.Point{SourceID: f.claim.SourceID, At: at, Changes: 1})
		c.Spans = append(c.Spans, store.Span{SetID: f.set.ID, Kind: store.SpanArchive, From: at, Until: at})
	}
	if err := f.s.Commit(t.Context(), &c); err != nil {
		t.Fatal(err)
	}
	sub := store.Subscription{SourceID: f.claim.SourceID, SetID: f.set.ID, Token: "t"}
	if err := errors.Join(f.s.AddPoints(t.Context(), points), f.s.AddSubscription(t.Context(), &sub)); err != nil {
		t.Fatal(err)
	}
	if err := f.s.Deliver(t.Context(), []*store.Delivery{{SourceID: f.claim.SourceID, Body: []byte("x")}}, nil); err != nil {
		t.Fatal(err)
	}
	count := func(table string) (n int64) {
		t.Helper()
		return number(t, f.s, "SELECT count(*) FROM "+table)
	}
	limits := map[string]int64{"content": bodySlice, "edit": slice, "resource": slice, "inbox": bodySlice, "inbox_share": 1, "source": 1,
		"series": slice, "span": slice, "subscription_event": slice}
	before := map[string]int64{}
	look := func() {
		t.Helper()
		for table, limit := range limits {
			n := count(table)
			if gone := before[table] - n; gone > limit {
				t.Errorf("%d rows of %s went at once", gone, table)
			}
			before[table] = n
		}
	}
	look()
	for table, n := range before {
		if n == 0 {
			t.Errorf("no rows of %s", table)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.s.ForgetSource(ctx, f.claim); err == nil {
		t.Fatal("it was not interrupted")
	}
	for more := true; more; look() {
		var err error
		if more, err = f.s.Tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for table, n := range before {
		if n != 0 {
			t.Errorf("%d rows of %s are left", n, table)
		}
	}
}
