package subscribe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"resyncd/destination"
	"resyncd/destination/rsdoc"
	"resyncd/store"
)

// Offered are the channels that discovery found, as SetChannels takes them.
func Offered(found []destination.Channel) []Channel {
	channels := make([]Channel, 0, len(found))
	for _, c := range found {
		kind := store.ChannelChange
		switch c.Kind {
		case rsdoc.KindFrameworkNotification:
			kind = store.ChannelFramework
		case destination.KindFeed:
			kind = store.ChannelFeed
		}
		channels = append(channels, Channel{Kind: kind, Topic: c.Topic, Hubs: c.Hubs})
	}
	return channels
}

// SetChannels records what a set offers now. A channel that moved is subscribed to there before the old pair is
// unsubscribed (S-13, F32). A channel that is no longer named is unsubscribed, because the caller has seen that twice
// (F71). One that the operator cancelled stays off.
func (k *Keeper) SetChannels(ctx context.Context, sourceID, setID int64, chs []Channel) error {
	own := make([]Channel, len(chs))
	for i, c := range chs {
		own[i] = Channel{Kind: c.Kind, Topic: c.Topic, Hubs: slices.Clone(c.Hubs)}
	}
	k.mu.Lock()
	s := k.source(sourceID)
	p, planned := s.plan, s.planned
	if planned {
		s.offers[setID] = own
	}
	k.mu.Unlock()
	if !planned {
		return fmt.Errorf("set channels of source %d: it has no plan", sourceID)
	}
	k.chainMu.Lock()
	defer k.chainMu.Unlock()
	all, err := k.o.Store.Subscriptions(ctx, sourceID, false)
	if err == nil {
		err = k.reconcileSet(ctx, sourceID, setID, p, own, all)
	}
	if err != nil {
		return fmt.Errorf("set channels of %s: %w", p.Name, err)
	}
	return nil
}

// followPlans reconciles the channels of Sources whose plan changed.
func (k *Keeper) followPlans(ctx context.Context) {
	k.mu.Lock()
	var changed []int64
	for id := range k.replan {
		changed = append(changed, id)
	}
	clear(k.replan)
	k.mu.Unlock()
	slices.Sort(changed)
	for _, id := range changed {
		if err := k.followPlan(ctx, id); err != nil && ctx.Err() == nil {
			k.o.Log.Warn("subscriptions cannot be brought in line with the configuration yet",
				"source", k.sourceName(id), "err", err)
			k.mu.Lock()
			k.replan[id] = true
			k.mu.Unlock()
		}
	}
}

func (k *Keeper) followPlan(ctx context.Context, sourceID int64) error {
	k.chainMu.Lock()
	defer k.chainMu.Unlock()
	all, err := k.o.Store.Subscriptions(ctx, sourceID, false)
	if err != nil {
		return err
	}
	k.mu.Lock()
	of := k.source(sourceID)
	p, planned := of.plan, of.planned
	offers := maps.Clone(of.offers)
	k.mu.Unlock()
	if !planned {
		return nil
	}
	for _, s := range all {
		// What a set offers is unknown before its first discovery; until then only switching push off has consequences.
		if _, known := offers[s.SetID]; !known && !p.Push {
			offers[s.SetID] = nil
		}
	}
	var errs []error
	for set, chs := range offers {
		errs = append(errs, k.reconcileSet(ctx, sourceID, set, p, chs, all))
	}
	return errors.Join(errs...)
}

// all are the subscriptions of the Source.
func (k *Keeper) reconcileSet(ctx context.Context, sourceID, setID int64, p Plan, chs []Channel,
	all []store.Subscription) error {
	want := k.targets(setID, p, chs)
	var errs []error
	for _, kind := range []store.ChannelKind{store.ChannelChange, store.ChannelFramework, store.ChannelFeed} {
		f := channelKey{sourceID, setID, kind}
		c := chainOf(all, f)
		var mine []target
		for _, t := range want {
			if t.kind == kind {
				mine = append(mine, t)
			}
		}
		if off(all, f) || len(mine) == 0 {
			errs = append(errs, k.endAll(ctx, c))
			continue
		}
		for i := range mine {
			errs = append(errs, k.reconcileChannel(ctx, f, p, &mine[i], chainFor(c, mine, i)))
		}
	}
	return errors.Join(errs...)
}

func off(all []store.Subscription, f channelKey) bool {
	return slices.ContainsFunc(all,
		func(s store.Subscription) bool { return channelOf(&s) == f && s.State == store.SubOff })
}

// chainFor picks the members that serve the i-th target. Should a set offer several channels of a kind, against R-02,
// each has the members of its topic, and the first has the rest.
func chainFor(c chain, targets []target, i int) chain {
	if len(targets) == 1 {
		return c
	}
	var out chain
	for _, s := range c {
		top := c.headAbove(s)
		owner := max(slices.IndexFunc(targets, func(t target) bool { return t.topic == top.Topic }), 0)
		if owner == i {
			out = append(out, s)
		}
	}
	return out
}

func (k *Keeper) reconcileChannel(ctx context.Context, f channelKey, p Plan, t *target, c chain) error {
	heads := c.heads()
	if len(heads) == 0 {
		_, err := k.add(ctx, newRecord(f, t.topic, t.hubs[0], p.Secret, k.moment()))
		return err
	}
	// A crash or another process may leave several heads.
	slices.SortStableFunc(heads, func(a, b *store.Subscription) int { return rank(b, t, p) - rank(a, t, p) })
	for _, h := range heads[1:] {
		if err := k.endAll(ctx, append(below(c, h), h)); err != nil {
			return err
		}
	}
	top := heads[0]
	if t.fits(top, p.Secret) {
		return nil
	}
	hub := t.hubs[0]
	if slices.Contains(t.hubs, top.Hub) {
		hub = top.Hub
	}
	return k.replace(ctx, c, top, t, hub, p.Secret)
}

func rank(s *store.Subscription, t *target, p Plan) int {
	n := 0
	if t.fits(s, p.Secret) {
		n += 2
	}
	if s.Live() {
		n++
	}
	return n
}

func (k *Keeper) endAll(ctx context.Context, c chain) error {
	m := k.moment()
	for _, s := range c {
		_, err := k.change(ctx, s.ID, func(s *store.Subscription) error {
			if !counts(s) {
				return errKeep
			}
			end(s, m)
			return nil
		})
		if err := ignore(err, store.ErrNotFound); err != nil {
			return err
		}
	}
	return nil
}

func ignore(err, harmless error) error {
	if errors.Is(err, harmless) {
		return nil
	}
	return err
}
