package daemon

import (
	"context"
	"errors"
	"slices"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/store"
	"resyncd/sync/queue"
)

const (
	tidyEvery  = time.Hour
	tidyFirst  = time.Minute // after the start, which has enough to do
	tidyPause  = 100 * time.Millisecond
	scrubEvery = 10 * time.Minute
)

// tend keeps the database small, until ctx ends.
func (d *Daemon) tend(ctx context.Context) error {
	for pause := tidyFirst; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		more, err := d.st.Tidy(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, store.ErrCorrupt):
			return err
		case err != nil:
			d.stateFailed(err)
			d.log.Warn("housekeeping failed; tried again in an hour", logging.Err(err))
			pause = tidyEvery
		case more:
			pause = tidyPause
		default:
			pause = tidyEvery
		}
	}
}

// scrub has each Source's mirror looked at slowly, all spread over the pause between two turns (F13).
func (d *Daemon) scrub(ctx context.Context) error {
	tick := time.NewTicker(scrubEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		ids := d.followed()
		for i, id := range ids {
			d.put(id, queue.KindScrub, time.Now().Add(scrubEvery*time.Duration(i)/time.Duration(len(ids))))
		}
	}
}

// followed are the Sources that have a Follower now.
func (d *Daemon) followed() []int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ids []int64
	for id, r := range d.byID {
		if r.now() != nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// schedule has a Source pulled when its schedule says so. It is pulled now, which is reported, if it never was or a pull
// fell due meanwhile.
func (d *Daemon) schedule(ctx context.Context, id int64, src *config.Source) (now bool) {
	last, err := d.lastPull(ctx, id)
	if err != nil && ctx.Err() == nil {
		d.log.Warn("when a Source was last pulled is not known; it is pulled now", logging.KeySource, src.Name, logging.Err(err))
	}
	if at := d.now(); last.IsZero() || !src.Schedule.Next(last).After(at) {
		d.put(id, queue.KindPull, time.Time{})
		now, last = true, at
	}
	d.table.Set(id, src.Name, src.Schedule, last)
	if d.leases.lacking(id) { // a hub that was lost before this stay is still lost
		d.hurry(id)
	}
	return now
}

func (d *Daemon) unschedule(id int64) { d.table.Remove(id) }

// lastPull is when the Source was last pulled as a whole, the zero time for never.
func (d *Daemon) lastPull(ctx context.Context, id int64) (time.Time, error) {
	sets, err := d.st.Sets(ctx, id)
	if err != nil || len(sets) == 0 {
		return time.Time{}, err
	}
	first := store.NoTime
	for i := range sets {
		if sets[i].Gone > 0 { // no longer offered
			continue
		}
		if !sets[i].LastPull.Known() {
			return time.Time{}, nil
		}
		if !first.Known() || sets[i].LastPull < first {
			first = sets[i].LastPull
		}
	}
	return first.Time(), nil
}

// letGo unsubscribes what is left of Sources that are no longer configured: nobody would take up what their hubs send.
func (d *Daemon) letGo(ctx context.Context) error {
	all, err := d.st.Sources(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		if _, configured := d.config().Source(all[i].Name); configured {
			continue
		}
		subs, err := d.st.Subscriptions(ctx, all[i].ID, false)
		if err != nil {
			return err
		}
		if len(subs) == 0 {
			continue
		}
		if err := d.keeper.DropSource(ctx, all[i].ID); err != nil {
			return err
		}
	}
	return nil
}
