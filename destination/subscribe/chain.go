package subscribe

import (
	"context"
	"errors"
	"fmt"

	"resyncd/destination/fetch"
	"resyncd/store"
)

// chain holds members of a channel: of the store those that count, while Keeper.chainMu is held, or all of the
// timetable.
type chain []*store.Subscription

func chainOf(all []store.Subscription, f channelKey) chain {
	var c chain
	for i := range all {
		if channelOf(&all[i]) == f && counts(&all[i]) {
			c = append(c, &all[i])
		}
	}
	return c
}

// above returns the member that replaces s, nil for none.
func (c chain) above(s *store.Subscription) *store.Subscription {
	for _, o := range c {
		if o.Replaces == s.ID && o.ID != s.ID && counts(o) {
			return o
		}
	}
	return nil
}

func (c chain) heads() chain {
	var out chain
	for _, s := range c {
		if c.above(s) == nil {
			out = append(out, s)
		}
	}
	return out
}

func (c chain) byID(id int64) *store.Subscription {
	for _, s := range c {
		if s.ID == id {
			return s
		}
	}
	return nil
}

func (c chain) headAbove(s *store.Subscription) *store.Subscription {
	for range c { // a cycle of replacements would be a bug; it must not hang
		next := c.above(s)
		if next == nil {
			break
		}
		s = next
	}
	return s
}

func (k *Keeper) chain(ctx context.Context, f channelKey) (chain, error) {
	all, err := k.o.Store.Subscriptions(ctx, f.source, false)
	return chainOf(all, f), err
}

// replace subscribes to at, of one hub, in place of top: with a member that was replaced before, else with a new one.
// The old head stays until the new one is verified (S-13, S-51).
func (k *Keeper) replace(ctx context.Context, c chain, top *store.Subscription, at target, secret bool) error {
	for _, s := range c {
		if s.ID != top.ID && at.fits(s, secret) {
			return k.promote(ctx, c, s, top)
		}
	}
	s := newRecord(channelOf(top), at.topic, at.hubs[0], secret, k.moment())
	s.Replaces = top.ID
	return k.add(ctx, s)
}

// promote makes s the head again, above top. Its former place goes to the member it replaced.
func (k *Keeper) promote(ctx context.Context, c chain, s, top *store.Subscription) error {
	if err := k.unlink(ctx, c, s); err != nil {
		return err
	}
	m := k.moment()
	_, err := k.change(ctx, s.ID, func(s *store.Subscription) error {
		s.Replaces = top.ID
		if !s.Live() {
			// The hub is asked once before another one is tried.
			s.State = store.SubWanted
			s.Next = max(notTooSoon(s, m.now, m.now), min(s.Next, plus(m.now, refusedWait(1, 0))))
		}
		return nil
	})
	return err
}

// endMember ends a member of a chain. The member above now replaces what it replaced, else that would look like a head.
func (k *Keeper) endMember(ctx context.Context, seen *store.Subscription) error {
	k.chainMu.Lock()
	defer k.chainMu.Unlock()
	c, err := k.chain(ctx, channelOf(seen))
	s := c.byID(seen.ID)
	if err != nil || s == nil {
		return err
	}
	if err := k.unlink(ctx, c, s); err != nil {
		return err
	}
	return k.update(ctx, seen, end)
}

func (k *Keeper) unlink(ctx context.Context, c chain, s *store.Subscription) error {
	for _, above := range c {
		if above.Replaces == s.ID && above.ID != s.ID {
			if _, err := k.change(ctx, above.ID,
				func(a *store.Subscription) error { a.Replaces = s.Replaces; return nil }); err != nil {
				return err
			}
		}
	}
	return nil
}

// advance moves on to the next hub if id is still the head and another hub may be asked (F32).
func (k *Keeper) advance(ctx context.Context, id int64) (moved bool, err error) {
	k.chainMu.Lock()
	defer k.chainMu.Unlock()
	s, err := k.o.Store.Subscription(ctx, id)
	if err != nil {
		return false, err
	}
	t, secret, ok := k.wanted(&s)
	if !ok || len(t.hubs) < 2 {
		return false, nil
	}
	c, err := k.chain(ctx, channelOf(&s))
	top := c.byID(id)
	if err != nil || top == nil || c.headAbove(top).ID != id {
		return false, err
	}
	for _, hub := range t.after(s.Hub) {
		if at := t.at(hub); k.askable(c, &s, at, secret) {
			return true, k.replace(ctx, c, top, at, secret)
		}
	}
	return false, nil
}

func (k *Keeper) askable(c chain, top *store.Subscription, at target, secret bool) bool {
	for _, s := range c {
		if s.ID == top.ID || !at.fits(s, secret) {
			continue
		}
		if s.Live() {
			return !exhausted(s)
		}
		// A refusal's long wait holds for every hub.
		return s.Next <= plus(k.now(), retryMost)
	}
	return true
}

// wanted returns the target that s serves, as far as it is known.
func (k *Keeper) wanted(s *store.Subscription) (t target, secret, ok bool) {
	k.mu.Lock()
	of := k.source(s.SourceID)
	p, planned := of.plan, of.planned
	chs, known := of.offers[s.SetID]
	k.mu.Unlock()
	if !planned || !known {
		return target{}, false, false
	}
	for _, t := range k.targets(s.SetID, p, chs) {
		if t.kind == s.Kind && t.topic == s.Topic {
			return t, p.Secret, true
		}
	}
	return target{}, false, false
}

