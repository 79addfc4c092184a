package sqlite

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"resyncd/store"
)

// The sizes of the benchmarks; filling the large one takes a while, so pick it: -bench 'Scan/1M'.
func sizes(b *testing.B, run func(b *testing.B, f *filled)) {
	for _, size := range []struct {
		name string
		n    int
	}{{"20k", 20_000}, {"1M", 1_000_000}} {
		b.Run(size.name, func(b *testing.B) { run(b, fill(b, size.n)) })
	}
}

const batch = 2000

// filled is a database of n mirrored resources.
type filled struct {
	s     *Store
	claim store.Claim
	set   store.Set
	n     int
	sync  func(log *os.File) error
}

func newFilled(tb testing.TB, path string) *filled {
	tb.Helper()
	f := &filled{sync: (*os.File).Sync}
	var err error
	f.s, err = Open(tb.Context(), path, Options{sync: func(log *os.File) error { return f.sync(log) }})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := f.s.Close(); err != nil {
			tb.Error(err)
		}
	})
	src, err := f.s.EnsureSource(tb.Context(), "bench", "https://lib.example.org/")
	if err != nil {
		tb.Fatal(err)
	}
	if f.claim, _, err = f.s.Claim(tb.Context(), src.ID, "bench"); err != nil {
		tb.Fatal(err)
	}
	if f.set, err = f.s.EnsureSet(tb.Context(), f.claim, "list"); err != nil {
		tb.Fatal(err)
	}
	return f
}

func fill(tb testing.TB, n int) *filled {
	f := newFilled(tb, filepath.Join(tb.TempDir(), "state.db"))
	for f.n < n {
		f.commitNew(tb)
	}
	f.mirror(tb)
	return f
}

func benchURI(i int) string { return fmt.Sprintf("https://lib.example.org/resources/%08d.xml", i) }

// commitNew records a batch of resources that are to be fetched, as a first baseline does.
func (f *filled) commitNew(tb testing.TB) {
	tb.Helper()
	c := store.Commit{Claim: f.claim, Resources: make([]store.ResourceChange, batch)}
	wants, works := make([]store.Want, batch), make([]store.Work, batch)
	for i := range c.Resources {
		u := benchURI(f.n)
		wants[i] = store.Want{
			SetID: f.set.ID, State: store.WantPresent, Version: store.Version{From: 1_700_000_000_000_000, Until: 1_700_000_000_000_000, Ordinal: int64(f.n), Document: 1},
			Digests: "sha-256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", Length: 4096, LastMod: 1_690_000_000_000_000, Type: "text/xml", Generation: 1,
		}
		works[i] = store.Work{Action: store.ActionFetch, Due: 1_700_000_000_000_000}
		c.Resources[i] = store.ResourceChange{URI: u, Key: u[8:], Want: &wants[i], Work: &works[i]}
		f.n++
	}
	if err := f.s.Commit(tb.Context(), &c); err != nil {
		tb.Fatal(err)
	}
}

// mirror records all files as fetched, as the reconciler does, and returns how many commits that took.
func (f *filled) mirror(tb testing.TB) (commits int) {
	tb.Helper()
	have := store.Have{
		State: store.HavePresent, SHA256: [32]byte{1, 31: 2}, Length: 4096, ModTime: 1_700_000_000_000_000_000, ETag: `"5f3a-1b2c"`,
		Type: "text/xml", Checked: "sha-256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", Fetched: 1_700_000_000_000_000,
		Version: store.Version{From: 1_700_000_000_000_000, Until: 1_700_000_000_000_000, Ordinal: 7, Document: 1},
	}
	q := store.DueQuery{SourceID: f.claim.SourceID, Action: store.ActionFetch, Now: 1 << 60, Limit: batch}
	for ; ; commits++ {
		due, err := f.s.Due(tb.Context(), q)
		if err != nil {
			tb.Fatal(err)
		}
		if len(due) == 0 {
			return commits
		}
		c := store.Commit{Claim: f.claim, Sets: []store.SetChange{{ID: f.set.ID, Resources: int64(len(due)), Bytes: 4096 * int64(len(due))}}}
		for _, r := range due {
			c.Resources = append(c.Resources, store.ResourceChange{ID: r.ID, Have: &have, Work: &store.Work{}})
			q.After = r.ID
		}
		if err := f.s.Commit(tb.Context(), &c); err != nil {
			tb.Fatal(err)
		}
	}
}

