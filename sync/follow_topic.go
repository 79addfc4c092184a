package sync

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"resyncd/destination"
	"resyncd/destination/feed"
	"resyncd/store"
	"resyncd/sync/pull"
	"resyncd/sync/window"
)

// topicEvery is the least time between two reads of a topic for signed pushes.
const topicEvery = time.Second

// looksMost bounds the questions, with growing delays, for a pushed document that the topic does not answer with yet
// (S-71).
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
	again := f.s.Now().Add(listEvery)
	offer, err := f.discover(ctx, f.s.Reader.Uncached()) // a push said that the topic changed
	if err != nil {
		if f.broken(ctx, err) {
			return time.Time{}, err
		}
		f.s.Log.Warn("a topic that may have changed could not be read; it is tried again",
			"set", set.CapabilityList, "err", err)
		f.keepHint(set.ID)
		return again, nil
	}
	i := slices.IndexFunc(offer.Sets, func(o destination.SetOffer) bool { return o.ID == set.CapabilityList })
	if i < 0 || offer.Sets[i].Topic == nil {
		return time.Time{}, nil
	}
	p, err := f.fillFrom(ctx, set.ID, &offer.Sets[i])
	if err != nil {
		return time.Time{}, err
	}
	if p.Out.Problem != nil {
		f.s.Log.Warn("a topic that may have changed could not be read; it is tried again",
			"set", set.CapabilityList, "err", p.Out.Problem)
		f.keepHint(set.ID)
		return again, nil
	}
	return f.lookAgain(set.ID), nil
}

// tellsOfHubs reports whether a whole topic answered, so that a missing hub is real. An error page with status 200 or a
// truncated feed says nothing about hubs (F58, S-13).
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

func (f *Follower) keepHint(set int64) {
	f.asks.hint(set)
	f.set(set).filled = f.s.Now().Add(listEvery - hintEvery)
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

func (f *Follower) countOdd(p *pull.Puller) {
	if p.Plan.Topic.Odd > 0 {
		f.s.observe.Odd(p.Set.ID, p.Plan.Topic.Odd)
	}
}
