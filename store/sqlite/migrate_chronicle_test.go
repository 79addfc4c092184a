package sqlite

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/store"
)

// thirdRelease makes one as the release left it that brought feeds: that of the second, and Change Lists that were read.
func thirdRelease(t *testing.T) string {
	t.Helper()
	return released(t, secondRelease(t), 3, `
		INSERT INTO document (id, source_id, set_id, url, kind, v_from, v_until, last_entry, entries, complete, read) VALUES
			(20, 3, 4, 'closed', 'changelist', 10, 20, 19, 5, 1, 99), (21, 3, 4, 'open', 'changelist', 20, NULL, 30, 6, 1, 98),
			(22, 3, 4, 'bare', 'changelist', 40, NULL, NULL, 0, 1, 97), (23, 3, 4, 'odd', 'changelist', 50, NULL, 45, 1, 1, 96),
			(24, 3, 4, 'no from', 'changelist', NULL, 60, 55, 1, 1, 95), (25, 3, 4, 'half', 'changelist', 60, 70, 65, 1, 0, 94),
			(26, 3, 4, 'list', 'resourcelist', 70, 80, NULL, 1, 1, 93), (27, 3, 0, 'of no set', 'changelist', 70, 80, NULL, 1, 1, 92),
			(28, 5, 9, 'other', 'changelist', 10, 20, 19, 1, 1, NULL);`)
}

func noChronicle(t *testing.T, s *Store) {
	t.Helper()
	ctx := t.Context()
	all, err := s.Points(ctx, 0, store.Day, 0, 1<<60)
	points, err2 := s.Points(ctx, 3, store.Day, 0, 1<<60)
	spans, err3 := s.Spans(ctx, 4, 0, 1<<60, 9)
	steps, err4 := s.SubscriptionEvents(ctx, 3, 9)
	if err := errors.Join(err, err2, err3, err4); err != nil || len(all)+len(points)+len(spans)+len(steps) > 0 {
		t.Errorf("%v, %v, %v, %v, %v", all, points, spans, steps, err)
	}
	if found, complete, err := s.Find(ctx, 3, "U", 9); err != nil || !complete || len(found) < 2 || found[0].URI != "u1" {
		t.Errorf("%v, %t, %v", found, complete, err)
	}
}

// TestUpgradeOfThird: so does one of the third release, and the Change Lists that it has read show what they prove, for
// closed ones are never read again.
func TestUpgradeOfThird(t *testing.T) {
	t.Parallel()
	path := thirdRelease(t)
	r, err := Open(t.Context(), path, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	noChronicle(t, r)
	if err := errors.Join(r.AddPoints(t.Context(), nil), r.Close()); !errors.Is(err, store.ErrReadOnly) {
		t.Error(err)
	}
	s := open(t, path)
	defer s.Close()
	list := func(id int64, from, until, read store.Micros, entries int64, url string) store.Span {
		return store.Span{ID: 4<<idBits + id, SetID: 4, Kind: store.SpanChangeList, From: from, Until: until, First: read, Last: read, Count: 1,
			Entries: entries, Document: url}
	}
	want := []store.Span{list(1, 10, 20, 99, 5, "closed"), list(2, 20, 29, 98, 6, "open"), list(3, 40, 40, 97, 0, "bare"), list(4, 50, 50, 96, 1, "odd")}
	got, err := s.Spans(t.Context(), 4, 0, 1<<60, 9)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, err = s.Spans(t.Context(), 9, 0, 1<<60, 9); err != nil || len(got) != 1 || got[0].First != store.NoTime {
		t.Errorf("of the other set: %+v, %v", got, err)
	}
	claim, _, err := s.Claim(t.Context(), 3, "new")
	if err != nil {
		t.Fatal(err)
	}
	grown := list(0, 20, 35, 100, 7, "open")
	fresh := list(0, 1, 2, 100, 7, "fresh")
	if err := s.Commit(t.Context(), &store.Commit{Claim: claim, Spans: []store.Span{grown, fresh}}); err != nil {
		t.Fatal(err)
	}
	want[1].Until, want[1].Last, want[1].Entries, fresh.ID = 35, 100, 7, 4<<idBits+5
	if got, err = s.Spans(t.Context(), 4, 0, 1<<60, 9); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(append([]store.Span{fresh}, want...), got); diff != "" {
		t.Error(diff)
	}
}
