package daemon

import (
	"context"
	"errors"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
	"resyncd/sync/report"
)

var errStarting = errors.New("the state is being opened")

// status is what `status --json` prints, with what only the daemon knows.
func (d *Daemon) status(ctx context.Context) (mirror.StatusView, error) {
	view := mirror.StatusView{Version: d.o.Build.Version, Sources: []report.SourceStatus{}}
	if !d.listeners.isOpen() {
		return view, errStarting
	}
	cfg := d.sources.config()
	for _, src := range cfg.Sources {
		s, err := d.statusOf(ctx, cfg, src)
		if err != nil {
			return view, err
		}
		view.Sources = append(view.Sources, term.Status(s))
	}
	return view, nil
}

func (d *Daemon) statusOf(ctx context.Context, cfg *config.Config, src config.Source) (report.SourceStatus, error) {
	s := report.SourceStatus{Name: src.Name, URL: src.URL, Sets: []report.SetStatus{}}
	known, err := d.st.Source(ctx, src.Name)
	if err == nil {
		if s, err = report.StatusOf(ctx, d.st, &known); err != nil {
			return s, err
		}
	} else if !errors.Is(err, store.ErrNotFound) {
		return s, err
	}
	d.expect(&s, cfg, src)
	return s, nil
}

// expect holds a status to the configuration, and to what only the daemon knows.
func (d *Daemon) expect(s *report.SourceStatus, cfg *config.Config, src config.Source) {
	p := mirror.Configured(cfg, src)
	s.Expect(p.Expectation(d.o.Now()))
	if r := d.sources.named(src.Name); r != nil {
		s.Trouble(r.trouble())
	}
}

// gauges is how the Sources stand, for a scrape. What cannot be read is left out.
func (d *Daemon) gauges(ctx context.Context) []console.SourceGauges {
	view, err := d.status(ctx)
	if err != nil {
		return nil
	}
	waiting, err := d.st.InboxShares(ctx)
	if err != nil {
		waiting = nil
	}
	out := make([]console.SourceGauges, 0, len(view.Sources))
	for i := range view.Sources {
		g := gaugesOf(&view.Sources[i])
		if r := d.sources.named(g.Source); r != nil {
			if id, err := r.known(); err == nil {
				g.InboxDeliveries, g.InboxBytes = waiting[id].Deliveries, waiting[id].Bytes
			}
			r.seen.note(func() { g.Halted = r.seen.halted != nil })
		}
		out = append(out, g)
	}
	return out
}

func gaugesOf(s *report.SourceStatus) console.SourceGauges {
	g := console.SourceGauges{
		Source: s.Name, InStep: len(s.Sets) > 0, Failing: s.Problem != nil, Channels: map[string]int64{},
		Totals: totalsOf(s.Sets),
	}
	g.Paused = s.Paused
	for i := range s.Sets {
		set := &s.Sets[i]
		g.InStep = g.InStep && set.InStep
		g.Failing = g.Failing || set.Problem != nil
		for j := range set.Channels {
			c := &set.Channels[j]
			g.Channels[c.State]++
			if c.Live() {
				g.LeaseExpires = earlier(g.LeaseExpires, c.ExpiresAt.Time)
			}
		}
	}
	return g
}

// totalsOf sums sets up. Where one has no position, or was never pulled, all have none.
func totalsOf(sets []report.SetStatus) (t console.Totals) {
	behind, unpulled := false, false
	for i := range sets {
		set := &sets[i]
		t.Resources += set.Resources
		t.Bytes += set.Bytes
		t.Owed += set.Owed
		t.Held += set.Held
		t.Refused += set.Refused
		for _, gap := range set.Gaps {
			switch state := store.GapState(gap.State); {
			case state.Open():
				t.GapsOpen++
			case state == store.GapUnprovable:
				t.GapsLost++
			}
		}
		for j := range set.Channels {
			t.LastPush = later(t.LastPush, set.Channels[j].LastDelivery.Time)
		}
		t.Position = earlier(t.Position, set.Position.Time)
		t.LastPull = earlier(t.LastPull, set.LastPull.Time)
		t.NextPull = earlier(t.NextPull, set.NextPull.Time)
		behind = behind || set.Position.IsZero()
		unpulled = unpulled || set.LastPull.IsZero()
	}
	if behind {
		t.Position = time.Time{}
	}
	if unpulled {
		t.LastPull = time.Time{}
	}
	return t
}

// earlier is the earlier of two times of which either may be zero, which is not known.
func earlier(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}

// later is the later one.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
