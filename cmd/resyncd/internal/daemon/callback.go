package daemon

import (
	"context"
	"net/url"
	"time"

	"resyncd/callback"
	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/destination"
	"resyncd/destination/keeper"
	"resyncd/destination/rsdoc"
	"resyncd/destination/websub"
	"resyncd/store"
	syncengine "resyncd/sync"
	"resyncd/sync/queue"
)

// patience is how long the fetches of a pull may go on before it is called ended, the rest being owed.
const patience = time.Hour

// callbackOptions ties the callback server to store, keeper and Followers.
func (d *Daemon) callbackOptions(cfg *config.Config) callback.Options {
	path := ""
	if u, err := url.Parse(d.base); err == nil {
		path = u.EscapedPath()
	}
	return callback.Options{
		Store: d.st, Keeper: d.keeper, BasePath: path, MaxBody: int64(cfg.Callback.MaxBody),
		Now: d.now, Log: d.log,
		Wake: d.delivered,
		Policy: func(id int64) callback.Policy {
			if r := d.residentOf(id); r != nil {
				return callback.Policy{Weakest: weakestOf(r.source())}
			}
			if m, ok := d.weakest[id]; ok { // its turn after the start is yet to come
				return callback.Policy{Weakest: m}
			}
			return callback.Policy{Weakest: websub.SHA1}
		},
		TooLarge: d.hint, Doubtful: d.hint,
		Moved: func(sub store.Subscription, _ string) {
			if r := d.residentOf(sub.SourceID); r != nil {
				if s := r.now(); s != nil {
					d.look(r, s)
				}
			}
		},
		Observe: d.callbackObserver(),
	}
}

// delivered has what came into a Source's inbox taken up: by a job of its own or, should another one of the Source be
// waiting for a document, within that wait.
func (d *Daemon) delivered(id int64) {
	d.put(id, queue.KindNotify, time.Time{})
	if s := d.stayOf(id); s != nil {
		s.f.Heard()
	}
}

// weakestOf is the weakest signature that is taken for a Source.
func weakestOf(src config.Source) websub.Method {
	if m, ok := websub.ParseMethod(string(src.MinSignature)); ok {
		return m
	}
	return websub.SHA1
}

// knowWeakest looks up the configured Sources that the store knows, so that the first notification after a start is held
// to what was configured for its Source.
func (d *Daemon) knowWeakest(ctx context.Context) error {
	d.weakest = map[int64]websub.Method{}
	known, err := d.st.Sources(ctx)
	cfg := d.config()
	for i := range known {
		if src, ok := cfg.Source(known[i].Name); ok {
			d.weakest[known[i].ID] = weakestOf(src)
		}
	}
	return err
}

func (d *Daemon) stayOf(id int64) *stay {
	if r := d.residentOf(id); r != nil {
		return r.now()
	}
	return nil
}

// rediscover is the keeper's way to what a set offers now.
func (d *Daemon) rediscover(ctx context.Context, id, _ int64) error {
	s := d.stayOf(id)
	if s == nil {
		return errNobodyFollows
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	return s.f.Rediscover(ctx)
}

// offered passes on which channels discovery found, and warns where their hubs cannot reach us.
func (d *Daemon) offered(r *resident, id int64) func(context.Context, int64, []destination.Channel) {
	return func(ctx context.Context, set int64, found []destination.Channel) {
		channels := make([]keeper.Channel, 0, len(found))
		for _, c := range found {
			kind := store.ChannelChange
			switch c.Kind {
			case rsdoc.KindFrameworkNotification:
				kind = store.ChannelFramework
			case destination.KindFeed:
				kind = store.ChannelFeed
			}
			channels = append(channels, keeper.Channel{Kind: kind, Topic: c.Topic, Hubs: c.Hubs})
			d.warnUnreachable(r, c.Hubs)
		}
		if err := d.keeper.SetChannels(ctx, id, set, channels); err != nil && ctx.Err() == nil {
			d.log.Error("the channels of a set cannot be recorded; the next read does it", logging.KeySource, r.name, logging.Err(err))
		}
	}
}

// hint has a set pulled soon, because of a notification that could not be taken.
func (d *Daemon) hint(source, set int64) {
	if s := d.stayOf(source); s != nil {
		s.f.Hint(set)
	}
}

// warnUnreachable tells once for each Source that a hub on another machine cannot deliver to a loopback address.
func (d *Daemon) warnUnreachable(r *resident, hubs []string) {
	if !config.Loopback(d.base) || r.source().Push == config.PushOff {
		return
	}
	for _, hub := range hubs {
		if config.Loopback(hub) {
			continue
		}
		r.mu.Lock()
		warned := r.warned
		r.warned = true
		r.mu.Unlock()
		if !warned {
			d.log.Warn("a hub on another machine cannot deliver: callback.base_url leads to this machine only", logging.KeySource, r.name, logging.KeyHub, logging.URL(hub))
		}
		return
	}
}

// followOptions tie a Follower to queue, keeper and whoever watches.
func (d *Daemon) followOptions(r *resident, id int64, src *config.Source) syncengine.FollowOptions {
	now := d.now()
	next := src.Schedule.Next(now)
	return syncengine.FollowOptions{
		ReorderGrace: src.ReorderGrace, Poll: src.Schedule.Next(next).Sub(next), Patience: patience,
		Later:      func(w syncengine.Work, due time.Time) { d.put(id, queue.Kind(w), due) },
		Offered:    d.offered(r, id),
		Subscribed: d.leases.since,
		Observe:    d.followObserver(r, id),
	}
}

// subscriptionChanged is told of each change of a subscription. When the last hub that told of a set's changes is lost,
// pulls take over at once (S-42, F25); when one is won, what nobody told of meanwhile is looked for.
func (d *Daemon) subscriptionChanged(sub store.Subscription) {
	d.callback.Changed(sub)
	d.countChange(&sub)
	turn := d.leases.note(&sub)
	if s := d.stayOf(sub.SourceID); s != nil && (turn == won || turn == lost) {
		s.f.Hint(sub.SetID)
	}
	switch turn {
	case lost:
		d.hurry(sub.SourceID)
	case won, left:
		d.calm(sub.SourceID)
	}
}
