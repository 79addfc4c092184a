package subscribe

import (
	"context"
	"fmt"
	"time"

	"resyncd/store"
)

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