// rotate gives an old head a successor at the same hub, with a callback and a secret of its own (S-52). The old head is
// renewed in place if the successor takes too long.
func (k *Keeper) rotate(ctx context.Context, id int64) error {
	k.chainMu.Lock()
	defer k.chainMu.Unlock()
	m := k.moment()
	old, err := k.change(ctx, id, func(s *store.Subscription) error {
		if s.State != store.SubActive || since(s.Rotated, m.now) < rotation {
			return errMeanwhile
		}
		s.Renew = plus(m.now, within(pendingWait, remaining(s, m.now)))
		s.Next = s.Renew
		return nil
	})
	if err != nil {
		return ignore(err, errMeanwhile)
	}
	s := newRecord(channelOf(&old), old.Topic, old.Hub, old.Secret != "", m)
	s.Replaces, s.Profile = old.ID, settled(old.Profile)
	return k.add(ctx, s)
}

// Renew has the hubs of a Source's channels asked again soon, of one topic or of all (""), and brings back cancelled
// channels. It returns how many.
func (k *Keeper) Renew(ctx context.Context, sourceID int64, topic string) (n int, err error) {
	n, err = k.eachOperable(ctx, sourceID, topic, "renew",
		func(_ []store.Subscription, s *store.Subscription, m moment) error {
			if s.State == store.SubOff {
				return k.bringBack(ctx, *s, m)
			}
			_, err := k.change(ctx, s.ID, func(s *store.Subscription) error { return bringForward(s, m) })
			return err
		})
	if err != nil {
		return n, err
	}
	// A channel that was brought back may be offered elsewhere by now.
	k.mu.Lock()
	k.replan[sourceID] = true
	k.mu.Unlock()
	k.signal()
	return n, nil
}

// The hub was told that the old callback has ended, so the channel gets a new subscription.
func (k *Keeper) bringBack(ctx context.Context, s store.Subscription, m moment) error {
	if _, err := k.change(ctx, s.ID, func(s *store.Subscription) error { end(s, m); return nil }); err != nil {
		return err
	}
	secret := s.Secret != ""
	if p, ok := k.planOf(s.SourceID); ok {
		secret = p.Secret
	}
	return k.add(ctx, newRecord(channelOf(&s), s.Topic, s.Hub, secret, m))
}

func bringForward(s *store.Subscription, m moment) error {
	if !counts(s) {
		return errKeep
	}
	s.Next = notTooSoon(s, m.now, m.now)
	s.Profile = settled(s.Profile)
	s.Attempts = 0
	return nil
}

// Cancel unsubscribes from a Source's channels, of one topic or of all (""). They stay off, across restarts, until
// Renew. It returns how many.
func (k *Keeper) Cancel(ctx context.Context, sourceID int64, topic string) (n int, err error) {
	n, err = k.eachOperable(ctx, sourceID, topic, "cancel",
		func(all []store.Subscription, s *store.Subscription, m moment) error {
			if s.State == store.SubOff {
				return errKeep
			}
			_, err := k.change(ctx, s.ID, func(s *store.Subscription) error { cancel(s, m); return nil })
			if err == nil {
				err = k.endAll(ctx, below(chainOf(all, channelOf(s)), s))
			}
			return err
		})
	if err == nil {
		k.signal()
	}
	return n, err
}

// eachOperable changes the heads of chains and cancelled subscriptions, of one topic or of all (""), and counts them
// but where change returns errKeep.
func (k *Keeper) eachOperable(ctx context.Context, sourceID int64, topic, what string,
	change func(all []store.Subscription, s *store.Subscription, m moment) error) (n int, err error) {
	k.chainMu.Lock()
	defer k.chainMu.Unlock()
	all, err := k.o.Store.Subscriptions(ctx, sourceID, false)
	if err != nil {
		return 0, fmt.Errorf("%s subscriptions: %w", what, err)
	}
	m := k.moment()
	for i := range all {
		s := &all[i]
		isHead := counts(s) && chainOf(all, channelOf(s)).headAbove(s).ID == s.ID
		if topic != "" && s.Topic != topic || s.State != store.SubOff && !isHead {
			continue
		}
		err := change(all, s, m)
		if errors.Is(err, errKeep) {
			continue
		}
		if err != nil {
			return n, fmt.Errorf("%s a subscription to %s: %w", what, fetch.RedactURL(s.Topic), err)
		}
		n++
	}
	return n, nil
}

func below(c chain, top *store.Subscription) chain {
	var out chain
	for _, s := range c {
		if s.ID != top.ID && c.headAbove(s).ID == top.ID {
			out = append(out, s)
		}
	}
	return out
}

// DropSource forgets a Source's plan and ends its subscriptions. Run unsubscribes, with the Source's policy as long as
// this process knows it, until the hub confirms or the lease has run out (S-91).
func (k *Keeper) DropSource(ctx context.Context, sourceID int64) error {
	k.mu.Lock()
	s := k.source(sourceID)
	s.planned = false
	s.forget()
	delete(k.replan, sourceID)
	k.planSource(s)
	k.mu.Unlock()

	k.chainMu.Lock()
	defer k.chainMu.Unlock()
	all, err := k.o.Store.Subscriptions(ctx, sourceID, false)
	if err == nil {
		every := make(chain, len(all))
		for i := range all {
			every[i] = &all[i]
		}
		err = k.endAll(ctx, every)
	}
	if err != nil {
		return fmt.Errorf("drop subscriptions: %w", err)
	}
	k.signal()
	return nil
}
