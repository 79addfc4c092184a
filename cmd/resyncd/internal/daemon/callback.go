package daemon

import (
	"context"
	"net/url"
	"time"

	"resyncd/callback"
	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/destination"
	"resyncd/destination/subscribe"
	"resyncd/store"
	syncengine "resyncd/sync"
	"resyncd/sync/queue"
)

// patience is how long the fetches of a pull may go on before it is called ended, the rest being owed.
const patience = time.Hour

// callbackOptions ties the callback server to store, keeper and Followers.
func (d *Daemon) callbackOptions(cfg *config.Config) callback.Options {
	path := ""
	if u, err := url.Parse(d.listeners.base); err == nil {
		path = u.EscapedPath()
	}
	return callback.Options{
		Store: d.st, Keeper: d.keeper, BasePath: path, MaxBody: int64(cfg.Callback.MaxBody),
		Now: d.o.Now, Log: d.o.Log,
		Wake: d.delivered, Weakest: d.sources.weakestOf,
		TooLarge: d.hint, Doubtful: d.hint,
		Moved: func(sub store.Subscription, _ string) {
			if r := d.sources.of(sub.SourceID); r != nil {
				if s := r.current(); s != nil {
					r.rediscover(s)
				}
			}
		},
		Observe: d.callbackObserver(),
	}
}

// delivered has what came into a Source's inbox taken up: by a job of its own or, should another one of the Source be
// waiting for a document, within that wait.
func (d *Daemon) delivered(id int64) {
	d.jobs.put(id, queue.KindNotify, time.Time{})
	if s := d.sources.runOf(id); s != nil {
		s.f.Heard()
	}
}

// rediscover is the keeper's way to what a set offers now.
func (d *Daemon) rediscover(ctx context.Context, id, _ int64) error {
	s := d.sources.runOf(id)
	if s == nil {
		return errNobodyFollows
	}
	ctx, cancel := until(ctx, s.ending)
	defer cancel()
	return s.f.Rediscover(ctx)
}

// hint has a set pulled soon, because of a notification that could not be taken.
func (d *Daemon) hint(source, set int64) {
	if s := d.sources.runOf(source); s != nil {
		s.f.Hint(set)
	}
}

// subscriptionChanged is told of each change of a subscription.
func (d *Daemon) subscriptionChanged(sub store.Subscription) {
	d.listeners.behind.Load().Changed(sub)
	d.hubs.changed(&sub)
}

// offered passes on which channels discovery found, and warns where their hubs cannot reach us.
func (r *runner) offered(id int64) func(context.Context, int64, []destination.Channel) {
	return func(ctx context.Context, set int64, found []destination.Channel) {
		for i := range found {
			r.warnUnreachable(found[i].Hubs)
		}
		if err := r.d.keeper.SetChannels(ctx, id, set, found); err != nil && ctx.Err() == nil {
			r.d.o.Log.Error("the channels of a set cannot be recorded; the next read does it", logging.KeySource,
				r.name, logging.Err(err))
		}
	}
}

// warnUnreachable tells once for each Source that a hub on another machine cannot deliver to a loopback address.
func (r *runner) warnUnreachable(hubs []string) {
	if !config.Loopback(r.d.listeners.base) || r.src.Load().Push == config.PushOff {
		return
	}
	for _, hub := range hubs {
		if config.Loopback(hub) {
			continue
		}
		if !r.warned.Swap(true) {
			r.d.o.Log.Warn("a hub on another machine cannot deliver: callback.base_url leads to this machine only",
				logging.KeySource, r.name, logging.KeyHub, logging.URL(hub))
		}
		return
	}
}

// followOptions tie a Follower to queue, keeper and whoever watches.
func (r *runner) followOptions(id int64) syncengine.FollowOptions {
	src := r.src.Load()
	return syncengine.FollowOptions{
		ReorderGrace: src.ReorderGrace, Poll: pauseOf(src.Schedule, r.d.o.Now()), Patience: patience,
		Later:      func(w syncengine.Work, due time.Time) { r.d.jobs.put(id, queue.Kind(w), due) },
		Offered:    r.offered(id),
		Subscribed: r.d.hubs.since(id),
		Observe:    r.observer(id),
	}
}

// plan is what the keeper has to know of a Source.
func plan(src *config.Source) subscribe.Plan {
	return subscribe.Plan{
		Name: src.Name, Push: src.Push != config.PushOff, Lease: src.Lease, Secret: src.Secret != config.SecretOff,
		Policy: mirror.PolicyOf(src), HubOverride: src.Hub, TopicOverride: src.Topic,
	}
}
