package pull

import (
	"context"
	"errors"
	"fmt"

	"resyncd/destination"
	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/merge"
	"resyncd/sync/plan"
)

// Puller reads the documents of one set into wants and coverage.
type Puller struct {
	*Source
	Set   *store.Set
	Offer *destination.SetOffer
	Plan  *plan.Planner
	Cover *coverage.Coverage
	Out   pulled

	chain   listChain
	pending store.Commit // what to record with the set
	Holes   holeWatch

	tooOld bool // no baseline reached a lagging hole
	flawed bool // feed entries were unreadable: the feed is read again to report them again
	first  bool
	Last   bool // no other set follows in this run
	// shown replaces Plan.Seen for a complete feed.
	shown func(*store.Resource, *store.Want) bool
	inUse *staged // the package that offers are made of
	nth   nth     // of the packages
	freed bool    // resources of a feed are no longer refused and need their bytes
}

type listChain struct {
	// tail is the end of the lists, to detect a history that went back.
	tail store.Micros
	// lists are their intervals, which a baseline takes up.
	lists []store.Interval
	// unreached are lists without from that do not reach back to the position.
	unreached []unreached
	archives  string // URL of the archive, as a list names it
	unread    error  // an existing list could not be read
	open      bool   // some list is still written to
	opened    store.Micros
	anew      bool // a new history overrode what packages told
}

type holeWatch struct {
	before    coverage.Coverage
	Watching  []*openHole
	listsRead []listRead
	stale     []int64 // kept notifications without a hole
	Missed    func(at store.Version, inHole bool)
	Misses    int64 // push misses, as Missed counts them
}

type unreached struct {
	doc  store.Document
	hole store.Interval
}

type pulled struct {
	Kind                  string
	Usable                bool
	Problem               error // why the set is not in step
	GapsFound, GapsClosed int64
	Packages              int64 // of dumps, read
}

// NewPuller returns a puller of one set.
func (s *Source) NewPuller(set *store.Set, offer *destination.SetOffer) (*Puller, error) {
	scope, err := s.scopeOf(set, offer)
	if err != nil {
		return nil, err
	}
	filter, err := s.Target.filter()
	if err != nil {
		return nil, err
	}
	plan := plan.New(plan.Options{
		Site: s.Site, Set: set, Refused: scope, Filtered: filter, Follow: s.Target.Follow,
		Records: s.Target.Records == plan.RecordsResourceFinder, Wide: s.Wide, Await: s.Await, Limits: s.Limits,
	})
	return &Puller{
		Source: s, Set: set, Offer: offer, Plan: plan, Out: pulled{Kind: "none"},
		chain: listChain{tail: store.NoTime, opened: store.NoTime}, first: set.Baselines == 0, Cover: CoverageOf(set),
	}, nil
}

