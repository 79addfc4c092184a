package daemon

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/store"
)

// BenchmarkOverview is what the page of all Sources costs: 500 Sources, each with a set, a channel and a gap, and a year of
// history. One answer must take less than 100 ms (issue 5); refresh is what the daemon does beside that, at most once a
// second and as a rule for the Sources that changed alone.
func BenchmarkOverview(b *testing.B) {
	const sources, days = 500, 365
	f := furnish(b)
	ctx := b.Context()
	now := store.MicrosOf(time.Now())
	var points []store.Point
	for i := range sources {
		name := fmt.Sprintf("source-%03d", i)
		src, err := f.sources.cfg.Adhoc(name, "https://"+name+".example/")
		if err != nil {
			b.Fatal(err)
		}
		f.sources.cfg.Sources = append(f.sources.cfg.Sources, src)
		known, err := f.st.EnsureSource(ctx, name, src.URL)
		if err != nil {
			b.Fatal(err)
		}
		r := newRunner(f.Daemon, src)
		r.id, r.run = known.ID, &run{}
		f.sources.byName[name], f.sources.byID[known.ID] = r, r
		if f.claim, _, err = f.st.Claim(ctx, known.ID, "bench"); err != nil {
			b.Fatal(err)
		}
		set, err := f.st.EnsureSet(ctx, f.claim, src.URL+"c.xml")
		if err != nil {
			b.Fatal(err)
		}
		f.commit(b, &store.Commit{
			Sets: []store.SetChange{{ID: set.ID, State: f.state("", i%10 > 0)}},
			Gaps: []*store.Gap{{SetID: set.ID, From: now - 9e6, Until: now - 8e6, State: store.GapClosed, ClosedBy: "change-list", Found: now, Ended: now}},
		})
		sub := store.Subscription{
			SourceID: known.ID, SetID: set.ID, Kind: store.ChannelChange, Topic: src.URL + "t", Hub: "https://hub.example/", Token: name,
			State: store.SubActive, Requested: now, Verified: now, Granted: 3600, Renew: now + 1800e6, Expires: now + 3600e6, Next: now + 1800e6,
			Rotated: now, Ended: store.NoTime,
		}
		if err := f.st.AddSubscription(ctx, &sub); err != nil {
			b.Fatal(err)
		}
		point := func(at store.Micros) {
			points = append(points, store.Point{SourceID: known.ID, At: at, Changes: rand.Int64N(100) + 1, Pushes: 1, Latency: 5e3, LatencyMost: 5e3})
		}
		for day := range days {
			point(now - store.Micros(day)*86400e6)
		}
		for hour := range 48 {
			point(now - store.Micros(hour)*3600e6)
		}
	}
	for len(points) > 0 {
		n := min(len(points), 50_000)
		if err := f.st.AddPoints(ctx, points[:n]); err != nil {
			b.Fatal(err)
		}
		points = points[n:]
	}
	f.sources.cfg = &config.Config{Sources: f.sources.cfg.Sources, Defaults: f.sources.cfg.Defaults, Mirror: f.sources.cfg.Mirror, DataDir: f.sources.cfg.DataDir}
	f.loadDay(ctx)
	b.Run("answer", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			o, err := f.desk.Overview(ctx)
			if err != nil || len(o.Rows) != sources+2 || o.Rows[sources].Hours[23].Changes == 0 {
				b.Fatal(len(o.Rows), err)
			}
		}
		if per := b.Elapsed() / time.Duration(b.N); b.N > 1 && per > 100*time.Millisecond {
			b.Errorf("one answer takes %s", per)
		}
	})
	b.Run("refresh-all", func(b *testing.B) {
		for b.Loop() {
			f.board.changedAll()
			if err := f.board.refresh(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("refresh-one", func(b *testing.B) {
		for b.Loop() {
			f.board.changed("source-007")
			if err := f.board.refresh(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
}
