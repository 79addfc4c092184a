package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/health"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
	syncengine "resyncd/sync"
	"resyncd/sync/coverage"
	"resyncd/sync/report"
)

// sightings are what is known of a Source beside its rows, from what the daemon saw. It goes with the process.
type sightings struct {
	mu         sync.Mutex
	halted     error                    // the mirror cannot take files
	unread     error                    // what kept the last pull from being whole, nil for nothing
	found      map[int64]string         // how sets were discovered
	gaps       map[int64]store.GapState // open ones
	rejected   string                   // why a notification was last not taken
	rejectedAt time.Time
	packages   []packageSeen // the newest last
}

// packageSeen is a package in flight, or one that failed lately.
type packageSeen struct {
	syncengine.PackageProgress
	at time.Time
}

// packagesMost bounds what is remembered: beside those that failed two are in flight at most.
const packagesMost = 8

// packageIs takes note of how a package comes along. One that failed stays until it comes again.
func (p *sightings) packageIs(how syncengine.PackageProgress, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.packages, func(s packageSeen) bool { return s.URL == how.URL })
	over := how.State == syncengine.PackageOver
	switch now := (packageSeen{how, at}); {
	case i < 0 && !over:
		p.packages = append(p.packages, now)
		p.packages = p.packages[max(0, len(p.packages)-packagesMost):]
	case i < 0 || p.packages[i].State == syncengine.PackageFailed && how.State != syncengine.PackageComing:
	case over:
		p.packages = slices.Delete(p.packages, i, i+1)
	default:
		p.packages[i] = now
	}
}

// packagesNow are those in flight, and those that failed lately.
func (p *sightings) packagesNow(now time.Time) (out []syncengine.PackageProgress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.packages {
		if s.State != syncengine.PackageFailed || now.Sub(s.at).Abs() < lately {
			out = append(out, s.PackageProgress)
		}
	}
	return out
}

func (p *sightings) note(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// stateFailed counts a failure of the state database. One that only opening it anew can mend ends the daemon (F10):
// whoever supervises it begins it again.
func (d *Daemon) stateFailed(err error) {
	reason := "other"
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return
	case errors.Is(err, store.ErrFull):
		reason = "full"
	case errors.Is(err, store.ErrCorrupt):
		reason = "corrupt"
	case errors.Is(err, store.ErrUnsure):
		offer(d.parts.failed, err)
	}
	d.metrics.Count(console.StateFailures, "", reason, 1)
	d.board.stateFailed(err)
}

// stateTroubles takes note of a failure to read or write the state, if there is one, and logs what cannot be done.
func (d *Daemon) stateTroubles(ctx context.Context, err error, what string) {
	d.stateTroublesOnce(ctx, err, new(bool), what)
}

// stateTroublesOnce logs it once, however long it lasts.
func (d *Daemon) stateTroublesOnce(ctx context.Context, err error, before *bool, what string) {
	if err != nil && ctx.Err() == nil {
		d.stateFailed(err)
		if !*before {
			d.o.Log.Warn(what, logging.Err(err))
		}
	}
	*before = err != nil
}

// ofState tells whether a failure is the state database's.
func ofState(err error) bool {
	causes := []error{store.ErrFull, store.ErrDisk, store.ErrUnsure, store.ErrCorrupt}
	return slices.ContainsFunc(causes, func(cause error) bool { return errors.Is(err, cause) })
}

