package sync

import (
	"context"
	"errors"

	"resyncd/destination"
	"resyncd/store"
)

// mendTopics reads topics anew for entry bytes that the mirror lost, because no other place has them. Entries of an
// unreadable topic stay owed.
func (s *session) mendTopics(ctx context.Context) error {
	sets, err := s.Store.Sets(ctx, s.SourceID)
	if err != nil {
		return err
	}
	for i := range sets {
		some, _, err := s.LostContent(ctx, sets[i].ID)
		if err != nil {
			return err
		}
		if !some {
			continue
		}
		err = s.mendTopic(ctx, &sets[i])
		if own, theirs := errors.AsType[*destination.Error](err); theirs && ctx.Err() == nil {
			s.Log.Warn("a topic cannot be read for what the mirror has lost of it; the next run tries again",
				"set", sets[i].CapabilityList, "err", own)
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (s *session) mendTopic(ctx context.Context, set *store.Set) error {
	offer, err := s.discover(ctx)
	if err != nil {
		return err
	}
	for i := range offer.Sets {
		if offer.Sets[i].ID != set.CapabilityList || offer.Sets[i].Topic == nil {
			continue
		}
		p, err := s.NewPuller(set, &offer.Sets[i])
		if err != nil {
			return err
		}
		if err := p.Run(ctx); err != nil {
			return err
		}
		if p.Out.Problem != nil {
			s.Log.Warn("a topic was read in part only for what the mirror has lost of it",
				"set", set.CapabilityList, "err", p.Out.Problem)
		}
	}
	return s.carryOut(ctx)
}
