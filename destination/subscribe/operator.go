package subscribe

import (
	"context"
	"errors"
	"fmt"

	"resyncd/destination/fetch"
	"resyncd/store"
)

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
	if err != nil {
		return fmt.Errorf("drop subscriptions: %w", err)
	}
	every := make(chain, len(all))
	for i := range all {
		every[i] = &all[i]
	}
	if err := k.endAll(ctx, every); err != nil {
		return fmt.Errorf("drop subscriptions: %w", err)
	}
	k.signal()
	return nil
}