// observer is told of what a Follower does: for the metrics, the history and the console.
func (r *runner) observer(id int64) syncengine.Observer {
	d := r.d
	also := d.o.Observe
	say := r.sayer()
	count := func(e console.Event, value string, n int64) {
		d.metrics.Count(e, r.name, value, n)
		d.board.changed(r.name)
	}
	o := also
	o.Notified = func(verdict coverage.Verdict, n int) { count(console.Notifications, string(verdict), int64(n)) }
	o.Missed = func(set, n int64) {
		d.hubs.add(id, set, n)
		count(console.PushMisses, "", n)
		d.sampler.add(store.Point{SourceID: id, Misses: n})
	}
	o.Settled = both(func(s syncengine.Settled) {
		p := store.Point{SourceID: id, Bytes: s.Placed}
		switch s.Result {
		case "fetched":
			p.Changes = 1
			d.metrics.Count(console.Transports, r.name, s.Transport, 1)
		case "failed":
			p.Failed = 1
		}
		d.sampler.add(p)
		d.metrics.Count(console.Fetches, r.name, s.Result, 1)
		d.metrics.Count(console.FetchedBytes, r.name, "", s.Bytes)
		if s.Class != "" {
			d.metrics.Count(console.FetchFailures, r.name, s.Class, 1)
		}
		if s.Took > 0 {
			d.metrics.Observe(console.FetchTime, r.name, s.Took)
		}
	}, also.Settled)
	o.Removed = func(n int64) {
		count(console.Removals, "", n)
		d.sampler.add(store.Point{SourceID: id, Changes: n})
	}
	o.Odd = func(set, n int64) { count(console.Oddities, "", n) }
	o.Mirrored = both(func(m syncengine.Mirrored) {
		d.metrics.Observe(console.PushLatency, r.name, m.Took)
		took := max(m.Took.Microseconds(), 0)
		d.sampler.add(store.Point{SourceID: id, Pushes: 1, Latency: took, LatencyMost: took})
		d.board.changed(r.name)
		say("notification carried out", slog.Int64("set_id", m.SetID), slog.Int("changes", m.Changes),
			slog.Int("owed", m.Owed),
			slog.Duration("took", m.Took.Round(time.Microsecond)), slog.Time("until", m.Until.Time()))
	}, also.Mirrored)
	o.Gap = both(func(g store.Gap) {
		if r.gapChanged(&g) {
			say.gap(&g)
		}
	}, also.Gap)
	o.Pulled = both(func(res syncengine.Result) {
		count(console.Pulls, health.PullResult(&res), 1)
		count(console.Packages, "", res.Packages)
		count(console.Batches, "", res.Batches)
		say.pulled(&res)
	}, also.Pulled)
	o.Unread = func(err error) {
		count(console.PullProblems, health.ReasonOf(err), 1)
		r.seen.note(func() { r.seen.unread = err })
	}
	o.Discovered = func(set int64, how string) {
		r.seen.note(func() { r.seen.found[set], r.seen.unread = how, nil })
	}
	o.Skipped = func(n int64) { count(console.SkippedEntries, "", n) }
	o.Doubted = func(reason string) { count(console.DoubtfulDocuments, reason, 1) }
	o.Held = func(_, _ int64) { count(console.HeldSweeps, "", 1) }
	o.Rotten = func(n int64) { count(console.ScrubFindings, "", n) }
	o.Package = func(how syncengine.PackageProgress) {
		r.seen.packageIs(how, d.o.Now())
		d.board.changed(r.name)
	}
	o.Halted = func(err error) {
		r.seen.note(func() { r.seen.halted = err })
		if err != nil {
			count(console.MirrorHalts, health.DiskReason(err), 1)
		}
		d.board.changed(r.name)
	}
	return o
}

// both tells two, of whom the second may be nobody.
func both[T any](first, second func(T)) func(T) {
	if second == nil {
		return first
	}
	return func(what T) {
		first(what)
		second(what)
	}
}

