package daemon

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/destination/websub"
	"resyncd/store"
)

// sources are the configured Sources, each with its runner.
type sources struct {
	untaken atomic.Bool             // the configuration was invalid when it was last read again
	weakest map[int64]websub.Method // signature, as it was at the start, by Source

	mu     sync.Mutex
	cfg    *config.Config
	byName map[string]*runner
	byID   map[int64]*runner
}

func (s *sources) config() *config.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg
}

func (s *sources) of(id int64) *runner {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

func (s *sources) named(name string) *runner {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byName[name]
}

// nameOf is the label of a Source in metrics; "" is for tokens that nobody knows, and for Sources that are gone.
func (s *sources) nameOf(id int64) string {
	if r := s.of(id); r != nil {
		return r.name
	}
	return ""
}

// runOf is how a Source is followed now, nil while it is not.
func (s *sources) runOf(id int64) *run {
	if r := s.of(id); r != nil {
		return r.current()
	}
	return nil
}

// all are the runners of all Sources.
func (s *sources) all() []*runner {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*runner, 0, len(s.byName))
	for _, r := range s.byName {
		out = append(out, r)
	}
	return out
}

// followed are the Sources that have a Follower now.
func (s *sources) followed() (ids []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, r := range s.byID {
		if r.current() != nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// bind notes which Source of the store a runner is for.
func (s *sources) bind(r *runner, id int64) config.Source {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.id != id {
		delete(s.byID, r.id)
	}
	r.id = id
	s.byID[id] = r
	return r.src
}

// weakestOf is the weakest signature that is taken for a Source.
func (s *sources) weakestOf(id int64) websub.Method {
	if r := s.of(id); r != nil {
		return weakestOf(r.source())
	}
	if m, ok := s.weakest[id]; ok { // its turn after the start is yet to come
		return m
	}
	return websub.SHA1
}

func weakestOf(src config.Source) websub.Method {
	if m, ok := websub.ParseMethod(src.MinSignature); ok {
		return m
	}
	return websub.SHA1
}

// load looks up the configured Sources that the store knows, so that the first notification after a start is held to
// what was configured for its Source.
func (s *sources) load(ctx context.Context, st store.Sources) error {
	s.weakest = map[int64]websub.Method{}
	known, err := st.Sources(ctx)
	cfg := s.config()
	for i := range known {
		if src, ok := cfg.Source(known[i].Name); ok {
			s.weakest[known[i].ID] = weakestOf(src)
		}
	}
	return err
}

// Sources start one after another, so that a thousand do not open their mirrors in one instant; the last one begins
// within startWithin.
const (
	startStep   = 20 * time.Millisecond
	startWithin = 10 * time.Second
)

// startSources gives each Source a runner.
func (d *Daemon) startSources(ctx context.Context, sources []config.Source) {
	step := startStep
	if n := len(sources); n > 0 {
		step = min(step, startWithin/time.Duration(n))
	}
	for i := range sources {
		d.startSource(ctx, sources[i], time.Duration(i)*step)
	}
}

func (d *Daemon) startSource(ctx context.Context, src config.Source, first time.Duration) {
	r := newRunner(d, src)
	d.metrics.Begin(src.Name)
	d.sources.mu.Lock()
	defer d.sources.mu.Unlock()
	d.sources.byName[src.Name] = r
	r.part = d.parts.start(ctx, "follow "+src.Name, func(ctx context.Context) error { return r.keep(ctx, first) })
}

// endSources ends all at once, none waits for another.
func (d *Daemon) endSources() {
	var all []*part
	for _, r := range d.sources.all() {
		all = append(all, r.part)
	}
	endAll(all)
}

// reload reads the configuration again. An invalid one changes nothing.
func (d *Daemon) reload(ctx context.Context) {
	now, err := d.o.Reread()
	if err != nil {
		d.o.Log.Error("the configuration was not taken over: it is invalid; nothing changed")
		for _, problem := range problems(err) {
			d.o.Log.Error("invalid configuration", "problem", problem)
		}
		d.sources.untaken.Store(true)
		d.board.tell()
		return
	}
	d.sources.untaken.Store(false)
	old := d.sources.config()
	diff := compareConfigs(old, now)
	if len(diff.restart) > 0 {
		d.o.Log.Warn("these keys take effect at the next start only", "keys", diff.restart)
	}
	d.sources.mu.Lock()
	d.sources.cfg = merged(old, now)
	d.sources.mu.Unlock()
	for _, name := range diff.removed {
		d.removeSource(ctx, name)
	}
	for _, s := range diff.anew {
		d.changeSource(s, true)
	}
	for _, s := range diff.agreed {
		d.changeSource(s, false)
	}
	d.startSources(ctx, diff.added)
	d.wakeResting()
	if d.listeners.certs != nil {
		if err := d.listeners.certs.Reload(); err != nil {
			d.o.Log.Error("the certificate was not taken over; the old one stays", logging.Err(err))
		}
	}
	d.o.Log.Info("the configuration was read again", "added", len(diff.added), "removed", len(diff.removed),
		"changed", len(diff.anew)+len(diff.agreed))
}

// removeSource is for a Source that is no longer configured: it is unsubscribed, mirror and state stay.
func (d *Daemon) removeSource(ctx context.Context, name string) {
	r := d.sources.named(name)
	if r == nil {
		return
	}
	endAll([]*part{r.part})
	d.metrics.Forget(name)
	d.sources.mu.Lock()
	delete(d.sources.byName, name)
	delete(d.sources.byID, r.id)
	d.sources.mu.Unlock()
	// By its name: it may be known from an earlier run, and have leases, without having been worked on in this one.
	known, err := d.st.Source(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return
	}
	if err == nil {
		err = d.keeper.DropSource(ctx, known.ID)
	}
	if err != nil {
		d.o.Log.Error("a removed Source could not be unsubscribed; its leases run out by themselves",
			logging.KeySource, name, logging.Err(err))
	}
}

// changeSource takes over what changed of a Source: what is agreed with hubs at once, without a stop; for the rest it
// gets a new Follower. Leases are not touched by that.
func (d *Daemon) changeSource(src config.Source, anew bool) {
	r := d.sources.named(src.Name)
	if r == nil {
		return
	}
	if id := r.change(src, anew); id != 0 {
		d.keeper.SetSource(id, plan(&src))
	}
	switch s := r.current(); {
	case anew:
		r.stop(nil)
		r.wake()
	case s != nil:
		r.rediscover(s) // channels may be wanted that nobody asked for before
	}
}

// wakeResting looks again after Sources that are at rest: forgotten ones that are still configured begin anew, and what
// could not be worked on is tried at once.
func (d *Daemon) wakeResting() {
	for _, r := range d.sources.all() {
		r.mu.Lock()
		// One that is merely paused rests again at once; it may have been forgotten by a command of its own.
		again := r.forgotten || r.problem != "" || r.run == nil && r.id != 0
		r.forgotten = false
		r.mu.Unlock()
		if again {
			r.wake()
		}
	}
}

// problems are what is wrong with a configuration, one by one.
func problems(err error) []string {
	var bad *config.Error
	if !errors.As(err, &bad) {
		return []string{err.Error()}
	}
	out := make([]string, len(bad.Problems))
	for i, p := range bad.Problems {
		out[i] = p.String()
	}
	return out
}
