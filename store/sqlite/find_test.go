package sqlite

import (
	"path/filepath"
	"testing"
)

// TestFindPages: a search goes from page to page, ends at its bound, and tells so.
func TestFindPages(t *testing.T) {
	t.Parallel()
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	const page = 2 * batch
	f.s.limits.page = page
	for f.n < page+batch {
		f.commitNew(t)
	}
	const all = (page + batch) / 10
	for _, c := range []struct {
		limit, n int
		complete bool
	}{{all + 1, all, true}, {all, all, true}, {all - 1, all - 1, false}, {1, 1, false}} {
		found, complete, err := f.s.Find(t.Context(), f.claim.SourceID, "7.XML", c.limit)
		if err != nil || len(found) != c.n || complete != c.complete {
			t.Errorf("%d of %d at most, complete %t, %v", len(found), c.limit, complete, err)
		}
		for i, r := range found {
			if r.URI != benchURI(10*i+7) {
				t.Fatalf("%s is number %d", r.URI, i)
			}
		}
	}
	for _, c := range []struct {
		text     string
		n        int
		complete bool
	}{{"7.XML", page / 10, false}, {benchURI(f.n - 1), 1, false}, {benchURI(f.n - 1)[1:], 0, false}} {
		r := f.s.db.Read(t.Context(), "look")
		few := &finder{r, f.claim.SourceID, f.n, page, page, map[int64]int{}}
		if complete := few.run(c.text); r.Failed() || complete != c.complete || len(few.place) != c.n {
			t.Errorf("%s among the first %d: %d, complete %t, %v", c.text, page, len(few.place), complete, r.Err())
		}
	}
}
