package daemon

import (
	"context"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/health"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
	"resyncd/sync/report"
)

// dashboard is what the console's pages show and do: console.Data for a daemon.
type dashboard struct{ d *Daemon }

var _ console.Data = (*dashboard)(nil)

// Changed implements console.Data.
func (k *dashboard) Changed() <-chan struct{} { return k.d.board.changedNext() }

// Do implements console.Data.
func (k *dashboard) Do(ctx context.Context, a console.Action) (string, error) {
	return k.d.operator.press(ctx, a)
}

// Overview implements console.Data. It reads nothing but memory.
func (k *dashboard) Overview(ctx context.Context) (console.Overview, error) {
	d := k.d
	out := console.Overview{Now: d.o.Now(), Started: d.started}
	if !d.listeners.isOpen() {
		return out, errStarting
	}
	entries, err := d.board.all(ctx)
	if err != nil {
		return out, err
	}
	if d.sources.untaken.Load() {
		out.Notices = append(out.Notices, console.Finding{Level: console.Warn,
			Why: "The configuration was not taken over when it was last read again, because it is invalid: the one " +
				"before holds. `resyncd config check` names what is wrong."})
	}
	cfg := d.sources.config()
	trouble := d.board.stateTrouble(out.Now)
	for i := range cfg.Sources {
		src := &cfg.Sources[i]
		e := entries[src.Name]
		delete(entries, src.Name)
		out.Rows = append(out.Rows, d.row(d.standing(cfg, src, e, out.Now, trouble), e))
	}
	for _, e := range entries { // which nobody configured
		out.Rows = append(out.Rows, d.row(&health.Standing{Status: term.Copied(e.status), Now: out.Now}, e))
	}
	return out, nil
}

// standing is how a configured Source stands now; e is what was read of it, nil for nothing.
func (d *Daemon) standing(cfg *config.Config, src *config.Source, e *entry, now time.Time,
	trouble error) *health.Standing {
	s := &health.Standing{
		Now: now, Again: tryAgain, Configured: true, Push: src.Push, GapPatience: src.GapPatience, State: trouble,
		Poll:   pauseOf(src.Schedule, now),
		Status: report.SourceStatus{Name: src.Name, URL: src.URL, Sets: []report.SetStatus{}},
	}
	if e != nil {
		s.Status, s.Feeds, s.Owed = term.Copied(e.status), e.feeds, e.owed
	}
	p := mirror.Configured(cfg, *src)
	s.Status.Expect(p.Expectation(now))
	r := d.sources.named(src.Name)
	if r == nil {
		return s
	}
	s.Status.Trouble(r.trouble())
	s.Following = r.current() != nil
	s.Deaf = r.warned.Load()
	id, err := r.known()
	if err == nil {
		s.Next = d.jobs.Next(id)
	}
	r.seen.note(func() {
		s.Halted, s.Unread = r.seen.halted, r.seen.unread
		if now.Sub(r.seen.rejectedAt).Abs() < lately {
			s.Rejected = r.seen.rejected
		}
	})
	s.Suspect = d.hubs.suspects(id)
	return s
}

// row is one Source on the page of all of them.
func (d *Daemon) row(s *health.Standing, e *entry) console.Row {
	f := health.Assess(s)
	f.Why = logging.Redact(f.Why)
	r := console.Row{
		Name: s.Status.Name, URL: term.URL(s.Status.URL), Finding: f, Channel: "none",
		Totals: totalsOf(&s.Status), Fresh: freshOf(&s.Status),
	}
	switch {
	case r.Paused:
		r.NextPull = time.Time{}
	case !s.Next.IsZero():
		r.NextPull = s.Next
	}
	all := []report.ChannelStatus{}
	for i := range s.Status.Sets {
		all = append(all, s.Status.Sets[i].Channels...)
	}
	switch c := health.Leading(all); {
	case c != nil:
		r.Channel = c.State
		if c.Live() {
			r.LeaseFrom, r.LeaseEnds = c.VerifiedAt.Time, c.ExpiresAt.Time
		}
	case s.Push == config.PushOff:
		r.Channel = "off"
	}
	id := int64(0) // nothing happened to that
	if e != nil {
		id = e.known.ID
	}
	r.Hours = d.sampler.day(s.Now, id)
	return r
}

// freshOf is since when a Source has been known to be in step: when the set that was heard of longest ago was last
// pulled or told of. It is zero while it is not in step.
func freshOf(s *report.SourceStatus) (fresh time.Time) {
	for i := range s.Sets {
		set := &s.Sets[i]
		if !set.InStep {
			return time.Time{}
		}
		heard := set.LastPull.Time
		for j := range set.Channels {
			if c := &set.Channels[j]; c.Kind != string(store.ChannelFramework) {
				heard = later(heard, c.LastDelivery.Time)
			}
		}
		if fresh.IsZero() || heard.Before(fresh) {
			fresh = heard
		}
	}
	return fresh
}

// consoleOptions are those of the handler of the console's listener.
func (d *Daemon) consoleOptions() console.Options {
	d.metrics.Gauges = d.gauges
	d.metrics.Build(d.o.Build.Version, d.o.Build.Commit)
	c := d.sources.config().Console
	return console.Options{
		Status: func(ctx context.Context) (any, error) { return d.status(ctx) },
		Ready:  d.readiness(), Metrics: d.metrics, Data: d.Data(),
		Version: d.o.Build.Version, Hosts: c.Hosts, Auth: authOf(&c), Log: d.o.Log,
	}
}

// authOf is what the console demands of who calls it, nil for nothing.
func authOf(c *config.Console) *console.Auth {
	if !c.Guarded() {
		return nil
	}
	return &console.Auth{User: c.User, Password: c.Password.Reveal(), Token: c.Token.Reveal()}
}
