package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"resyncd/callback"
	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/console"
	"resyncd/store"
	syncengine "resyncd/sync"
)

// callbackObserver is told of what hubs deliver.
func (d *daemon) callbackObserver() callback.Observer {
	return callback.Observer{
		Notification: func(source int64, verdict string) {
			d.metrics.Notification(d.nameOf(source), verdict)
			if d.judge.delivered(source) {
				d.calm(source)
			}
		},
		Rejected: func(source int64, reason string) { d.metrics.Rejected(d.nameOf(source), reason) },
	}
}

// nameOf is the label of a Source in metrics; "" is for tokens that nobody knows, and for Sources that are gone.
func (d *daemon) nameOf(source int64) string {
	if r := d.residentOf(source); r != nil {
		return r.name
	}
	return ""
}

// followObserver is told of what a Follower does.
func (d *daemon) followObserver(r *resident, id int64) syncengine.Observer {
	also := d.observe
	o := also
	o.Missed = func(set, n int64) {
		d.judge.missed(id, set, n)
		d.metrics.PushMisses(r.name, n)
		if also.Missed != nil {
			also.Missed(set, n)
		}
	}
	o.Fetched = func(result string, n int64) {
		for range n {
			d.metrics.Fetch(r.name, result)
		}
		if also.Fetched != nil {
			also.Fetched(result, n)
		}
	}
	o.Odd = func(set, n int64) {
		d.metrics.Oddities(r.name, n)
		if also.Odd != nil {
			also.Odd(set, n)
		}
	}
	o.Mirrored = func(m syncengine.Mirrored) {
		d.metrics.PushLatency(r.name, m.Took)
		if also.Mirrored != nil {
			also.Mirrored(m)
		}
	}
	return o
}

// console makes the handler of the console's listener.
func (d *daemon) consoleOptions() console.Options {
	d.metrics.Gauges = d.gauges
	ready := &readiness{d: d}
	return console.Options{
		Status: func(ctx context.Context) (any, error) { return d.status(ctx) },
		Ready:  ready.check, Metrics: d.metrics, Log: d.log,
	}
}

var errStarting = errors.New("the state is being opened")

// status is what `status --json` prints, with what only the daemon knows.
func (d *daemon) status(ctx context.Context) (statusView, error) {
	view := statusView{Version: version, Sources: []syncengine.SourceStatus{}}
	if !d.opened.Load() {
		return view, errStarting
	}
	cfg := d.config()
	for _, src := range cfg.Sources {
		s, err := d.statusOf(ctx, cfg, src)
		if err != nil {
			return view, err
		}
		view.Sources = append(view.Sources, s)
	}
	return view, nil
}

func (d *daemon) statusOf(ctx context.Context, cfg *config.Config, src config.Source) (syncengine.SourceStatus, error) {
	s := syncengine.SourceStatus{Name: src.Name, URL: src.URL, Sets: []syncengine.SetStatus{}}
	known, err := d.st.Source(ctx, src.Name)
	if err == nil {
		if s, err = syncengine.StatusOf(ctx, d.st, &known); err != nil {
			return s, err
		}
	} else if !errors.Is(err, store.ErrNotFound) {
		return s, err
	}
	p := configured(cfg, src)
	s.Expect(expectation(&p, d.sh.now()))
	if r := d.residentNamed(src.Name); r != nil {
		s.Trouble(r.trouble())
	}
	return s, nil
}

func (r *resident) trouble() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problem
}

// gauges is how the Sources stand, for a scrape. What cannot be read is left out.
func (d *daemon) gauges(ctx context.Context) []console.SourceGauges {
	view, err := d.status(ctx)
	if err != nil {
		return nil
	}
	out := make([]console.SourceGauges, 0, len(view.Sources))
	for i := range view.Sources {
		out = append(out, gaugesOf(&view.Sources[i]))
	}
	return out
}

func gaugesOf(s *syncengine.SourceStatus) console.SourceGauges {
	g := console.SourceGauges{Source: s.Name}
	behind := false // a set without a position: the Source has none either
	for i := range s.Sets {
		set := &s.Sets[i]
		g.Resources += set.Resources
		g.Owed += set.Owed
		g.Held += set.Held
		for _, gap := range set.Gaps {
			if store.GapState(gap.State).Open() {
				g.GapsOpen++
			}
		}
		g.Position = first(g.Position, set.Position)
		behind = behind || set.Position == nil
		for _, c := range set.Channels {
			if state := store.SubscriptionState(c.State); state == store.SubActive || state == store.SubRenewing {
				g.LeaseExpires = first(g.LeaseExpires, c.ExpiresAt)
			}
		}
	}
	if behind {
		g.Position = time.Time{}
	}
	return g
}

// first is the earlier of two times, of which the second may be absent and the first not be there yet.
func first(a time.Time, b *string) time.Time {
	if b == nil {
		return a
	}
	t, err := time.Parse(time.RFC3339Nano, *b)
	if err != nil || !a.IsZero() && a.Before(t) {
		return a
	}
	return t
}

// readiness answers /readyz: the store is open, the callback listens, the disk of the state can be written. Anybody may
// ask, so the disk is tried now and then only.
type readiness struct {
	d *daemon

	mu    sync.Mutex
	tried time.Time
	err   error
}

const readyAge = 5 * time.Second

func (r *readiness) check(context.Context) error {
	if !r.d.opened.Load() {
		return errStarting
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.tried) >= readyAge {
		r.tried, r.err = now, writable(r.d.config().DataDir)
	}
	return r.err
}

func writable(dir string) error {
	f, err := os.CreateTemp(dir, ".ready-*")
	if err != nil {
		return fmt.Errorf("the disk of the state cannot be written: %w", err)
	}
	_, err = f.WriteString("x")
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}
