package sqlite

import (
	"slices"
	"testing"

	"resyncd/store"
)

// fourthRelease makes one as the release left it that brought the chronicle: that of the third, and work of each kind.
func fourthRelease(t *testing.T) string {
	t.Helper()
	// failure: attempts 2, since 9, class "c", reason ""
	return released(t, thirdRelease(t), 4, `
		INSERT INTO resource VALUES ((3 << 40) + 10, 3, 'w0', '', NULL, 0, 0, NULL, 1, 70, x'0413016300'),
			((3 << 40) + 11, 3, 'w1', '', NULL, 0, 0, NULL, 1, 80, NULL), ((3 << 40) + 12, 3, 'w2', '', NULL, 0, 0, NULL, 1, 60, x'0413016300'),
			((3 << 40) + 13, 3, 'w3', '', NULL, 1, 5, NULL, 2, 90, NULL), ((3 << 40) + 14, 3, 'w4', '', NULL, 1, 5, NULL, 2, 95, x'0413016300');
		INSERT INTO want VALUES (4, (3 << 40) + 10, 1, 1, 1, 0, 0, NULL, x'', 0), (4, (3 << 40) + 11, 3, 1, 1, 0, 0, NULL, x'', 0),
			(4, (3 << 40) + 12, 1, 1, 1, 0, 0, NULL, x'', 0), (4, (3 << 40) + 13, 2, 1, 1, 0, 0, NULL, x'', 0), (4, (3 << 40) + 14, 2, 1, 1, 0, 0, NULL, x'', 0);`)
}

// TestUpgradeOfFourth: what is owed in one of the fourth release is found before and after, whether it failed or not.
func TestUpgradeOfFourth(t *testing.T) {
	t.Parallel()
	path := fourthRelease(t)
	check := func(s *Store) {
		t.Helper()
		for _, want := range []struct {
			query store.DueQuery
			uris  []string
		}{
			{store.DueQuery{Action: store.ActionFetch, Now: 75}, []string{"w0", "w2"}},
			{store.DueQuery{Action: store.ActionFetch, Now: 80}, []string{"w0", "w1", "w2"}},
			{store.DueQuery{Action: store.ActionRemove, Now: 95}, []string{"w3", "w4"}},
		} {
			want.query.SourceID, want.query.After, want.query.Limit = 3, 3<<idBits+2, 9
			due, err := s.Due(t.Context(), want.query)
			if got := uris(due); err != nil || !slices.Equal(got, want.uris) {
				t.Errorf("%+v: %v, %v", want.query, got, err)
			}
		}
		owed, err := s.Scan(t.Context(), store.ScanQuery{SourceID: 3, SetID: 4, Filter: store.FilterOwed, Limit: 9})
		if got := uris(owed); err != nil || !slices.Equal(got, []string{"w0", "w1", "w2", "w3", "w4"}) {
			t.Errorf("owed: %v, %v", got, err)
		}
		counts, err := s.Counts(t.Context(), 4)
		if err != nil || counts.Owed != 5 {
			t.Errorf("%+v, %v", counts, err)
		}
		if next, err := s.NextDue(t.Context(), 3); err != nil || next != 60 {
			t.Errorf("next due %v, %v", next, err)
		}
	}
	s := openedTwice(t, path, check)
	defer s.Close()
	indexes := number(t, s, `SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND sql LIKE '%WHERE action <> 0 AND failure IS %'`)
	if indexes != 3 {
		t.Errorf("%d indexes for work", indexes)
	}
}

func uris(rs []*store.Resource) []string {
	out := make([]string, len(rs))
	for i, r := range rs {
		out[i] = r.URI
	}
	return out
}
