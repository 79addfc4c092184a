package sync

import (
	"context"
	"errors"
	"resyncd/destination"
	"resyncd/store"
	"resyncd/sync/transfer"
)

// lostContent finds inline resources that wait for bytes which only their feed can bring again. It reports whether there are
// any, and whether the whole history of the feed is to be searched for them, as is done a few times.
func (s *session) lostContent(ctx context.Context, set int64) (some, search bool, err error) {
	for after := int64(0); !search; {
		rs, err := s.Store.Scan(ctx, store.ScanQuery{SourceID: s.src.ID, SetID: set, Filter: store.FilterOwed, After: after, Limit: sweepPage})
		if err != nil || len(rs) == 0 {
			return some, search, err
		}
		after = rs[len(rs)-1].ID
		for _, r := range rs {
			if w := r.WantFor(set); w != nil && w.Inline && r.Work.Class == transfer.ClassNoContent {
				some, search = true, search || r.Work.Attempts <= searches
			}
		}
	}
	return some, search, nil
}

// searches is after how many failures the history of a feed is not searched any more for what was lost.
const searches = 3

// mendTopics reads topics anew for the bytes of entries that the mirror has lost: nobody else has them. Where a topic cannot
// be read they stay owed.
func (s *session) mendTopics(ctx context.Context) error {
	sets, err := s.Store.Sets(ctx, s.src.ID)
	if err != nil {
		return err
	}
	for i := range sets {
		some, _, err := s.lostContent(ctx, sets[i].ID)
		if err != nil {
			return err
		}
		if !some {
			continue
		}
		err = s.mendTopic(ctx, &sets[i])
		if own, theirs := errors.AsType[*destination.Error](err); theirs && ctx.Err() == nil {
			s.log.Warn("a topic cannot be read for what the mirror has lost of it; the next run tries again", "set", sets[i].CapabilityList, "err", own)
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
		p, err := s.newPuller(set, &offer.Sets[i])
		if err != nil {
			return err
		}
		if err := p.run(ctx); err != nil {
			return err
		}
		if p.out.problem != nil {
			s.log.Warn("a topic was read in part only for what the mirror has lost of it", "set", set.CapabilityList, "err", p.out.problem)
		}
	}
	return s.carryOut(ctx)
}