// gapChanged counts gaps as they are found and as they end. Each is told of many times; news reports whether its state
// is another than before.
func (r *runner) gapChanged(g *store.Gap) (news bool) {
	d := r.d
	var before store.GapState
	r.seen.note(func() {
		if before = r.seen.gaps[g.ID]; g.State.Open() {
			r.seen.gaps[g.ID] = g.State
		} else {
			delete(r.seen.gaps, g.ID)
		}
	})
	count := func(e console.Event, value string) { d.metrics.Count(e, r.name, value, 1) }
	if before == "" && g.Found >= store.MicrosOf(d.started) {
		count(console.GapsFound, "")
	}
	switch {
	case g.State == store.GapLagging && before != store.GapLagging:
		count(console.LaggingLists, "")
	case g.State == store.GapUnprovable:
		count(console.GapsEnded, "unprovable")
	case g.State == store.GapClosed:
		count(console.GapsEnded, cmp.Or(g.ClosedBy, "none"))
	}
	d.board.changed(r.name)
	return before != g.State
}

// sayer logs what was done for the Source, one line for each slice of work: at debug where somebody tells people of it
// in another way, as the demo does.
func (r *runner) sayer() sayer {
	log, level := r.d.o.Log.With(logging.KeySource, r.name), slog.LevelInfo
	if r.d.o.Observe.Pulled != nil {
		level = slog.LevelDebug
	}
	return func(what string, attrs ...slog.Attr) { log.LogAttrs(context.Background(), level, what, attrs...) }
}

type sayer func(what string, attrs ...slog.Attr)

func (say sayer) pulled(r *syncengine.Result) {
	attrs := []slog.Attr{
		slog.Any("set", logging.URI(r.Set)), slog.String("kind", r.Kind),
		slog.Int64("fetched", r.Fetched), slog.Int64("unchanged", r.Unchanged), slog.Int64("deleted", r.Deleted),
		slog.Int64("owed", r.Owed), slog.Int64("held", r.Held),
		slog.Int64("requests", r.Requests), slog.Int64("bytes", r.Bytes),
		slog.Duration("took", time.Duration(r.Seconds*float64(time.Second)).Round(time.Millisecond)),
		slog.Bool("in_step", r.InStep),
	}
	if r.Position != nil {
		attrs = append(attrs, slog.String("position", *r.Position))
	}
	if r.Problem != "" {
		attrs = append(attrs, slog.String("problem", logging.Redact(r.Problem)))
	}
	say("pulled", attrs...)
}

func (say sayer) gap(g *store.Gap) {
	attrs := []slog.Attr{slog.Int64("set_id", g.SetID), slog.Time("from", g.From.Time()),
		slog.Time("until", g.Until.Time()), slog.String("state", string(g.State))}
	if g.ClosedBy != "" {
		attrs = append(attrs, slog.String("closed_by", g.ClosedBy))
	}
	say("gap", attrs...)
}

var errStarting = errors.New("the state is being opened")

// status is what `status --json` prints, with what only the daemon knows.
func (d *Daemon) status(ctx context.Context) (mirror.StatusView, error) {
	view := mirror.StatusView{Version: d.o.Build.Version, Sources: []report.SourceStatus{}}
	if !d.listeners.isOpen() {
		return view, errStarting
	}
	for _, src := range d.sources.config().Sources {
		s, _, err := d.at(ctx, src.Name)
		if errors.Is(err, console.ErrUnknown) { // it went just now
			continue
		}
		if err != nil {
			return view, err
		}
		view.Sources = append(view.Sources, term.Status(s.Status))
	}
	return view, nil
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
	out := make([]console.SourceGauges, len(view.Sources))
	for i := range view.Sources {
		g := &out[i]
		g.SourceStatus = view.Sources[i]
		g.Totals = totalsOf(&g.SourceStatus)
		if r := d.sources.named(g.Name); r != nil {
			if id, err := r.known(); err == nil {
				g.Inbox = waiting[id]
			}
			r.seen.note(func() { g.Halted = r.seen.halted != nil })
		}
	}
	return out
}

// totalsOf sums the sets of a Source up. Where one has no position, or was never pulled, all have none.
func totalsOf(s *report.SourceStatus) (t console.Totals) {
	t.Paused = s.Paused
	behind, unpulled := false, false
	for i := range s.Sets {
		set := &s.Sets[i]
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
