package plan

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"resyncd/store"
	"resyncd/store/sqlite"
	"resyncd/sync/merge"
	"resyncd/sync/spill"
	"resyncd/sync/transfer"
)

// BenchmarkPlan measures what a listed entry costs before anything is fetched: a new one, and one that is as it was. The
// state is real, the list is not.
func BenchmarkPlan(b *testing.B) {
	const entries = 20_000
	for range b.N {
		b.StopTimer()
		p, done := benchPlanner(b)
		b.StartTimer()
		plan(b, p, entries, 1, benchURI)
		b.StopTimer()
		done()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*entries), "µs/entry")
}

func BenchmarkReplan(b *testing.B) {
	const entries = 20_000
	p, done := benchPlanner(b)
	defer done()
	plan(b, p, entries, 1, benchURI)
	b.ResetTimer()
	for i := range b.N {
		plan(b, p, entries, int64(i+2), benchURI)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*entries), "µs/entry")
}

func benchPlanner(b testing.TB) (*Planner, func()) {
	b.Helper()
	st, err := sqlite.Open(context.Background(), filepath.Join(b.TempDir(), "state.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	p, release := plannerOf(b, st, "bench")
	return p, func() { release(); _ = st.Close() }
}

// plannerOf is a planner of a Source of that name.
func plannerOf(b failer, st store.Store, name string) (p *Planner, release func()) {
	b.Helper()
	ctx := context.Background()
	src, err := st.EnsureSource(ctx, name, "http://lib.example/")
	if err != nil {
		b.Fatal(err)
	}
	claim, end, err := st.Claim(ctx, src.ID, "bench")
	if err != nil {
		b.Fatal(err)
	}
	set, err := st.EnsureSet(ctx, claim, "http://lib.example/capabilitylist.xml")
	if err != nil {
		b.Fatal(err)
	}
	site := &transfer.Site{
		Workset: transfer.NewWorkset(), Store: st, SourceID: src.ID, Claim: claim, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}
	all := func(string) string { return "" }
	return New(Options{Site: site, Set: &set, Refused: all, Filtered: all}), func() { _ = end() }
}

func benchURI(i int) string { return fmt.Sprintf("http://lib.example/theses/%07d.pdf", i) }

func plan(b *testing.B, p *Planner, entries int, generation int64, uri func(i int) string) {
	b.Helper()
	ctx := context.Background()
	p.Seen, p.Reading.At = spill.NewBitmap(), store.Micros(1e15+generation)
	p.order.listed, p.order.jumps, p.order.last = 0, 0, "" // as in a run of its own
	p.o.Set.Generation = generation
	for i := range entries {
		e := Entry{URI: uri(i), Baseline: true, Cand: merge.Candidate{
			State: store.WantPresent, Digests: fmt.Sprintf("sha-256:%064x", i), Length: int64(i), LastMod: 1e15, Type: "application/pdf",
			Version: store.Version{From: p.Reading.At, Until: p.Reading.At, Ordinal: int64(i), Document: generation},
		}}
		if err := p.Add(ctx, e); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.PlanAll(ctx); err != nil {
		b.Fatal(err)
	}
}

// failer is a test, a benchmark or a check of package rapid.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}
