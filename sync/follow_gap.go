package sync

import (
	"context"
	"time"

	"resyncd/destination"
	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/pull"
)

// lagFirst is the first delay for a lagging list; it doubles up to Poll (coverage.md 4).
const lagFirst = 5 * time.Second

// fillGaps reads the lists of all sets with due holes or hints.
func (f *Follower) fillGaps(ctx context.Context) error {
	sets, err := f.s.Store.Sets(ctx, f.s.SourceID)
	if err != nil {
		return err
	}
	hinted := f.asks.takeHints()
	var next time.Time
	for i := range sets {
		at, err := f.fillSet(ctx, sets[i].ID, hinted[sets[i].ID])
		if err != nil {
			for id := range hinted {
				f.asks.hint(id)
			}
			return err
		}
		next = earlier(next, at)
	}
	if !next.IsZero() {
		f.o.Later(WorkGap, next)
	}
	return nil
}

// fillSet returns when to look at the set again, zero for never. Notifications may have moved the set on while the lists
// of another were read.
func (f *Follower) fillSet(ctx context.Context, id int64, hinted bool) (time.Time, error) {
	set, err := f.known(ctx, id)
	if err != nil {
		return time.Time{}, err
	}
	cover := pull.CoverageOf(set)
	holes := cover.Unheard()
	s, now := f.set(set.ID), f.s.Now()
	if len(holes) == 0 {
		s.due, s.delay = time.Time{}, 0
	}
	if s.due.IsZero() && len(holes) > 0 {
		s.due = now.Add(f.o.ReorderGrace)
	}
	due := s.due
	if hinted {
		pause := hintEvery
		if o := f.offers[set.ID]; o != nil && o.ChangeList == nil && o.Topic == nil {
			// A sender of hints must not make us read a Resource List over and over.
			pause = listEvery
		}
		if s.signed {
			pause = topicEvery
		}
		due = earlier(due, s.filled.Add(pause))
	}
	if due.IsZero() {
		return due, nil
	}
	if due.After(now) {
		if hinted {
			f.asks.hint(set.ID)
		}
		return due, nil
	}
	s.filled = now
	offer, ok := f.offer(set)
	if !ok { // not discovered yet, or unreadable
		f.o.Later(WorkPull, now)
		if len(holes) == 0 {
			return time.Time{}, nil
		}
		return f.putOff(s), nil
	}
	if offer.Topic != nil {
		return f.fillTopic(ctx, set)
	}
	if err := f.pulling(ctx, set, cover); err != nil {
		return time.Time{}, err
	}
	p, err := f.fillFrom(ctx, set.ID, offer)
	if err != nil {
		return time.Time{}, err
	}
	if p.Out.Problem != nil { // the lists may have moved
		if _, err := f.rediscover(ctx); err != nil {
			return time.Time{}, err
		}
		if now, _ := f.offer(set); !sameRef(now.ChangeList, offer.ChangeList) ||
			!sameRef(now.ResourceList, offer.ResourceList) {
			if p, err = f.fillFrom(ctx, set.ID, now); err != nil {
				return time.Time{}, err
			}
		}
	}
	if p.Out.Problem != nil {
		f.s.Log.Warn("a gap could not be asked about; it stays open", "set", set.CapabilityList, "err", p.Out.Problem)
	}
	if len(p.Cover.Unheard()) == 0 {
		s.due, s.delay = time.Time{}, 0
		return time.Time{}, nil
	}
	return f.putOff(s), nil
}

func sameRef(a, b *destination.Ref) bool { return a == b || a != nil && b != nil && a.URL == b.URL }

func (f *Follower) fillFrom(ctx context.Context, id int64, offer *destination.SetOffer) (*pull.Puller, error) {
	return f.readSet(ctx, id, offer, func(p *pull.Puller) error { return p.Fill(ctx) })
}

func (f *Follower) putOff(s *following) time.Time {
	s.delay = min(max(2*s.delay, lagFirst), max(f.o.Poll, lagFirst))
	s.due = f.s.Now().Add(s.delay)
	return s.due
}

func (f *Follower) pulling(ctx context.Context, set *store.Set, cover *coverage.Coverage) error {
	gaps, err := f.s.Store.Gaps(ctx, set.ID)
	if err != nil {
		return err
	}
	c := &store.Commit{Claim: f.s.Claim}
	for i := range gaps {
		for _, h := range cover.Unheard() {
			if g := &gaps[i]; g.Until == h.Until && (g.State == store.GapWaiting || g.State == store.GapFound) {
				g.State = store.GapPulling
				c.Gaps = append(c.Gaps, g)
			}
		}
	}
	if len(c.Gaps) == 0 {
		return nil
	}
	return f.s.Store.Commit(ctx, c)
}
