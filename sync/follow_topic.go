package sync

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"time"

	"resyncd/destination"
	"resyncd/destination/feed"
	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/merge"
	"resyncd/sync/parsed"
	"resyncd/sync/plan"
	"resyncd/sync/pull"
	"resyncd/sync/transfer"
	"resyncd/sync/window"
)

// discoverTopics discovers past caches, because a push said that a topic changed.
func (f *Follower) discoverTopics(ctx context.Context) (*destination.Offer, error) {
	return f.discoverBy(ctx, f.s.Reader.Uncached())
}

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
	offer, err := f.discoverTopics(ctx)
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
func (s *following) expect(v *topicPush) {
	if s.filled.After(s.read) {
		s.filled = s.read
	}
	s.signed = s.signed || v.signed
	if v.document != nil {
		s.expects, s.looks = v.document, 0
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

// notifyTopic takes up deliveries of a topic. Signed feed entries become wants at once; anything else is a hint, and
// the topic's own document decides (P9, S-66).
func (f *Follower) notifyTopic(ctx context.Context, set *store.Set, ds []*store.Delivery) error {
	offer, _ := f.offer(set)
	if offer.Topic == nil {
		offer = &destination.SetOffer{ID: set.CapabilityList, Topic: &destination.Topic{URL: set.CapabilityList}}
	}
	p, err := f.s.NewPuller(set, offer)
	if err != nil {
		return err
	}
	heard, err := p.NewHeard(ctx, ds)
	if err != nil {
		return err
	}
	p.Plan.Topic.Hub = heard
	v := &topicPush{p: p, heard: heard, commit: &store.Commit{Claim: f.s.Claim}}
	for _, d := range ds {
		if err := v.take(ctx, d); err != nil {
			return err
		}
	}
	if err := p.Plan.FlushWith(ctx, v.commit); err != nil {
		return err
	}
	f.o.Observe.notified(coverage.Unknown, len(ds))
	for _, n := range v.notes {
		f.s.Seal(n)
	}
	f.countOdd(p)
	if v.hint || len(p.Plan.Topic.Contested) > 0 || heard.Busy() {
		f.set(set.ID).expect(v)
		f.Hint(set.ID)
	}
	return nil
}

func (f *Follower) countOdd(p *pull.Puller) {
	if o := f.o.Observe.Odd; o != nil && p.Plan.Topic.Odd > 0 {
		o(p.Set.ID, p.Plan.Topic.Odd)
	}
}

// topicPush turns the deliveries of one topic into wants, in one final commit if they are small.
type topicPush struct {
	p      *pull.Puller
	heard  *pull.Heard
	commit *store.Commit
	notes  []*transfer.Note
	hint   bool // the topic is to be read
	// signed says that one delivery had a valid signature; document is the last signed one that is no feed.
	signed   bool
	document *[32]byte
}

func (v *topicPush) take(ctx context.Context, d *store.Delivery) error {
	v.commit.Inbox = append(v.commit.Inbox, store.InboxChange{ID: d.ID})
	v.signed = v.signed || d.Signed
	kind := feed.Sniff(d.Type, d.Body[:min(len(d.Body), sniffMost)])
	switch {
	case !d.Signed, len(bytes.TrimSpace(d.Body)) == 0: // only a hint (S-87, S-69)
		v.hint = true
		return nil
	case kind == feed.None:
		return v.page(ctx, d)
	}
	n := &transfer.Note{SetID: d.SetID, From: store.NoTime, Until: store.NoTime, Received: d.Received.Time()}
	base, err := v.base(ctx)
	if err != nil {
		return err
	}
	from := v.p.ItemFrom(false)
	from.Pushed = true
	items := plan.ItemReader{Planner: v.p.Plan, From: from, Folder: v.p.Set.CapabilityList,
		Document: plan.PushedDocument(d.Digest),
		Evidence: store.EvidencePush, Kind: kind, Note: n}
	taken := 0
	var own error
	head, err := feed.Read(bytes.NewReader(d.Body), feed.Options{
		ContentType: d.Type, Base: base, Limits: feed.Limits{Entries: parsed.NoticeMost},
	}, func(e *feed.Entry) error {
		when := plan.MicrosOf(e.Updated)
		if e.Edit != nil {
			when = plan.MicrosOf(e.Edit.Observed)
		}
		// An invented future must not win; the feed itself may tell it.
		if when.Known() && when > from.Limit {
			v.hint = true
			return nil
		}
		taken++
		v.heard.Taken = true
		v.heard.Pushed++
		own = items.Take(ctx, e)
		return own
	})
	switch {
	case own != nil:
		return own
	case err != nil:
		v.p.Log.Warn("a pushed feed was read in part; the feed itself is read",
			"set", v.p.Set.CapabilityList, "entries", taken, "err", err)
		if err := v.p.Store.TallySubscription(ctx, d.SubscriptionID,
			store.Tally{RejectedMalformed: 1}); err != nil {
			return err
		}
		v.hint = true
	case head.Skipped > 0:
		pull.TellOf(v.p.Told.Skipped, int64(head.Skipped))
		v.p.Log.Warn("entries of a pushed feed could not be read; the feed itself is read",
			"set", v.p.Set.CapabilityList,
			"entries", head.Skipped, "problems", head.Problems)
		v.hint = true
	}
	v.notes = append(v.notes, n)
	return nil
}

const sniffMost = 4096

// page takes a pushed document that is no feed. The topic's own answer decides, because the document has no age (P6);
// without such an answer (S-10) the push counts.
func (v *topicPush) page(ctx context.Context, d *store.Delivery) error {
	v.hint = true
	var st destination.TopicState
	topic := v.p.Offer.Topic.URL
	if found, err := v.p.RecallJSON(ctx, pull.TopicState+topic, &st); err != nil || !found || !st.Empty {
		v.document = &d.Digest
		return err
	}
	from := v.p.ItemFrom(false)
	c := merge.Candidate{State: store.WantPresent,
		Version: store.Version{From: d.Received, Until: d.Received, Document: plan.PushedDocument(d.Digest)},
		Digests: plan.InlineDigest(d.Body), Length: int64(len(d.Body)), LastMod: d.Received, Type: d.Type}
	return v.p.Plan.Add(ctx, plan.Entry{URI: topic, Cand: c,
		Item: &plan.Item{Inline: true, Content: d.Body, From: from}})
}

// base resolves relative links of a pushed feed like those of the feed itself. Otherwise the same entry would become
// two.
func (v *topicPush) base(ctx context.Context) (*url.URL, error) {
	t := v.p.Offer.Topic
	at := t.Answer.Final
	if at == "" {
		var st destination.TopicState
		if _, err := v.p.RecallJSON(ctx, pull.TopicState+t.URL, &st); err != nil {
			return nil, err
		}
		at = cmp.Or(st.Final, t.URL)
	}
	u, err := url.Parse(at)
	if err != nil {
		return nil, nil
	}
	return u, nil
}
