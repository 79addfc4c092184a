package daemon

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/health"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
	syncengine "resyncd/sync"
	"resyncd/sync/report"
)

const (
	boardEvery = time.Second      // the least time between two refreshes
	boardAll   = 30 * time.Second // after which everything is read again: other processes change things too
	// lately is how long after it a rejected notification, or a failure of the state database, is told of first.
	lately  = 10 * time.Minute
	stateOn = time.Minute
)

// board is how all Sources stand, kept in memory: the page of all of them must not cost thousands of queries. What
// changed is named to it, and read again soon.
type board struct {
	d    *Daemon
	kick chan struct{}

	reading sync.Mutex // held while the store is read for it

	mu      sync.Mutex
	dirty   map[string]bool // what is to be read, nil for everything
	entries map[string]*entry
	news    chan struct{} // closed and replaced when something may be another than before
	state   error         // the state database's last failure
	stateAt time.Time
}

// entry is one Source as it was last read; it is replaced, never changed.
type entry struct {
	known  store.Source
	status report.SourceStatus
	feeds  map[int64]bool
	owed   *store.Resource // one that was tried in vain, where that is shown
}

func newBoard(d *Daemon) *board {
	return &board{d: d, kick: make(chan struct{}, 1), entries: map[string]*entry{}, news: make(chan struct{})}
}

// changed names a Source of which something may have changed. It never blocks.
func (b *board) changed(name string) {
	b.mu.Lock()
	if b.dirty != nil {
		b.dirty[name] = true
	}
	b.mu.Unlock()
	b.wake()
}

func (b *board) changedAll() {
	b.mu.Lock()
	b.dirty = nil
	b.mu.Unlock()
	b.wake()
}

func (b *board) wake() { offer(b.kick, struct{}{}) }

func (b *board) stateFailed(err error) {
	b.mu.Lock()
	b.state, b.stateAt = err, b.d.o.Now()
	b.mu.Unlock()
	b.wake()
}

// stateTrouble is a failure of the state database that is news, nil for none.
func (b *board) stateTrouble(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != nil && now.Sub(b.stateAt).Abs() < stateOn {
		return b.state
	}
	return nil
}

// keep reads what changed, at most once in boardEvery, and tells who listens, until ctx ends.
func (b *board) keep(ctx context.Context) error {
	every := time.NewTicker(boardAll)
	defer every.Stop()
	failing := false
	for {
		b.d.stateTroublesOnce(ctx, b.refresh(ctx), &failing, "the overview cannot be kept up to date")
		b.tell()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(boardEvery):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-b.kick:
		case <-every.C:
			b.changedAll()
		}
	}
}

// refresh reads what is named as changed. What cannot be read stays named.
func (b *board) refresh(ctx context.Context) error {
	b.reading.Lock()
	defer b.reading.Unlock()
	b.mu.Lock()
	dirty := b.dirty
	b.dirty = map[string]bool{}
	b.mu.Unlock()
	if dirty != nil && len(dirty) == 0 {
		return nil
	}
	err := b.read(ctx, dirty)
	if err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		if dirty == nil || b.dirty == nil {
			b.dirty = nil
		} else {
			maps.Copy(b.dirty, dirty)
		}
	}
	return err
}

func (b *board) read(ctx context.Context, dirty map[string]bool) error {
	known, err := b.d.st.Sources(ctx)
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(known))
	for i := range known {
		name := known[i].Name
		there[name] = true
		old := b.entry(name)
		if dirty != nil && !dirty[name] && old != nil {
			continue
		}
		e, err := b.readOne(ctx, &known[i], old)
		if errors.Is(err, store.ErrNotFound) { // forgotten just now
			continue
		}
		if err == nil {
			err = b.triedInVain(ctx, e)
		}
		if err != nil {
			return err
		}
		b.mu.Lock()
		b.entries[name] = e
		b.mu.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.entries, func(name string, _ *entry) bool { return !there[name] })
	return nil
}

// all are the entries by name, which are read if that was not done yet.
func (b *board) all(ctx context.Context) (map[string]*entry, error) {
	b.mu.Lock()
	unread := len(b.entries) == 0 && b.dirty == nil
	b.mu.Unlock()
	if unread {
		if err := b.refresh(ctx); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.entries), nil
}

func (b *board) entry(name string) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.entries[name]
}

// readOne reads one Source; old is what was read of it before, nil for nothing.
func (b *board) readOne(ctx context.Context, known *store.Source, old *entry) (*entry, error) {
	e := &entry{known: *known, feeds: map[int64]bool{}}
	var err error
	if e.status, err = report.StatusOf(ctx, b.d.st, known); err != nil {
		return nil, err
	}
	src, _ := b.d.sources.config().Source(known.Name)
	for i := range e.status.Sets {
		set := &e.status.Sets[i]
		if old != nil && old.feeds[set.ID] {
			e.feeds[set.ID] = true
		} else if e.feeds[set.ID], err = mirror.IsFeed(ctx, b.d.st, src.Kind, known.ID,
			set.CapabilityList); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// owedSample is how many owed resources are looked at for one that tells why.
const owedSample = 50

// triedInVain adds an owed resource that says why resources are owed: the one that was tried most often.
func (b *board) triedInVain(ctx context.Context, e *entry) error {
	if !slices.ContainsFunc(e.status.Sets, func(s report.SetStatus) bool { return s.Owed > 0 }) {
		return nil
	}
	rs, err := b.d.st.Scan(ctx, store.ScanQuery{SourceID: e.known.ID, Filter: store.FilterOwed, Limit: owedSample})
	for _, r := range rs {
		if r.Work.Attempts > 0 && (e.owed == nil || r.Work.Attempts > e.owed.Work.Attempts) {
			e.owed = r
		}
	}
	return err
}

// tell says to all who listen that something may be another than before.
func (b *board) tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.news)
	b.news = make(chan struct{})
}

// dashboard is what the console's pages show and do: console.Data for a daemon.
type dashboard struct{ d *Daemon }

var _ console.Data = (*dashboard)(nil)

// Changed implements console.Data.
func (k *dashboard) Changed() <-chan struct{} {
	k.d.board.mu.Lock()
	defer k.d.board.mu.Unlock()
	return k.d.board.news
}

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
	for _, p := range r.seen.packagesNow(now) {
		if p.State != syncengine.PackageFailed {
			s.Package = term.Package(&p)
		}
	}
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
	o := console.Options{
		Status: func(ctx context.Context) (any, error) { return d.status(ctx) },
		Ready:  d.readiness(), Metrics: d.metrics, Data: d.Data(),
		Version: d.o.Build.Version, Hosts: c.Hosts, Log: d.o.Log,
	}
	if c.Guarded() {
		o.Auth = &console.Auth{User: c.User, Password: c.Password.Reveal(), Token: c.Token.Reveal()}
	}
	return o
}
