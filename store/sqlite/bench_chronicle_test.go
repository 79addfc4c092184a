package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"

	"resyncd/store"
)

const benchSources = 500

// newSources is a database of 500 Sources.
func newSources(tb testing.TB) (f *filled, sources []int64) {
	tb.Helper()
	f = newFilled(tb, filepath.Join(tb.TempDir(), "state.db"))
	for i := range benchSources {
		src, err := f.s.EnsureSource(tb.Context(), fmt.Sprint("source ", i), "u")
		if err != nil {
			tb.Fatal(err)
		}
		sources = append(sources, src.ID)
	}
	return f, sources
}

// newYear is one after a year in which all were busy: two days of minutes, 100 days of hours, a year of days.
func newYear(tb testing.TB) (f *filled, sources []int64, now store.Micros) {
	tb.Helper()
	f, sources = newSources(tb)
	now = 400 * 86400e6
	err := execute(tb, f.s, `
		WITH RECURSIVE t (w, n) AS (VALUES (60, 2880), (3600, 2400), (86400, 365) UNION ALL SELECT w, n - 1 FROM t WHERE n > 1)
		INSERT INTO series SELECT w, ?1 - n * w * 1000000, c.id, 1, 2, 3000, 4, 5000, 6000, 0 FROM source c CROSS JOIN t ORDER BY 1, 2, 3`,
		int64(now))
	if err != nil {
		tb.Fatal(err)
	}
	return f, sources, now
}

// BenchmarkAddPoints is a minute of 500 Sources of which each did something, into a year of history.
func BenchmarkAddPoints(b *testing.B) {
	f, sources, now := newYear(b)
	points := make([]store.Point, 0, len(sources))
	for b.Loop() {
		points = points[:0]
		for _, id := range sources {
			points = append(points, store.Point{SourceID: id, At: now, Changes: 1, Bytes: 1000, Pushes: 1, Latency: 5000, LatencyMost: 5000})
		}
		if err := f.s.AddPoints(b.Context(), points); err != nil {
			b.Fatal(err)
		}
		now += 60e6
	}
}

// BenchmarkPoints is what pages ask for: the last day of all Sources, the last month of one, the last two days of one.
func BenchmarkPoints(b *testing.B) {
	f, sources, now := newYear(b)
	for _, c := range []struct {
		name   string
		source int64
		width  store.Width
		n      int64
	}{{"All24h", 0, store.Hour, 24}, {"One30d", sources[250], store.Hour, 720}, {"One2d", sources[250], store.Minute, 2880}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				got, err := f.s.Points(b.Context(), c.source, c.width, now-store.Micros(c.n*int64(c.width)*1e6), now)
				if err != nil || len(got) < int(c.n) {
					b.Fatal(len(got), err)
				}
			}
		})
	}
}

// BenchmarkSpans records evidence and reads it: of a set with all that is kept, the newest and the oldest.
func BenchmarkSpans(b *testing.B) {
	f := newFilled(b, filepath.Join(b.TempDir(), "state.db"))
	c := store.Commit{Claim: f.claim}
	for i := range store.Micros(keepSpans) {
		c.Spans = append(c.Spans, store.Span{SetID: f.set.ID, Kind: store.SpanChangeList, From: i * 3600e6, Until: (i + 1) * 3600e6,
			Document: benchURI(int(i))})
	}
	b.Run("CommitLists", func(b *testing.B) {
		for b.Loop() { // from the second on each grows
			if err := f.s.Commit(b.Context(), &c); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N*len(c.Spans))/b.Elapsed().Seconds(), "spans/s")
	})
	b.Run("CommitPush", func(b *testing.B) {
		at := store.Micros(keepSpans) * 3600e6
		for b.Loop() {
			n := store.Commit{Claim: f.claim, Spans: []store.Span{{SetID: f.set.ID, Kind: store.SpanNotification, From: at, Until: at + 1e6}}}
			if err := f.s.Commit(b.Context(), &n); err != nil {
				b.Fatal(err)
			}
			at += 1e6
		}
	})
	for name, until := range map[string]store.Micros{"Newest": 1 << 60, "Oldest": 3600e6 * 1000} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if got, err := f.s.Spans(b.Context(), f.set.ID, 0, until, 500); err != nil || len(got) != 500 {
					b.Fatal(len(got), err)
				}
			}
		})
	}
}

// BenchmarkFind is a search for what begins so, and for what few URIs hold, which walks to its bound.
func BenchmarkFind(b *testing.B) {
	sizes(b, func(b *testing.B, f *filled) {
		for name, text := range map[string]string{"Begins": benchURI(0)[:30], "Holds": "0019999.XML"} {
			b.Run(name, func(b *testing.B) {
				for b.Loop() {
					if got, _, err := f.s.Find(b.Context(), f.claim.SourceID, text, 50); err != nil || len(got) == 0 {
						b.Fatal(len(got), err)
					}
				}
			})
		}
	})
}

// BenchmarkTidyIdle is a round of maintenance that finds nothing to do.
func BenchmarkTidyIdle(b *testing.B) {
	f, _ := newSources(b)
	for b.Loop() {
		if _, err := f.s.Tidy(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
