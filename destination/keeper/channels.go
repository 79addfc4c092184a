package keeper

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"resyncd/store"
)

// SetChannels says what a set offers now. New channels are subscribed to, those that moved to another hub or topic are
// subscribed there before the old pair is unsubscribed (S-13, F32), and those not named any more are unsubscribed: the
// caller has seen that twice (F71). A channel that the operator cancelled stays off. It returns when all that is recorded.
func (k *Keeper) SetChannels(ctx context.Context, sourceID, setID int64, chs []Channel) error {
	key := setKey{sourceID, setID}
	own := make([]Channel, len(chs))
	for i, c := range chs {
		own[i] = Channel{Kind: c.Kind, Topic: c.Topic, Hubs: slices.Clone(c.Hubs)}
	}
	k.mu.Lock()
	p, ok := k.plans[sourceID]
	if ok {
		k.offers[key] = own
	}
	k.mu.Unlock()
	if !ok {
		return fmt.Errorf("set channels of source %d: it has no plan", sourceID)
	}
	k.shaping.Lock()
	defer k.shaping.Unlock()
	all, err := k.o.Store.Subscriptions(ctx, sourceID, false)
	if err == nil {
		err = k.shapeSet(ctx, key, p, k.targets(key, p, own), all)
	}
	if err != nil {
		return fmt.Errorf("set channels of %s: %w", p.Name, err)
	}
	return nil
}

// followPlans looks at the families of Sources whose plan changed. What fails is tried again with the next change.
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
			k.o.Log.Warn("subscriptions cannot be brought in line with the configuration yet", "source", k.sourceName(id), "err", err)
			k.mu.Lock()
			k.replan[id] = true
			k.mu.Unlock()
		}
	}
}

func (k *Keeper) followPlan(ctx context.Context, sourceID int64) error {
	k.shaping.Lock()
	defer k.shaping.Unlock()
	all, err := k.o.Store.Subscriptions(ctx, sourceID, false)
	if err != nil {
		return err
	}
	k.mu.Lock()
	p, ok := k.plans[sourceID]
	offers := map[setKey][]Channel{}
	for _, s := range all {
		// What a set offers is not known before its first discovery; then only a push that is off has consequences.
		key := setKey{sourceID, s.SetID}
		if chs, known := k.offers[key]; known || !p.Push {
			offers[key] = chs
		}
	}
	for key, chs := range k.offers {
		if key.source == sourceID {
			offers[key] = chs
		}
	}
	k.mu.Unlock()
	if !ok {
		return nil
	}
	var errs []error
	for key, chs := range offers {
		errs = append(errs, k.shapeSet(ctx, key, p, k.targets(key, p, chs), all))
	}
	return errors.Join(errs...)
}

// shapeSet brings the families of a set in line with what is wanted. all are the subscriptions of the Source.
func (k *Keeper) shapeSet(ctx context.Context, key setKey, p Plan, want []target, all []store.Subscription) error {
	var errs []error
	for _, kind := range []store.ChannelKind{store.ChannelChange, store.ChannelFramework, store.ChannelFeed} {
		f := family{key, kind}
		c := clanOf(all, f)
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
			errs = append(errs, k.shapeFamily(ctx, key, p, &mine[i], share(c, mine, i)))
		}
	}
	return errors.Join(errs...)
}

// off reports whether the operator cancelled the channel.
func off(all []store.Subscription, f family) bool {
	return slices.ContainsFunc(all, func(s store.Subscription) bool { return familyOf(&s) == f && s.State == store.SubOff })
}

// share are the members of a family for the i-th of its targets. There is one, says the specification; should a
// set offer several channels of a kind, each has those of its topic, and the first has what is left.
func share(c clan, targets []target, i int) clan {
	if len(targets) == 1 {
		return c
	}
	var out clan
	for _, s := range c {
		top := c.headAbove(&s)
		owner := max(slices.IndexFunc(targets, func(t target) bool { return t.topic == top.Topic }), 0)
		if owner == i {
			out = append(out, s)
		}
	}
	return out
}

// shapeFamily makes t what the family follows.
func (k *Keeper) shapeFamily(ctx context.Context, key setKey, p Plan, t *target, c clan) error {
	heads := c.heads()
	if len(heads) == 0 {
		_, err := k.add(ctx, newRecord(key, *t, t.hubs[0], p.Secret, k.moment()))
		return err
	}
	// Several heads are what a crash or another process may leave: the best one stays.
	slices.SortStableFunc(heads, func(a, b *store.Subscription) int { return rank(b, t, p) - rank(a, t, p) })
	for _, h := range heads[1:] {
		if err := k.endAll(ctx, append(below(c, *h), *h)); err != nil {
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

// rank orders heads: one that fits before one that does not, one that is alive before one that is not.
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

// endAll ends subscriptions.
func (k *Keeper) endAll(ctx context.Context, c clan) error {
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

// ignore returns err unless it is the one that does not matter.
func ignore(err, harmless error) error {
	if errors.Is(err, harmless) {
		return nil
	}
	return err
}
