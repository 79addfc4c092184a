package sync

import (
	"context"
	"errors"
	"slices"
	"time"

	"resyncd/destination"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/sync/parsed"
	"resyncd/sync/pull"
)

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
	waiting := f.asks.takeFramework()
	if next := f.framed.Add(hintEvery); len(waiting) == 0 && next.After(f.s.Now()) {
		f.o.Later(WorkFramework, next)
		return nil
	}
	told := error(nil)
	defer func() {
		for _, w := range waiting {
			w <- errors.Join(err, told) // buffered
		}
	}()
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
	for _, id := range n.order {
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
	order    []int64        // sets with a named list
	list     map[int64]bool // of those, whether it is the Resource List
	discover bool
}

func (f *Follower) namedDocuments(ctx context.Context) (*named, error) {
	n := &named{list: map[int64]bool{}}
	for after := int64(0); ; {
		ds, err := f.s.Store.Deliveries(ctx, store.InboxQuery{
			SourceID: f.s.SourceID, After: after, Limit: inboxPage, MaxBytes: inboxBytes,
		})
		if err != nil || len(ds) == 0 {
			return n, err
		}
		for i := range ds {
			d := &ds[i]
			after = d.ID
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
	if n.list[set] = n.list[set] || kind == rsdoc.KindResourceList; !slices.Contains(n.order, set) {
		n.order = append(n.order, set)
	}
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

// missMargin is the age at which a change counts as missed by the hub; until then its push may be on its way.
const missMargin store.Micros = 3 * 1e6

func (f *Follower) watchMisses(p *pull.Puller) {
	if f.o.Subscribed == nil {
		return
	}
	since := f.o.Subscribed(p.Set.ID)
	if !since.Known() {
		return
	}
	since += f.s.Offset
	p.Holes.Missed = func(at store.Version, inHole bool) {
		if at.From > since && (inHole || f.s.SourceNow()-at.Until > missMargin) {
			p.Holes.Misses++
		}
	}
}

func (f *Follower) countOf(p *pull.Puller) {
	if p.Holes.Misses > 0 {
		f.s.observe.Missed(p.Set.ID, p.Holes.Misses)
	}
	if p.Plan.Topic.Odd > 0 {
		f.s.observe.Odd(p.Set.ID, p.Plan.Topic.Odd)
	}
}

const scrubPage = 200

// scrub re-hashes a few files and fetches damaged ones anew (F13).
func (f *Follower) scrub(ctx context.Context) error {
	s := f.s
	if f.rec.IsHalted() || s.Target.Mirror.Check(ctx) != nil { // a missing disk is no damage
		return nil
	}
	rs, err := s.Store.Scan(ctx, store.ScanQuery{
		SourceID: s.SourceID, Filter: store.FilterMirrored, After: f.scrubbed, Limit: scrubPage,
	})
	if err != nil {
		return err
	}
	if len(rs) == 0 {
		f.scrubbed = 0
		return nil
	}
	f.scrubbed = rs[len(rs)-1].ID
	var found []problem
	for _, r := range rs {
		p, err := check(ctx, s.Target.Mirror, r)
		if err != nil && ctx.Err() == nil { // of the machine, not of the file
			s.Log.Warn("the mirror cannot be looked at; it is tried again later", "err", err)
			return nil
		}
		if err != nil {
			return err
		}
		if p != nil {
			found = append(found, *p)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return s.renew(ctx, found)
}
