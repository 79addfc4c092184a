package subscribe

import (
	"context"
	"fmt"
	"time"

	"resyncd/destination/websub"
	"resyncd/store"
)

// checkAgain keeps a hub's unrequested unsubscribes from causing requests (S-93).
const checkAgain = 5 * time.Minute

// Verify reports whether to confirm a hub's verification of sub, and records the confirmation before it returns true
// (S-31, S-32): answer 200 with the challenge then, 404 otherwise. It asks no peer (S-36). An error is the store's:
// answer so that the hub comes again.
func (k *Keeper) Verify(ctx context.Context, sub store.Subscription, v websub.Verification) (confirm bool, err error) {
	m := k.moment()
	_, err = k.change(ctx, sub.ID, func(s *store.Subscription) error {
		confirm = false
		if v.Topic != s.Topic {
			return errKeep
		}
		switch v.Mode {
		case websub.ModeSubscribe:
			if !desired(s) {
				return errKeep
			}
			confirm = true
			return applyVerification(s, v, m)
		case websub.ModeUnsubscribe:
			switch s.State {
			case store.SubGone: // again (S-92)
				confirm = true
				return errKeep
			case store.SubUnsubscribing, store.SubOff:
				confirm = true
				unsubscribed(s, m)
				return nil
			}
			return askAgainSoon(s, m)
		}
		return errKeep
	})
	if err != nil {
		return false, fmt.Errorf("verification by a hub: %w", err)
	}
	return confirm, nil
}

// A subscription that was never asked for is not confirmed to anyone (S-31, S-35, S-38).
func desired(s *store.Subscription) bool {
	return counts(s) && s.Requested.Known()
}

// A hub spoke of ending a lease that is wanted (S-93). Anyone can say so, thus not sooner than checkAgain after the
// last request; an earlier plan stays.
func askAgainSoon(s *store.Subscription, m moment) error {
	next := max(m.now, plus(s.Requested, checkAgain))
	if !s.Live() || !s.Renew.Known() || s.Next <= next {
		return errKeep
	}
	s.Next = next
	return nil
}

// Denied records that a hub refuses sub, in any state (S-40). The reason is untrusted. Other hubs are tried; this one
// is asked again after a long wait (S-42).
func (k *Keeper) Denied(ctx context.Context, sub store.Subscription, reason string) error {
	m := k.moment()
	after, err := k.change(ctx, sub.ID, func(s *store.Subscription) error {
		text := "the hub denied the subscription"
		if said := clean(reason, s); said != "" {
			text += ": " + said
		}
		return deny(s, text, m)
	})
	if err == nil && after.State == store.SubDenied {
		_, err = k.advance(ctx, sub.ID)
	}
	if err != nil {
		return fmt.Errorf("denial by a hub: %w", err)
	}
	return nil
}

// How often a hub is asked again or replaced that holds a lease and delivers nothing (F24).
const (
	suspectSoonest = 90 * time.Second // a request needs time to work
	suspectAlone   = time.Hour        // the only hub
	suspectAgain   = 6 * time.Hour    // the same hub
	suspectNew     = time.Hour        // for a newly chosen hub
)

// suspicion is what was done last about a channel whose changes were found by pulls. Times are uptime.
type suspicion struct {
	sub          int64 // asked for anew
	asked, moved time.Duration
}

// Suspect says that pulls found changes that a live subscription should have delivered (F24, CONTRIBUTING.md 3.8). The
// hub is asked again; if that did not help, the next hub is tried.
func (k *Keeper) Suspect(ctx context.Context, subID int64) error {
	s, err := k.o.Store.Subscription(ctx, subID)
	if err == nil {
		err = k.suspect(ctx, &s)
	}
	if err != nil {
		return fmt.Errorf("suspect a hub: %w", err)
	}
	return nil
}

func (k *Keeper) suspect(ctx context.Context, s *store.Subscription) error {
	m := k.moment()
	t, _, known := k.wanted(s)
	others := known && len(t.hubs) > 1
	last, uptime := k.suspicionOf(s), k.uptime()
	asked := uptime - last.asked
	switch {
	case s.State != store.SubActive || !s.Renew.Known():
		return nil
	case min(asked, since(s.Requested, m.now)) < suspectSoonest, uptime-last.moved < suspectNew:
		return nil
	case asked >= suspectAgain, !others && asked >= suspectAlone:
		last.sub, last.asked = s.ID, uptime
		k.note(s, last)
		_, err := k.change(ctx, s.ID, func(s *store.Subscription) error {
			if s.State != store.SubActive || !s.Renew.Known() || s.Next <= m.now {
				return errKeep
			}
			s.Next = m.now
			return nil
		})
		return err
	case !others:
		return nil
	}
	moved, err := k.advance(ctx, s.ID)
	if moved {
		last.moved = uptime
		k.note(s, last)
	}
	return err
}

// Without an entry, the times lie far back.
func (k *Keeper) suspicionOf(s *store.Subscription) suspicion {
	k.mu.Lock()
	defer k.mu.Unlock()
	last, known := k.suspected[channelOf(s)]
	if !known {
		last.moved = -suspectNew
	}
	if !known || last.sub != s.ID {
		last.asked = -suspectAgain
	}
	return last
}

func (k *Keeper) note(s *store.Subscription, last suspicion) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.suspected[channelOf(s)] = last
}
