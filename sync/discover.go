package sync

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"resyncd/destination"
	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/sync/parsed"
	"resyncd/sync/pull"
)

func (s *session) discover(ctx context.Context, r *destination.Reader) (offer *destination.Offer, err error) {
	if s.Target.Kind == KindFeed {
		offer, err = destination.DiscoverTopic(ctx, r, s.Target.URL, s.TopicOptions())
	} else {
		offer, err = destination.Discover(ctx, r, s.Target.URL, s.Target.Sets...)
	}
	if err == nil {
		err = s.SameTopic(ctx, offer)
	}
	if err != nil {
		return nil, fmt.Errorf("discover %s: %w", fetch.RedactURL(s.Target.URL), err)
	}
	return offer, nil
}

func offerOf(offer *destination.Offer, set string) *destination.SetOffer {
	i := slices.IndexFunc(offer.Sets, func(o destination.SetOffer) bool { return o.ID == set })
	if i < 0 {
		return nil
	}
	return &offer.Sets[i]
}

func (s *session) choose(offer *destination.Offer) ([]destination.SetOffer, error) {
	if len(s.Target.Sets) == 0 {
		return offer.Sets, nil
	}
	var out []destination.SetOffer
	for _, want := range s.Target.Sets {
		o := offerOf(offer, want)
		if o == nil {
			return nil, fmt.Errorf("%s offers no set %s: see `resyncd discover %s`",
				s.Target.Name, want, fetch.RedactURL(s.Target.URL))
		}
		out = append(out, *o)
	}
	return out, nil
}

func (s *session) knowScopes(ctx context.Context) error {
	sets, err := s.Store.Sets(ctx, s.SourceID)
	for i := range sets {
		// A set that cannot be judged was never read.
		if scope, err := s.Target.Judge(&destination.SetOffer{ID: sets[i].CapabilityList}); err == nil {
			s.Scopes.Add(sets[i].ID, scope)
		}
	}
	return err
}

// recognise refuses a guessed list (robots.txt, a link) in place of the mirrored sets. Without it one error page could
// begin a second set whose wants nothing takes back (F58, F72).
func (s *session) recognise(ctx context.Context, offer *destination.Offer) error {
	if s.Target.Kind == KindFeed {
		return nil
	}
	known, err := s.Store.Sets(ctx, s.SourceID)
	if err != nil {
		return err
	}
	described := false
	for i := range known {
		for _, o := range offer.Sets {
			if !o.Bare || o.ID == s.Target.URL || o.ID == known[i].CapabilityList {
				return nil
			}
		}
		doc, err := s.Document(ctx, known[i].CapabilityList)
		if err != nil {
			return err
		}
		described = described || doc.Kind == string(rsdoc.KindCapabilityList)
	}
	if !described || len(offer.Sets) == 0 {
		return nil
	}
	if err := errors.Join(s.missing(ctx, offer), s.Reader.Forget(ctx, s.Target.URL)); err != nil {
		return err
	}
	return fmt.Errorf("%s no longer leads to the sets that are mirrored from it, only to %s: nothing was changed; "+
		"run again later, or give that address itself if the Source has moved there",
		fetch.RedactURL(s.Target.URL), fetch.RedactURL(offer.Sets[0].ID))
}

// missing reports a set after two reads without it (F71).
func (s *session) missing(ctx context.Context, offer *destination.Offer) error {
	if len(s.Target.Sets) > 0 {
		return nil
	}
	sets, err := s.Store.Sets(ctx, s.SourceID)
	if err != nil {
		return err
	}
	var c store.Commit
	for i := range sets {
		set := &sets[i]
		gone := set.Gone + 1
		if offerOf(offer, set.CapabilityList) != nil {
			gone = 0
		}
		if gone == set.Gone {
			continue
		}
		set.Gone = gone
		if gone >= 2 {
			set.Problem = "the Source no longer offers this set; its files stay until you run `resyncd source forget`"
			set.InStep, set.Cause = false, ""
			s.Log.Warn("the Source no longer offers a set", "set", set.CapabilityList, "reads", gone)
		}
		c.Sets = append(c.Sets, store.SetChange{ID: set.ID, State: new(set.SetState)})
	}
	if len(c.Sets) == 0 {
		return nil
	}
	c.Claim = s.Claim
	return s.Store.Commit(ctx, &c)
}

