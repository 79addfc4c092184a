package sync

import (
	"bytes"
	"context"
	"errors"
	"time"

	"resyncd/destination"
	"resyncd/destination/feed"
	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/pull"
	"resyncd/sync/window"
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
		_, hint := hinted[sets[i].ID]
		at, err := f.fillSet(ctx, sets[i].ID, hint)
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

// fillSet returns when to look again, zero for never. Notifications may have moved the set on meanwhile.
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

// topicEvery is the least time between two reads of a topic for signed pushes.
const topicEvery = time.Second

// looksMost bounds the questions for a pushed document that the topic does not answer with yet (S-71).
const looksMost = 7

// fillTopic reads the topic of a set after a hint. It returns when to try again, zero for never.
func (f *Follower) fillTopic(ctx context.Context, set *store.Set) (time.Time, error) {
	s := f.set(set.ID)
	s.signed, s.read = false, f.s.Now()
	if s.looks > 0 {
		there, err := f.answered(ctx, set, s)
		if err != nil || there {
			return time.Time{}, err
		}
	}
	offer, _, problem := f.discover(ctx, f.s.Reader.Uncached()) // a push said that the topic changed
	if problem != nil && f.broken(ctx, problem) {
		return time.Time{}, problem
	}
	if problem == nil {
		o := offerOf(offer, set.CapabilityList)
		if o == nil || o.Topic == nil {
			return time.Time{}, nil
		}
		p, err := f.fillFrom(ctx, set.ID, o)
		if err != nil {
			return time.Time{}, err
		}
		problem = p.Out.Problem
	}
	if problem != nil {
		f.s.Log.Warn("a topic that may have changed could not be read; it is tried again",
			"set", set.CapabilityList, "err", problem)
		f.asks.hint(set.ID)
		again := f.s.Now().Add(listEvery)
		s.filled = again.Add(-hintEvery)
		return again, nil
	}
	return f.lookAgain(set.ID), nil
}

// tellsOfHubs reports whether a missing hub is real: an error page or a cut feed says nothing (F58, S-13).
func (f *Follower) tellsOfHubs(ctx context.Context, set *store.Set, o *destination.SetOffer) (bool, error) {
	if o.Topic == nil || len(o.Topic.Hubs) > 0 || o.Topic.Answer.NotModified {
		return true, nil
	}
	a := &o.Topic.Answer
	if a.Format == feed.None {
		was, err := f.s.RecallJSON(ctx, pull.TopicWindow+set.CapabilityList, &window.Window{})
		return !was, err
	}
	_, err := feed.Read(bytes.NewReader(a.Body), feed.Options{ContentType: a.ContentType},
		func(*feed.Entry) error { return nil })
	return err == nil, ctx.Err()
}

func (f *Follower) answered(ctx context.Context, set *store.Set, s *following) (bool, error) {
	offer, _ := f.offer(set)
	if offer.Topic == nil || s.expects == nil {
		return false, nil
	}
	for _, uri := range []string{offer.Topic.URL, offer.Topic.Answer.URL} {
		r, err := f.s.Store.Resource(ctx, f.s.SourceID, uri)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return false, err
		}
		if err == nil && r.Have.State != store.HaveNone && r.Have.SHA256 == *s.expects {
			s.expects, s.looks = nil, 0
			return true, nil
		}
	}
	return false, nil
}

func (f *Follower) lookAgain(set int64) time.Time {
	s := f.set(set)
	if s.expects == nil {
		return time.Time{}
	}
	if s.looks++; s.looks > looksMost {
		f.s.Log.Warn("a topic does not answer with what its hub pushed; its own answer counts", "set_id", set)
		s.expects, s.looks = nil, 0
		return time.Time{}
	}
	wait := topicEvery << (s.looks - 1)
	f.asks.hint(set)
	s.filled = s.read.Add(wait - hintEvery)
	return s.read.Add(wait)
}

// expect has a topic read soon after a signed push, and again until it answers with a pushed document.
func (s *following) expect(v *pull.PushReader) {
	if s.filled.After(s.read) {
		s.filled = s.read
	}
	s.signed = s.signed || v.Feed.Signed
	if v.Feed.Document != nil {
		s.expects, s.looks = v.Feed.Document, 0
	}
}

func light(o *destination.SetOffer) *destination.SetOffer {
	if o.Topic == nil {
		return o
	}
	out, topic := *o, *o.Topic
	topic.Answer.Body = nil
	out.Topic = &topic
	return &out
}

func (f *Follower) reads(p *pull.Puller, do func() error) error {
	f.watchMisses(p)
	f.turn.reading = p
	f.rec.Reading(true)
	defer func() {
		f.turn.reading = nil
		f.rec.Reading(false)
	}()
	if err := do(); err != nil {
		return err
	}
	f.countOf(p)
	return nil
}

// readSet has the documents of a set read by how, after the set was read anew.
func (f *Follower) readSet(
	ctx context.Context, id int64, offer *destination.SetOffer, how func(*pull.Puller) error,
) (*pull.Puller, error) {
	set, err := f.known(ctx, id)
	if err != nil {
		return nil, err
	}
	p, err := f.s.NewPuller(set, offer)
	if err != nil {
		return nil, err
	}
	return p, f.reads(p, func() error {
		if err := p.Start(ctx); err != nil {
			return err
		}
		return how(p)
	})
}
