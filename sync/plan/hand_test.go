package plan

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/spill"
)

// TestHandedOnAsWritten: what the planner hands on is what the store would have given back, letter by letter; anything but new
// resources that are to be fetched is left to be found there.
func TestHandedOnAsWritten(t *testing.T) {
	t.Parallel()
	p, done := benchPlanner(t)
	defer done()
	p.Seen, p.Reading.At, p.o.Set.Generation = spill.NewBitmap(), 1e15, 1
	p.o.Refused = func(uri string) string {
		if uri == "http://else.example/r" {
			return "outside scope"
		}
		return ""
	}
	listed := func(uri string, differ ...func(*Entry)) Entry {
		e := Entry{URI: uri, Baseline: true, Cand: merge.Candidate{
			State: store.WantPresent, Digests: fmt.Sprintf("sha-256:%064x", len(uri)), Length: 7, LastMod: 1e15, Type: "text/plain",
			Links: `[{"rel":"describedby"}]`, Version: store.Version{From: p.Reading.At, Until: p.Reading.At, Ordinal: 5, Document: 2},
		}}
		for _, d := range differ {
			d(&e)
		}
		return e
	}
	changed := func(e *Entry) { e.Baseline, e.Cand.Version.From, e.Cand.Version.Until = false, 2e15, 2e15 }
	first := []Entry{
		listed("http://lib.example/a"), listed("http://lib.example/b", func(e *Entry) { e.Cand.Digests, e.Cand.Length = "", -1 }),
		listed("http://lib.example/twice"), listed("http://lib.example/twice", changed),
		listed("http://lib.example/gone", changed, func(e *Entry) { e.Cand.State = store.WantAbsent }),
		listed("http://else.example/r"), listed("http://lib.example/pushed", changed, func(e *Entry) { e.Pushed = true }),
	}
	second := []Entry{listed("http://lib.example/a", changed), listed("http://lib.example/c", changed)}
	for _, batch := range []struct {
		entries []Entry
		handed  []string
		told    bool // of other work
	}{
		{first, []string{"a", "b", "twice", "pushed"}, false},
		{second, []string{"c"}, true}, // a was known
	} {
		ctx, w := context.Background(), p.o.Site
		w.Take()
		for _, e := range batch.entries {
			if err := p.Add(ctx, e); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		rows, again := w.TakeReady(100)
		var uris []string
		for _, r := range rows {
			uris = append(uris, r.URI[len("http://lib.example/"):])
			want, err := p.o.Site.Store.Resource(ctx, p.o.Site.SourceID, r.URI)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, r); diff != "" {
				t.Errorf("handed on otherwise than written (-store +handed):\n%s", diff)
			}
		}
		if !slices.Equal(uris, batch.handed) || again {
			t.Errorf("handed on: %v, want %v; again %v", uris, batch.handed, again)
		}
		if _, _, told := w.Hear(); told != batch.told {
			t.Errorf("told of other work: %v, want %v", told, batch.told)
		}
		w.Clear()
	}
}
