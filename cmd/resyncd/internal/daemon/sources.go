package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
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
	untaken  atomic.Bool // the configuration was invalid when it was last read again
	changing sync.Mutex  // held while runners take the places of others: two would follow one Source

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
	return slices.Collect(maps.Values(s.byName))
}

// bind notes which Source of the store a runner is for.
func (s *sources) bind(r *runner, id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.id != id {
		delete(s.byID, r.id)
	}
	r.id = id
	s.byID[id] = r
}

// remove takes a runner off the tables.
func (s *sources) remove(r *runner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName[r.name] == r { // else it was configured anew meanwhile
		delete(s.byName, r.name)
	}
	if s.byID[r.id] == r {
		delete(s.byID, r.id)
	}
}

// weakestOf is the weakest signature that is taken for a Source.
func (s *sources) weakestOf(id int64) websub.Method {
	if r := s.of(id); r != nil {
		if m, ok := websub.ParseMethod(r.src.Load().MinSignature); ok {
			return m
		}
	}
	return websub.SHA1
}

// loadSources gives each Source a runner that is started later, so that the first notification after a start is held
// to what was configured for its Source.
func (d *Daemon) loadSources(ctx context.Context) error {
	known, err := d.st.Sources(ctx)
	cfg := d.sources.config()
	for i := range known {
		if src, ok := cfg.Source(known[i].Name); ok {
			r := newRunner(d, src)
			d.sources.mu.Lock()
			d.sources.byName[r.name] = r
			d.sources.mu.Unlock()
			d.sources.bind(r, known[i].ID)
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

// startSources has Sources followed.
func (d *Daemon) startSources(ctx context.Context, sources []config.Source) {
	step := startStep
	if n := len(sources); n > 0 {
		step = min(step, startWithin/time.Duration(n))
	}
	for i := range sources {
		d.startSource(ctx, sources[i], time.Duration(i)*step)
	}
}

// startSource has a Source followed, once the runner that it had before has come to its end.
func (d *Daemon) startSource(ctx context.Context, src config.Source, first time.Duration) {
	r := newRunner(d, src)
	d.metrics.Begin(src.Name)
	before := d.sources.named(src.Name)
	if before != nil {
		r.seen = before.seen
		if id, err := before.known(); err == nil {
			d.sources.bind(r, id)
		}
	}
	d.sources.mu.Lock()
	defer d.sources.mu.Unlock()
	d.sources.byName[src.Name] = r
	r.part = d.parts.start(ctx, "follow "+src.Name, func(ctx context.Context) error {
		if before != nil && before.part != nil {
			before.part.stop()
			<-before.part.done
		}
		return r.keep(ctx, first)
	})
}

// endSources ends all at once, none waits for another.
func (d *Daemon) endSources() {
	var all []*part
	for _, r := range d.sources.all() {
		if r.part != nil {
			all = append(all, r.part)
		}
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
	d.sources.changing.Lock()
	defer d.sources.changing.Unlock()
	old := d.sources.config()
	if keys := restartKeys(old, now); len(keys) > 0 {
		d.o.Log.Warn("these keys take effect at the next start only", "keys", keys)
	}
	d.sources.mu.Lock()
	d.sources.cfg = merged(old, now)
	d.sources.mu.Unlock()
	removed := 0
	for _, s := range old.Sources {
		if _, ok := now.Source(s.Name); !ok {
			d.removeSource(ctx, s.Name)
			removed++
		}
	}
	changed := 0
	var added []config.Source
	for _, s := range now.Sources {
		was, known := old.Source(s.Name)
		same := reflect.DeepEqual(was, s)
		if known && !same {
			changed++
		}
		switch r := d.sources.named(s.Name); {
		case !known:
			added = append(added, s)
		case r == nil, !reflect.DeepEqual(withoutAgreement(was), withoutAgreement(s)): // nil: it was forgotten
			d.startSource(ctx, s, 0)
		case !same:
			r.agree(&s)
		case r.isStuck():
			r.wake()
		}
	}
	d.startSources(ctx, added)
	if d.listeners.certs != nil {
		if err := d.listeners.certs.Reload(); err != nil {
			d.o.Log.Error("the certificate was not taken over; the old one stays", logging.Err(err))
		}
	}
	d.o.Log.Info("the configuration was read again", "added", len(added), "removed", removed,
		"changed", changed)
}

// withoutAgreement leaves out what only hubs and the callback server have to know. The topic of a feed is also what is
// pulled.
func withoutAgreement(s config.Source) config.Source {
	s.Push, s.Lease, s.Secret, s.MinSignature = "", 0, "", ""
	if s.Kind != config.KindFeed {
		s.Hub, s.Topic = "", ""
	}
	return s
}

// agree takes over what is agreed with hubs; nothing is stopped.
func (r *runner) agree(src *config.Source) {
	r.src.Store(src)
	if id, err := r.known(); err == nil {
		r.d.keeper.SetSource(id, plan(src))
	}
	if r.current() != nil {
		r.rediscover() // channels may be wanted that nobody asked for before
	} else {
		r.wake()
	}
}

// removeSource is for a Source that is no longer configured: it is unsubscribed, mirror and state stay.
func (d *Daemon) removeSource(ctx context.Context, name string) {
	r := d.sources.named(name)
	if r == nil {
		return
	}
	endAll([]*part{r.part})
	d.metrics.Forget(name)
	d.sources.remove(r)
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

// isStuck reports whether nobody follows the Source though its turn has come: a reload tries it again at once. One that
// is merely paused rests again; it may have been forgotten by a command of its own.
func (r *runner) isStuck() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.run == nil && r.id != 0 || r.problem != ""
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

// restartKeys are the keys in which two configurations differ that take effect at the next start.
func restartKeys(old, now *config.Config) (keys []string) {
	for _, k := range []struct {
		key     string
		was, is any
	}{
		{"data_dir", old.DataDir, now.DataDir},
		{"store", old.Store, now.Store},
		{"mirror", old.Mirror, now.Mirror},
		{"callback.listen", old.Callback.Listen, now.Callback.Listen},
		{"callback.base_url", old.Callback.BaseURL, now.Callback.BaseURL},
		{"callback.max_body", old.Callback.MaxBody, now.Callback.MaxBody},
		{"callback.tls_cert_file", old.Callback.TLSCertFile, now.Callback.TLSCertFile},
		{"callback.tls_key_file", old.Callback.TLSKeyFile, now.Callback.TLSKeyFile},
		{"console.listen", old.Console.Listen, now.Console.Listen},
		{"console.user", old.Console.User, now.Console.User},
		{"console.password", old.Console.Password.Reveal(), now.Console.Password.Reveal()},
		{"console.token", old.Console.Token.Reveal(), now.Console.Token.Reveal()},
		{"console.hosts", old.Console.Hosts, now.Console.Hosts},
		{"network.idle_timeout", old.Network.IdleTimeout, now.Network.IdleTimeout},
		{"network.user_agent", old.Network.UserAgent, now.Network.UserAgent},
		{"network.contact", old.Network.Contact, now.Network.Contact},
		{"network.allow", old.Network.Allow, now.Network.Allow},
	} {
		if fmt.Sprint(k.was) != fmt.Sprint(k.is) {
			keys = append(keys, k.key)
		}
	}
	return keys
}

// merged is the configuration that the daemon goes by after a reload: the new Sources, and of the rest what it was
// started with.
func merged(old, now *config.Config) *config.Config {
	out := *old
	out.Sources, out.Defaults = now.Sources, now.Defaults
	return &out
}
