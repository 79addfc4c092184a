package plan

import (
	"testing"

	"resyncd/store"
	"resyncd/sync/merge"
)

// TestExplainedAsksNothing: what an entry contradicts is explained by a newer entry of its reading, also where other lists of
// one batch tell of the resource. A faulty entry explains nothing: only its URI can be believed, and of what was settled it
// asks nothing.
func TestExplainedAsksNothing(t *testing.T) {
	t.Parallel()
	const is, other = "sha-256:aa", "sha-256:bb"
	type entry struct {
		reading int64
		digest  string
		faulty  bool
	}
	one, two := merge.NewReading(), merge.NewReading()
	for name, c := range map[string]struct {
		entries []entry
		asked   bool
	}{
		"alone":              {[]entry{{one, other, false}}, true},
		"explained":          {[]entry{{one, other, false}, {one, is, false}}, false},
		"by a faulty entry":  {[]entry{{one, other, false}, {one, is, true}}, true},
		"before other lists": {[]entry{{one, other, false}, {one, is, false}, {two, is, false}}, false},
		"behind other lists": {[]entry{{two, is, false}, {one, other, false}, {one, is, false}}, false},
		"by another list":    {[]entry{{one, other, false}, {two, is, false}}, true},
	} {
		p, done := benchPlanner(t)
		defer done()
		const uri = "http://lib.example/a"
		at, ctx := store.Micros(1e15), t.Context()
		settled := store.Want{SetID: p.o.Set.ID, State: store.WantPresent, Digests: is, Length: 1, LastMod: store.NoTime,
			Version: store.Version{From: at, Until: at + 9e6}, Settled: true}
		if err := p.o.Site.Store.Commit(ctx, &store.Commit{Claim: p.o.Site.Claim, Resources: []store.ResourceChange{
			{URI: uri, Key: "a", Want: &settled, Work: &store.Work{}}}}); err != nil {
			t.Fatal(err)
		}
		for i, e := range c.entries {
			if err := p.Add(ctx, Entry{URI: uri, Hinted: e.faulty, Cand: merge.Candidate{State: store.WantPresent, Digests: e.digest,
				Length: 1, LastMod: store.NoTime, Version: store.Version{
					From: at + 1e6, Until: at + 1e6, Document: 7, Ordinal: e.reading | int64(i)}}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		r, err := p.o.Site.Store.Resource(ctx, p.o.Site.SourceID, uri)
		if err != nil {
			t.Fatal(err)
		}
		if asked := r.Wants[0].State == store.WantAsk; asked != c.asked {
			t.Errorf("%s: asked %v, want %v", name, asked, c.asked)
		}
	}
}
