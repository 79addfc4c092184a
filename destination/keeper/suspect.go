package keeper

import (
	"context"
	"fmt"
	"time"

	"resyncd/store"
)

// How a hub is met that has a lease with us and delivers nothing (F24). Hubs are asked and left for that at these rates at
// most, however often they are suspected.
const (
	suspectSoonest = 90 * time.Second // after any request: what was done last is given time to work
	suspectAlone   = time.Hour        // between requests to the only hub
	suspectAgain   = 6 * time.Hour    // after which a hub that was asked anew deserves to be asked once more
	suspectNew     = time.Hour        // what the hub is given that got its turn
)

// suspicion is what was done last about a channel whose changes were found by pulls, by uptime.
type suspicion struct {
	sub          int64 // the subscription that was asked for anew
	asked, moved time.Duration
}

// Suspect says that changes were found by pulls that a live subscription should have brought (F24, design.md 3.8). It is
// asked for again; if that did not help, the next hub gets its turn. It may be called for each miss: what was done last is
// given time to work.
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

// suspicionOf returns what was done last about the channel of s: long ago, where nothing was.
func (k *Keeper) suspicionOf(s *store.Subscription) suspicion {
	k.mu.Lock()
	defer k.mu.Unlock()
	last, known := k.suspected[familyOf(s)]
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
	k.suspected[familyOf(s)] = last
}
