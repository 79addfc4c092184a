package sync

import (
	"context"
	"fmt"
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
		// Notifications may have moved this set on while the lists of another set were read.
		at, err := f.fillKnown(ctx, sets[i].ID, hinted[sets[i].ID])
		if err != nil {
			f.asks.hintAgain(hinted)
			return err
		}
		next = earlier(next, at)
	}
	if !next.IsZero() {
		f.o.Later(WorkGap, next)
	}
	return nil
}

func (f *Follower) fillKnown(ctx context.Context, id int64, hinted bool) (time.Time, error) {
	set, err := f.known(ctx, id)
	if err != nil || set == nil {
		return time.Time{}, err
	}
	return f.fillSet(ctx, set, hinted)
}

// fillSet returns when to look at the set again, zero for never.
func (f *Follower) fillSet(ctx context.Context, set *store.Set, hinted bool) (time.Time, error) {
	cover := coverage.Coverage{Floor: set.Floor, Proven: set.Proven, Joint: set.Joint}
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
	if err := f.pulling(ctx, set, &cover); err != nil {
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
	return f.afterFill(set, p, s), nil
}

func sameRef(a, b *destination.Ref) bool { return a == b || a != nil && b != nil && a.URL == b.URL }

// fillFrom reads the set anew, because notifications may have moved it on during discovery.
func (f *Follower) fillFrom(ctx context.Context, id int64, offer *destination.SetOffer) (*pull.Puller, error) {
	set, err := f.known(ctx, id)
	if err == nil && set == nil {
		err = fmt.Errorf("set %d: %w", id, store.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	p, err := f.s.NewPuller(set, offer)
	if err != nil {
		return nil, err
	}
	f.watchMisses(p)
	err = f.readsBy(p, func() error {
		if err := p.Start(ctx); err != nil {
			return err
		}
		return p.Fill(ctx)
	})
	if err != nil {
		return nil, err
	}
	f.countMisses(p)
	return p, nil
}

func (f *Follower) afterFill(set *store.Set, p *pull.Puller, s *following) time.Time {
	if p.Out.Problem != nil {
		f.s.Log.Warn("a gap could not be asked about; it stays open", "set", set.CapabilityList, "err", p.Out.Problem)
	}
	if len(p.Cover.Unheard()) == 0 {
		s.due, s.delay = time.Time{}, 0
		return time.Time{}
	}
	return f.putOff(s)
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
