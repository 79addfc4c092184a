package sync

import (
	"context"
	"errors"
	"fmt"

	"resyncd/destination"
	"resyncd/destination/fetch"
	"resyncd/store"
)

// classNoContent is the class of failures of inline resources whose bytes are not at hand any more: only their document can
// bring them again.
const classNoContent = "no-content"

// inline takes bytes at hand to a stage, as fetch does with those that the Source sends.
func (r *reconciler) inline(ctx context.Context, w *worker, o *outcome) {
	content, err := r.s.contentOfInline(ctx, o.res)
	if errors.Is(err, store.ErrNotFound) {
		o.fail(failure{class: classNoContent, stale: true, lasts: true, reason: "its bytes come with its feed, and are not at hand: the next pull looks for it there"})
		return
	}
	if err != nil {
		o.failWith(err)
		return
	}
	if most := r.s.t.MaxResource; most > 0 && int64(len(content)) > most {
		o.fail(failure{class: fetch.TooLarge.String(), lasts: true, reason: fmt.Sprintf("%d bytes are more than max_resource, %d", len(content), most)})
		return
	}
	stage, err := r.s.t.Mirror.NewStage(ctx)
	if err != nil {
		o.failWith(err)
		return
	}
	o.stage = stage
	body := w.receive(stage, o.want.Digests)
	if _, err := body.Write(content); err != nil {
		o.discard()
		o.failWith(err)
		return
	}
	res := fetch.Result{}
	if f := body.check(o.want, &res); f != nil { // a newer want is on its way, whose edits are there already
		o.discard()
		o.fail(*f)
		return
	}
	res.Type = o.want.Type
	r.accept(o, body, &res)
	if err := stage.Close(); err != nil {
		o.discard()
		o.failWith(err)
	}
}

// settled drops the bytes at hand of a resource that is in the mirror now.
func (o *outcome) settled(rc *store.ResourceChange) {
	if o.want != nil && o.want.Inline && rc.Work != nil && rc.Work.Action != store.ActionFetch {
		rc.DropContent = true
	}
}

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
			if w := r.WantFor(set); w != nil && w.Inline && r.Work.Class == classNoContent {
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
		p, err := s.newPuller(set, &offer.Sets[i], make(chan struct{}, 1))
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
	planned := make(chan struct{})
	close(planned)
	rec := &reconciler{s: s, workers: s.t.workers(), planned: planned, failing: newBitmap(), scope: noScope}
	return rec.pass(ctx, func() store.Micros { return endOfTime })
}
