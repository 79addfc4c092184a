package daemon

import (
	"context"
	"errors"
	"slices"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/destination/keeper"
	"resyncd/store"
)

// Sources start one after another, so that a thousand do not open their mirrors in one instant; the last one begins
// within startWithin.
const (
	startStep   = 20 * time.Millisecond
	startWithin = 10 * time.Second
)

// settle gives each Source a resident.
func (d *Daemon) settle(ctx context.Context, sources []config.Source) {
	step := startStep
	if n := len(sources); n > 0 {
		step = min(step, startWithin/time.Duration(n))
	}
	for i := range sources {
		d.admit(ctx, sources[i], time.Duration(i)*step)
	}
}

func (d *Daemon) admit(ctx context.Context, src config.Source, first time.Duration) {
	r := newResident(src)
	d.metrics.Begin(src.Name)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.residents[src.Name] = r
	r.part = d.part(ctx, "follow "+src.Name, func(ctx context.Context) error { return d.live(ctx, r, first) })
}

// dismiss ends a resident; its mirror and its state stay.
func (d *Daemon) dismiss(r *resident) {
	endAll([]*part{r.part})
	d.metrics.Forget(r.name)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.residents, r.name)
	delete(d.byID, r.id)
}

// endResidents ends all at once, none waits for another.
func (d *Daemon) endResidents() {
	d.mu.Lock()
	all := make([]*part, 0, len(d.residents))
	for _, r := range d.residents {
		all = append(all, r.part)
	}
	d.mu.Unlock()
	endAll(all)
}

// reload reads the configuration again. An invalid one changes nothing.
func (d *Daemon) reload(ctx context.Context) {
	now, err := d.reread()
	if err != nil {
		d.log.Error("the configuration was not taken over: it is invalid; nothing changed")
		for _, problem := range problems(err) {
			d.log.Error("invalid configuration", "problem", problem)
		}
		d.untaken.Store(true)
		d.board.tell()
		return
	}
	d.untaken.Store(false)
	old := d.config()
	diff := compareConfigs(old, now)
	if len(diff.restart) > 0 {
		d.log.Warn("these keys take effect at the next start only", "keys", diff.restart)
	}
	d.mu.Lock()
	d.cfg = merged(old, now)
	d.mu.Unlock()
	for _, name := range diff.removed {
		d.remove(ctx, name)
	}
	for _, s := range slices.Concat(diff.anew, diff.agreed) {
		d.renew(s, slices.ContainsFunc(diff.anew, func(a config.Source) bool { return a.Name == s.Name }))
	}
	d.settle(ctx, diff.added)
	d.retry()
	if d.certs != nil {
		if err := d.certs.Reload(); err != nil {
			d.log.Error("the certificate was not taken over; the old one stays", logging.Err(err))
		}
	}
	d.log.Info("the configuration was read again", "added", len(diff.added), "removed", len(diff.removed),
		"changed", len(diff.anew)+len(diff.agreed))
}

// remove is for a Source that is no longer configured: it is unsubscribed, mirror and state stay.
func (d *Daemon) remove(ctx context.Context, name string) {
	r := d.residentNamed(name)
	if r == nil {
		return
	}
	d.dismiss(r)
	// By its name: it may be known from an earlier run, and have leases, without having been worked on in this one.
	known, err := d.st.Source(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return
	}
	if err == nil {
		err = d.keeper.DropSource(ctx, known.ID)
	}
	if err != nil {
		d.log.Error("a removed Source could not be unsubscribed; its leases run out by themselves", logging.KeySource, name, logging.Err(err))
	}
}

// renew takes over what changed of a Source: what is agreed with hubs at once, without a stop; for the rest it gets a
// new Follower. Leases are not touched by that.
func (d *Daemon) renew(src config.Source, anew bool) {
	r := d.residentNamed(src.Name)
	if r == nil {
		return
	}
	r.mu.Lock()
	r.src = src
	if anew {
		r.turns++
	}
	id := r.id
	r.mu.Unlock()
	if id != 0 {
		d.keeper.SetSource(id, plan(&src))
	}
	switch s := r.now(); {
	case anew:
		r.leave(nil)
		r.lookAgain()
	case s != nil:
		d.look(r, s) // channels may be wanted that nobody asked for before
	}
}

// retry looks again after Sources that are at rest: forgotten ones that are still configured begin anew, and what could
// not be worked on is tried at once.
func (d *Daemon) retry() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.residents {
		r.mu.Lock()
		// One that is merely paused rests again at once; it may have been forgotten by a command of its own.
		again := r.forgotten || r.problem != "" || r.stay == nil && r.id != 0
		r.forgotten = false
		r.mu.Unlock()
		if again {
			r.lookAgain()
		}
	}
}

// plan is what the keeper has to know of a Source.
func plan(src *config.Source) keeper.Plan {
	return keeper.Plan{
		Name: src.Name, Push: src.Push != config.PushOff, Lease: src.Lease, Secret: src.Secret != config.SecretOff,
		Policy: mirror.PolicyOf(src), HubOverride: src.Hub, TopicOverride: src.Topic,
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