// inOrder carries out steps until one fails.
func inOrder(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Run does one pull. Its error is one of store, disk or context; faults of the Source go to Out.
func (p *Puller) Run(ctx context.Context) (err error) {
	defer func() { p.leave(err) }()
	return inOrder(ctx, p.Start, p.read, p.useDumps, p.look)
}

func (p *Puller) read(ctx context.Context) error {
	switch {
	case p.Offer.Topic != nil:
		return p.Topic(ctx)
	case p.Offer.ChangeList == nil:
		return inOrder(ctx, p.listOnly(p.Set.Baselines > 0 && !p.Full), p.settlePushes)
	case p.Full || !p.Based() && !p.From.Known():
		if err := p.Rebase(ctx, p.Offer.ResourceList, BaselineOptions{After: store.NoTime}); err != nil {
			return err
		}
	default:
		if err := p.refresh(ctx); err != nil {
			return err
		}
	}
	if !p.Based() && p.From.Known() {
		p.Cover.StartAt(p.From)
		if err := p.commitSet(ctx); err != nil { // the planner needs the floor
			return err
		}
	}
	// After a run that ended before its baseline all lists are read, because a reset overwrote what they had proved.
	cut, err := p.gapWhere(ctx, func(g *store.Gap) bool { return g.State == store.GapBaseline })
	if err != nil {
		return err
	}
	p.chain.anew = cut != nil && cut.From != p.Cover.ProvenPosition() // else the gap waits for a baseline
	return inOrder(ctx, p.changeList(cut != nil || p.Full), p.CloseHoles, p.settlePushes)
}

// Fill reads what closes holes and follows hints.
func (p *Puller) Fill(ctx context.Context) (err error) {
	defer func() { p.leave(err) }()
	switch {
	case p.Offer.Topic != nil:
		return p.Topic(ctx)
	case p.Offer.ChangeList == nil:
		return inOrder(ctx, p.listOnly(p.Set.Baselines > 0), p.JudgeHoles, p.awaitUse)
	case !p.Based():
		return nil
	}
	promised := len(p.Holes.Watching) > 0 // caches may hide the covering list (F59)
	return inOrder(ctx, p.changeList(promised), p.CloseHoles, p.JudgeHoles, p.awaitUse)
}

func (p *Puller) changeList(uncached bool) func(context.Context) error {
	return func(ctx context.Context) error { return p.Changes(ctx, *p.Offer.ChangeList, uncached) }
}

// listOnly takes a baseline. SettleLag follows, because a kill may leave the gap of a closed hole.
func (p *Puller) listOnly(changed bool) func(context.Context) error {
	baseline := func(ctx context.Context) error {
		return p.Rebase(ctx, p.Offer.ResourceList, BaselineOptions{Changed: changed && p.Based(), After: store.NoTime})
	}
	return func(ctx context.Context) error { return inOrder(ctx, baseline, p.SettleLag) }
}

func (p *Puller) settlePushes(ctx context.Context) error {
	if p.Dry {
		return nil
	}
	return inOrder(ctx, p.JudgeHoles, p.askPushed)
}

// Document is what is remembered of a list of the set. What another set read there says nothing about the rows of
// this one.
func (p *Puller) Document(ctx context.Context, url string) (store.Document, error) {
	d, err := p.Source.Document(ctx, url)
	if d.SetID != 0 && d.SetID != p.Set.ID {
		d = p.NewDocument("", "")
	}
	return d, err
}

// Based reports whether the set has a position.
func (p *Puller) Based() bool { return p.Cover.ProvenPosition().Known() }

// Start judges refused resources again after a change of scope, and fails a set without documents.
func (p *Puller) Start(ctx context.Context) error {
	if err := p.reselect(ctx); err != nil {
		return err
	}
	if p.Recheck {
		if err := p.rejudge(ctx); err != nil {
			return err
		}
	}
	if err := p.watch(ctx); err != nil {
		return err
	}
	if p.Offer.ChangeList == nil && p.Offer.ResourceList == nil && p.Offer.Topic == nil {
		p.Fail(errors.New(
			"the set offers neither a Resource List nor a Change List, and no dump that `dumps` lets be read"))
	}
	followed := map[rsdoc.Kind]*destination.Ref{
		rsdoc.KindResourceList: p.Offer.ResourceList, rsdoc.KindChangeList: p.Offer.ChangeList,
	}
	for _, more := range p.Offer.Also {
		if first := followed[more.Kind]; first != nil {
			p.Fail(fmt.Errorf(
				"the Capability List names more than one %s; only %s is followed, not %s: "+
					"give that as a Source of its own, or have its publisher join them in an index",
				more.Kind, fetch.RedactURL(first.URL), fetch.RedactURL(more.URL)))
		}
	}
	return nil
}

const selectedBy = "selected " // + the set's identity: parsed.Selection.Digest

// reselect has a set begin anew after a change of the selection: no row tells of the resources that were left out.
func (p *Puller) reselect(ctx context.Context) error {
	key, is, was := selectedBy+p.Set.CapabilityList, p.Target.Selection.Digest(), ""
	if _, err := p.RecallJSON(ctx, key, &was); err != nil || is == was || p.Offer.Topic != nil {
		return err
	}
	*p.Cover = coverage.Coverage{Floor: store.NoTime}
	p.rememberJSON(key, is)
	return p.commitSet(ctx)
}

// Fail notes why the set is not in step; the first reason counts.
func (p *Puller) Fail(err error) {
	if p.Out.Problem == nil {
		p.Out.Problem = err
	}
}

// refresh takes a baseline if the last one left a doubt: an unprovable hole, held removals, unreadable entries.
func (p *Puller) refresh(ctx context.Context) error {
	if p.Offer.ResourceList == nil {
		return nil
	}
	gap, err := p.gapWhere(ctx, func(g *store.Gap) bool {
		return g.State == store.GapUnprovable && g.Until > p.Set.Floor
	})
	if err != nil {
		return err
	}
	held, err := p.Store.Scan(ctx,
		store.ScanQuery{SourceID: p.SourceID, SetID: p.Set.ID, Filter: store.FilterHeld, Limit: 1})
	if err != nil || gap == nil && !p.Set.Flawed && len(held) == 0 {
		return err
	}
	return p.Rebase(ctx, p.Offer.ResourceList, BaselineOptions{Changed: true, After: store.NoTime})
}

// SetCommit returns a commit of the set's fields and the unrecorded documents. Their wants must be recorded before.
func (p *Puller) SetCommit() *store.Commit {
	p.Set.Floor, p.Set.Proven, p.Set.Joint = p.Cover.Floor, p.Cover.Proven, p.Cover.Joint
	c := p.pending
	p.pending = store.Commit{}
	c.Claim, c.Sets = p.Claim, []store.SetChange{{ID: p.Set.ID, State: new(p.Set.SetState)}}
	return &c
}

func (p *Puller) commitSet(ctx context.Context) error {
	return p.Store.Commit(ctx, p.SetCommit())
}

func (p *Puller) rejudge(ctx context.Context) error {
	refused := p.Scan(store.ScanQuery{SetID: p.Set.ID, Filter: store.FilterRefused})
	return p.Revise(ctx, refused, p.Plan.Name, func(v *Revision, rs []*store.Resource) error {
		for _, r := range rs {
			w := r.WantFor(p.Set.ID)
			if r.Key == "" || p.Plan.Judge(r.URI, w.Inline) != "" {
				continue
			}
			w.Refused = ""
			p.freed = p.freed || w.Inline
			work := merge.WorkForAll(r.Wants, &r.Have, v.Now)
			v.Change(store.ResourceChange{ID: r.ID, Want: w, Work: &work})
		}
		return nil
	})
}

// Pushed adds the pushes that were recorded during a wait.
func (p *Puller) Pushed(v *PushReader) {
	for _, iv := range v.Heard {
		p.Cover.AddNotification(iv, v.Now)
	}
}