func (f *Follower) discover(
	ctx context.Context, r *destination.Reader,
) (offer *destination.Offer, chosen []destination.SetOffer, err error) {
	s := f.s
	offer, err = s.discover(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	if err := s.recognise(ctx, offer); err != nil {
		if f.broken(ctx, err) && ctx.Err() == nil {
			err = sourceError{err}
		}
		return nil, nil, err
	}
	chosen, err = s.choose(offer)
	if err != nil {
		return nil, nil, sourceError{err}
	}
	seen := map[int64]bool{}
	for i := range chosen {
		o := &chosen[i]
		s.Target.FollowDumps(o)
		set, err := s.Store.EnsureSet(ctx, s.Claim, o.ID)
		if err != nil {
			return nil, nil, err
		}
		seen[set.ID] = true
		s.observe.Discovered(set.ID, o.Found)
		if rule, err := s.Target.Judge(o); err == nil {
			s.Scopes.Add(set.ID, rule)
		}
		if o.Err != nil {
			continue
		}
		f.offers[set.ID] = light(o)
		if ok, err := f.tellsOfHubs(ctx, &set, o); err != nil {
			return nil, nil, err
		} else if !ok {
			continue
		}
		f.tell(ctx, set.ID, o.Channels())
	}
	return offer, chosen, f.withdrawn(ctx, seen)
}

// tell announces the channels of a set. A missing one stays until a second read agrees (F71).
func (f *Follower) tell(ctx context.Context, set int64, now []destination.Channel) {
	next := slices.Clone(now)
	for _, c := range f.channels[set] {
		if !slices.ContainsFunc(now, func(n destination.Channel) bool { return n.Kind == c.Kind }) {
			next = append(next, c)
		}
	}
	f.channels[set] = now
	if f.o.Offered != nil {
		f.o.Offered(ctx, set, next)
	}
}

func (f *Follower) withdrawn(ctx context.Context, seen map[int64]bool) error {
	sets, err := f.s.Store.Sets(ctx, f.s.SourceID)
	if err != nil || len(f.s.Target.Sets) > 0 {
		return err
	}
	for i := range sets {
		if _, told := f.channels[sets[i].ID]; told && !seen[sets[i].ID] {
			f.tell(ctx, sets[i].ID, nil)
		}
	}
	return nil
}

// framework rediscovers. Framework Notifications stay in the inbox until the named documents are read.
func (f *Follower) framework(ctx context.Context) (err error) {
	waiting := f.asks.take(WorkFramework)
	if next := f.framed.Add(hintEvery); len(waiting) == 0 && next.After(f.s.Now()) {
		f.o.Later(WorkFramework, next)
		return nil
	}
	told := error(nil)
	defer func() { f.asks.answer(waiting, errors.Join(err, told)) }()
	n, err := f.namedDocuments(ctx)
	if err != nil {
		return err
	}
	if len(n.done) > 0 {
		f.framed = f.s.Now()
	}
	if len(waiting) > 0 || n.discover || len(f.offers) == 0 && len(n.done) > 0 {
		if told, err = f.rediscover(ctx); err != nil {
			return err
		}
		if told != nil && len(n.done) > 0 { // kept until the offer can be read
			f.framed = f.s.Now().Add(listEvery - hintEvery)
			f.o.Later(WorkFramework, f.s.Now().Add(listEvery))
			return nil
		}
	}
	for _, id := range slices.Sorted(maps.Keys(n.list)) {
		if err := f.reread(ctx, n, id); err != nil {
			return err
		}
	}
	if len(n.done) > 0 {
		return f.drop(ctx, n.done)
	}
	return nil
}

// rediscover returns the Source's faults apart from ours.
func (f *Follower) rediscover(ctx context.Context) (told, err error) {
	defer f.s.Release() // what is owed from before waits for a pull only where one is due
	_, _, err = f.discover(ctx, f.s.Reader)
	if err != nil && !f.broken(ctx, err) {
		f.s.Log.Warn("what the Source offers could not be read anew", "err", err)
		return err, nil
	}
	if err != nil {
		return nil, err
	}
	sets, err := f.s.Store.Sets(ctx, f.s.SourceID)
	for i := range sets {
		if !sets[i].LastPull.Known() && f.offers[sets[i].ID] != nil {
			f.o.Later(WorkPull, f.s.Now())
		}
	}
	return nil, err
}

type named struct {
	done     []*store.Delivery
	list     map[int64]bool // sets with a named list: whether it is the Resource List
	discover bool
}

func (f *Follower) namedDocuments(ctx context.Context) (*named, error) {
	n := &named{list: map[int64]bool{}}
	for ds, err := range f.inbox(ctx) {
		if err != nil {
			return n, err
		}
		for i := range ds {
			d := &ds[i]
			if d.Kind == store.ChannelFeed || !parsed.NamesDocuments(d) {
				continue
			}
			n.done = append(n.done, d)
			if _, err := parsed.ReadNotice(d.Body, rsdoc.KindFrameworkNotification, func(e *rsdoc.Entry) error {
				return f.name(ctx, n, e)
			}); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// name sorts one document: a list of a known set is read anew, anything else needs discovery.
func (f *Follower) name(ctx context.Context, n *named, e *rsdoc.Entry) error {
	index := ""
	if i := slices.IndexFunc(e.Links, func(l rsdoc.Link) bool { return l.Rel == rsdoc.RelIndex }); i >= 0 {
		index = e.Links[i].Href
	}
	doc, err := f.s.Document(ctx, e.Loc)
	if err != nil {
		return err
	}
	if kind := rsdoc.Kind(doc.Kind); doc.SetID != 0 && f.offers[doc.SetID] != nil &&
		(kind == rsdoc.KindChangeList || kind == rsdoc.KindResourceList) {
		n.read(doc.SetID, kind)
		return nil
	}
	for id, o := range f.offers {
		is := func(r *destination.Ref) bool { return r != nil && (r.URL == e.Loc || r.URL == index) }
		switch {
		case is(o.ChangeList):
			n.read(id, rsdoc.KindChangeList)
			return nil
		case is(o.ResourceList):
			n.read(id, rsdoc.KindResourceList)
			return nil
		}
	}
	n.discover = true
	return nil
}

func (n *named) read(set int64, kind rsdoc.Kind) {
	n.list[set] = n.list[set] || kind == rsdoc.KindResourceList
}

// listEvery is the least time between two reads of a Resource List that notifications name (P8).
const listEvery = time.Minute

func (f *Follower) reread(ctx context.Context, n *named, id int64) error {
	s := f.set(id)
	p, err := f.readSet(ctx, id, f.offers[id], func(p *pull.Puller) error {
		if n.list[id] && f.s.Now().Sub(s.listed) >= listEvery && p.Set.Baselines > 0 {
			s.listed = f.s.Now()
			if err := p.Rebase(ctx, p.Offer.ResourceList, pull.BaselineOptions{
				Changed: true, After: p.Set.Floor,
			}); err != nil {
				return err
			}
		}
		return p.Fill(ctx)
	})
	if err != nil {
		return err
	}
	if p.Out.Problem != nil {
		f.s.Log.Warn("a document that a notification named could not be read; the next pull tries again",
			"set", p.Set.CapabilityList, "err", p.Out.Problem)
	}
	return nil
}

func (f *Follower) housekeeping(ctx context.Context, offer *destination.Offer) error {
	s := f.s
	if s.o.Plan != nil {
		return nil
	}
	if s.Look && !f.looked {
		if err := s.claimTrash(ctx); err != nil {
			return err
		}
		f.looked = true
	}
	if err := errors.Join(s.emptyTrash(ctx), s.DropSpools(ctx), s.missing(ctx, offer)); err != nil {
		return err
	}
	s.Recheck = false
	policy := s.Target.PolicyDigest()
	if s.sweep {
		policy = policySweep
	}
	// Sets outside the selection were not judged by the new policy.
	if len(s.Target.Sets) > 0 || policy == s.src.Policy {
		return nil
	}
	s.src.Policy = policy
	return s.Store.Commit(ctx, &store.Commit{Claim: s.Claim, Source: &store.SourceChange{Policy: &policy}})
}