func rate(b *testing.B, rows int) {
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkCommitNew(b *testing.B) {
	f := newFilled(b, filepath.Join(b.TempDir(), "state.db"))
	for b.Loop() {
		f.commitNew(b)
	}
	rate(b, f.n)
}

func BenchmarkCommitFetched(b *testing.B) {
	f := newFilled(b, filepath.Join(b.TempDir(), "state.db"))
	for range 50 {
		f.commitNew(b)
	}
	b.ResetTimer()
	commits := f.mirror(b)
	b.StopTimer()
	rate(b, commits*batch)
}

func benchmarkLookup(b *testing.B, pick func(f *filled, at int) []string) {
	sizes(b, func(b *testing.B, f *filled) {
		b.ReportAllocs()
		at, rows := 0, 0
		uris := pick(f, at)
		for b.Loop() {
			found, err := f.s.Lookup(b.Context(), f.claim.SourceID, f.set.ID, uris)
			if err != nil {
				b.Fatal(err)
			}
			rows += len(found)
			at = (at + batch) % (f.n - batch)
			b.StopTimer()
			uris = pick(f, at)
			b.StartTimer()
		}
		rate(b, rows)
	})
}

func BenchmarkLookupHit(b *testing.B) {
	benchmarkLookup(b, func(f *filled, at int) []string {
		uris := make([]string, batch)
		for i := range uris {
			uris[i] = benchURI(at + i)
		}
		return uris
	})
}

func BenchmarkLookupRandom(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	benchmarkLookup(b, func(f *filled, _ int) []string {
		uris := make([]string, batch)
		for i := range uris {
			uris[i] = benchURI(rng.IntN(f.n))
		}
		return uris
	})
}

func BenchmarkLookupNew(b *testing.B) {
	benchmarkLookup(b, func(f *filled, at int) []string {
		uris := make([]string, batch)
		for i := range uris {
			uris[i] = benchURI(f.n + at + i)
		}
		return uris
	})
}

func BenchmarkNamesFree(b *testing.B) {
	sizes(b, func(b *testing.B, f *filled) {
		names := make([]string, batch)
		for i := range names {
			names[i] = benchURI(f.n + i)[8:]
		}
		rows := 0
		for b.Loop() {
			if _, err := f.s.Names(b.Context(), f.claim.SourceID, names); err != nil {
				b.Fatal(err)
			}
			rows += batch
		}
		rate(b, rows)
	})
}

func BenchmarkScan(b *testing.B) {
	sizes(b, func(b *testing.B, f *filled) {
		b.ReportAllocs()
		rows := 0
		for b.Loop() {
			for q := (store.ScanQuery{SourceID: f.claim.SourceID, SetID: f.set.ID, Filter: store.FilterMirrored, Limit: batch}); ; {
				rs, err := f.s.Scan(b.Context(), q)
				if err != nil {
					b.Fatal(err)
				}
				if len(rs) == 0 {
					break
				}
				rows += len(rs)
				q.After = rs[len(rs)-1].ID
			}
		}
		rate(b, rows)
	})
}

func BenchmarkUnlisted(b *testing.B) {
	sizes(b, func(b *testing.B, f *filled) {
		rows := 0
		for b.Loop() {
			for _, err := range f.s.Unlisted(b.Context(), f.set.ID, 9, 1<<60) {
				if err != nil {
					b.Fatal(err)
				}
				rows++
			}
		}
		rate(b, rows)
	})
}

// BenchmarkOpen is what a run with nothing to do pays: open, look, close.
func BenchmarkOpen(b *testing.B) {
	sizes(b, func(b *testing.B, f *filled) {
		path := f.s.db.Path()
		if err := f.s.Close(); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			s := open(b, path)
			if _, err := s.Sets(b.Context(), f.claim.SourceID); err != nil {
				b.Fatal(err)
			}
			if _, err := s.Counts(b.Context(), f.set.ID); err != nil {
				b.Fatal(err)
			}
			if _, err := s.NextDue(b.Context(), f.claim.SourceID); err != nil {
				b.Fatal(err)
			}
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
