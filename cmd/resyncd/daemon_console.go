package main

import (
	"context"
	"slices"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/store"
	syncengine "resyncd/sync"
)

// consoleDesk is what the console's pages show and do: console.Data for a daemon.
type consoleDesk struct{ d *daemon }

var _ console.Data = (*consoleDesk)(nil)

// Changes implements console.Data.
func (k *consoleDesk) Changes(ctx context.Context) <-chan struct{} { return k.d.board.listen(ctx) }

// Overview implements console.Data. It reads nothing but memory.
func (k *consoleDesk) Overview(ctx context.Context) (console.Overview, error) {
	d := k.d
	out := console.Overview{Now: d.sh.now(), Started: d.started}
	if !d.opened.Load() {
		return out, errStarting
	}
	if err := d.board.ready(ctx); err != nil {
		return out, err
	}
	if d.untaken.Load() {
		out.Notices = append(out.Notices, console.Notice{Level: console.Warn,
			Text: "The configuration was not taken over when it was last read again, because it is invalid: the one before holds. `resyncd config check` names what is wrong."})
	}
	cfg := d.config()
	configured := make(map[string]bool, len(cfg.Sources))
	trouble := d.board.stateTrouble(out.Now)
	for i := range cfg.Sources {
		src := &cfg.Sources[i]
		configured[src.Name] = true
		e := d.board.entry(src.Name)
		out.Rows = append(out.Rows, d.row(d.standing(cfg, src, e, out.Now, trouble), e))
	}
	for _, e := range d.board.others(configured) {
		s := &standing{status: copied(e.status), now: out.Now}
		out.Rows = append(out.Rows, d.row(s, e))
	}
	return out, nil
}

// ready reads all Sources if that was not done yet.
func (b *board) ready(ctx context.Context) error {
	b.mu.Lock()
	empty := len(b.entries) == 0 && b.all
	b.mu.Unlock()
	if !empty {
		return nil
	}
	return b.refresh(ctx)
}

// others are the Sources that the store knows and nobody configured.
func (b *board) others(configured map[string]bool) (out []*entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, e := range b.entries {
		if !configured[name] {
			out = append(out, e)
		}
	}
	return out
}

// copied is a status whose sets may be changed.
func copied(s syncengine.SourceStatus) syncengine.SourceStatus {
	s.Sets = slices.Clone(s.Sets)
	return s
}

// standing is how a configured Source stands now; e is what was read of it, nil for nothing.
func (d *daemon) standing(cfg *config.Config, src *config.Source, e *entry, now time.Time, trouble error) *standing {
	s := &standing{
		now: now, configured: true, push: src.Push, gapPatience: src.GapPatience, state: trouble,
		status: syncengine.SourceStatus{Name: src.Name, URL: src.URL, Sets: []syncengine.SetStatus{}},
	}
	next := src.Schedule.Next(now)
	s.poll = src.Schedule.Next(next).Sub(next)
	if e != nil {
		s.status, s.feeds, s.owed = copied(e.status), e.feeds, e.owed
	}
	d.expect(&s.status, cfg, *src)
	r := d.residentNamed(src.Name)
	if r == nil {
		return s
	}
	s.following = r.now() != nil
	r.mu.Lock()
	s.deaf = r.warned
	id := r.id
	r.mu.Unlock()
	if at := d.table.Next(id); id != 0 {
		s.next = at
	}
	r.pulse.set(func() {
		s.halted, s.unread = r.pulse.halted, r.pulse.unread
		if now.Sub(r.pulse.rejectedAt).Abs() < lately {
			s.rejected = r.pulse.rejected
		}
	})
	s.suspect = d.judge.suspects(id)
	return s
}

// row is one Source on the page of all of them.
func (d *daemon) row(s *standing, e *entry) console.Row {
	f := assess(s)
	r := console.Row{
		Name: s.status.Name, URL: shownURL(s.status.URL), Level: f.level, State: f.state, Why: logging.Redact(f.why),
		NextPull: s.next, Channel: "none", Paused: s.status.Paused,
	}
	g := gaugesOf(&s.status)
	r.Position, r.LastPull, r.LastPush = g.Position, g.LastPull, g.LastPush
	r.Resources, r.Bytes, r.Owed, r.Held, r.Refused = g.Resources, g.Bytes, g.Owed, g.Held, g.Refused
	r.GapsOpen, r.GapsLost = g.GapsOpen, g.GapsUnprovable
	if r.NextPull.IsZero() {
		r.NextPull = g.NextPull
	}
	if r.Paused {
		r.NextPull = time.Time{}
	}
	r.Fresh = freshOf(&s.status)
	all := []syncengine.ChannelStatus{}
	for i := range s.status.Sets {
		all = append(all, s.status.Sets[i].Channels...)
	}
	switch c := leading(all); {
	case c != nil:
		r.Channel = c.State
		if live(c) {
			r.LeaseFrom, r.LeaseEnds = at(c.VerifiedAt), at(c.ExpiresAt)
		}
	case s.push == config.PushOff:
		r.Channel = "off"
	}
	day, waiting := day{last: hourOf(store.MicrosOf(s.now))}, store.Point{At: store.NoTime}
	if e != nil {
		day = d.board.dayOf(e.known.ID)
		waiting = d.sampler.waiting(e.known.ID)
	}
	r.Changes, r.Latency = day.series(s.now, waiting)
	return r
}

// freshOf is since when a Source has been known to be in step: when the set that was heard of longest ago was last pulled
// or told of. It is zero while it is not in step.
func freshOf(s *syncengine.SourceStatus) (fresh time.Time) {
	for i := range s.Sets {
		set := &s.Sets[i]
		if !set.InStep {
			return time.Time{}
		}
		heard := at(set.LastPull)
		for j := range set.Channels {
			if c := &set.Channels[j]; c.Kind != string(store.ChannelFramework) {
				heard = later(heard, c.LastDelivery)
			}
		}
		if fresh.IsZero() || heard.Before(fresh) {
			fresh = heard
		}
	}
	return fresh
}
