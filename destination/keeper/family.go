package keeper

import (
	"context"
	"slices"

	"resyncd/destination/ladder"
	"resyncd/store"
)

// clan is a family as the store has it: those that count. Keeper.shaping is held while it is used.
type clan []store.Subscription

// clanOf picks the members of a family that count.
func clanOf(all []store.Subscription, f family) clan {
	var c clan
	for i := range all {
		if familyOf(&all[i]) == f && counts(&all[i]) {
			c = append(c, all[i])
		}
	}
	return c
}

// heads returns those that nobody replaces.
func (c clan) heads() []*store.Subscription {
	var out []*store.Subscription
	for i := range c {
		id := c[i].ID
		if !slices.ContainsFunc(c, func(o store.Subscription) bool { return o.Replaces == id && o.ID != id }) {
			out = append(out, &c[i])
		}
	}
	return out
}

func (c clan) byID(id int64) *store.Subscription {
	i := slices.IndexFunc(c, func(s store.Subscription) bool { return s.ID == id })
	if i < 0 {
		return nil
	}
	return &c[i]
}

// headAbove returns the head of those that replace s, one after the other.
func (c clan) headAbove(s *store.Subscription) *store.Subscription {
	for range c {
		i := slices.IndexFunc(c, func(o store.Subscription) bool { return o.Replaces == s.ID && o.ID != s.ID })
		if i < 0 {
			break
		}
		s = &c[i]
	}
	return s
}

// clan reads a family from the store.
func (k *Keeper) clan(ctx context.Context, f family) (clan, error) {
	all, err := k.o.Store.Subscriptions(ctx, f.source, false)
	return clanOf(all, f), err
}

// replace makes hub the one where t is subscribed, in the place of top: by a member of the family that fits and was
// replaced itself before, else by a new one. What top is stays until the new one is verified (S-13, S-51).
func (k *Keeper) replace(ctx context.Context, c clan, top *store.Subscription, t *target, hub string, secret bool) error {
	at := target{kind: t.kind, topic: t.topic, hubs: []string{hub}}
	for i := range c {
		if s := &c[i]; s.ID != top.ID && at.fits(s, secret) {
			return k.promote(ctx, c, s, top)
		}
	}
	s := newRecord(setKey{top.SourceID, top.SetID}, *t, hub, secret, k.moment())
	s.Replaces = top.ID
	_, err := k.add(ctx, s)
	return err
}

// promote makes s the head again, above top. It leaves its place to whom it replaced.
func (k *Keeper) promote(ctx context.Context, c clan, s, top *store.Subscription) error {
	if err := k.bridge(ctx, c, s); err != nil {
		return err
	}
	m := k.moment()
	_, err := k.change(ctx, s.ID, func(s *store.Subscription) error {
		s.Replaces = top.ID
		if !s.Live() {
			s.State = store.SubWanted // whatever it was: it is asked once before the turn goes on
			s.Next = max(notTooSoon(s, m.now, m.now), min(s.Next, plus(m.now, ladder.Refused(1, 0))))
		}
		return nil
	})
	return err
}

// leave ends a member. Whoever replaced it now replaces what it replaced, else that would look like a head.
func (k *Keeper) leave(ctx context.Context, seen *store.Subscription) error {
	k.shaping.Lock()
	defer k.shaping.Unlock()
	c, err := k.clan(ctx, familyOf(seen))
	s := c.byID(seen.ID)
	if err != nil || s == nil {
		return err
	}
	if err := k.bridge(ctx, c, s); err != nil {
		return err
	}
	return k.update(ctx, seen, func(s *store.Subscription, m moment) error { end(s, m); return nil })
}

// bridge takes s out of the order of its family.
func (k *Keeper) bridge(ctx context.Context, c clan, s *store.Subscription) error {
	for i := range c {
		if above := &c[i]; above.Replaces == s.ID && above.ID != s.ID {
			if _, err := k.change(ctx, above.ID, func(a *store.Subscription) error { a.Replaces = s.Replaces; return nil }); err != nil {
				return err
			}
		}
	}
	return nil
}

// advance gives the next hub its turn if id is still the head of its family and there is one that may be asked (F32).
func (k *Keeper) advance(ctx context.Context, id int64) (moved bool, err error) {
	k.shaping.Lock()
	defer k.shaping.Unlock()
	s, err := k.o.Store.Subscription(ctx, id)
	if err != nil {
		return false, err
	}
	t, secret, ok := k.wanted(&s)
	if !ok || len(t.hubs) < 2 {
		return false, nil
	}
	c, err := k.clan(ctx, familyOf(&s))
	top := c.byID(id)
	if err != nil || top == nil || c.headAbove(top).ID != id {
		return false, err
	}
	for _, hub := range t.after(s.Hub) {
		if !k.askable(c, &s, &t, hub, secret) {
			continue
		}
		return true, k.replace(ctx, c, top, &t, hub, secret)
	}
	return false, nil
}

// askable reports whether a hub may have its turn now: one that has not failed yet, or not lately.
func (k *Keeper) askable(c clan, top *store.Subscription, t *target, hub string, secret bool) bool {
	at := target{kind: t.kind, topic: t.topic, hubs: []string{hub}}
	for i := range c {
		s := &c[i]
		if s.ID == top.ID || !at.fits(s, secret) {
			continue
		}
		if s.Live() {
			return !exhausted(s)
		}
		// A refusal's long wait holds, whoever's turn it is.
		return s.Next <= plus(k.now(), ladder.RetryMost)
	}
	return true
}

// wanted returns the target that s serves, as far as it is known.
func (k *Keeper) wanted(s *store.Subscription) (t target, secret, ok bool) {
	key := setKey{s.SourceID, s.SetID}
	k.mu.Lock()
	p, planned := k.plans[key.source]
	chs, known := k.offers[key]
	k.mu.Unlock()
	if !planned || !known {
		return target{}, false, false
	}
	for _, t := range k.targets(key, p, chs) {
		if t.kind == s.Kind && t.topic == s.Topic {
			return t, p.Secret, true
		}
	}
	return target{}, false, false
}

// rotate gives a head that grew old a successor at the same hub, with a callback and a secret of its own (S-52). The old
// one goes on, and is renewed in place if the successor takes too long.
func (k *Keeper) rotate(ctx context.Context, id int64) error {
	k.shaping.Lock()
	defer k.shaping.Unlock()
	m := k.moment()
	old, err := k.change(ctx, id, func(s *store.Subscription) error {
		if s.State != store.SubActive || since(s.Rotated, m.now) < ladder.Rotation {
			return errMeanwhile
		}
		s.Renew = plus(m.now, ladder.Within(ladder.Pending, remaining(s, m.now)))
		s.Next = s.Renew
		return nil
	})
	if err != nil {
		return ignore(err, errMeanwhile)
	}
	t := target{kind: old.Kind, topic: old.Topic}
	s := newRecord(setKey{old.SourceID, old.SetID}, t, old.Hub, old.Secret != "", m)
	s.Replaces, s.Profile = old.ID, ladder.Settled(old.Profile)
	_, err = k.add(ctx, s)
	return err
}
