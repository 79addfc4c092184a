package sync

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"resyncd/destination"
	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/merge"
	"resyncd/sync/plan"
	"resyncd/sync/transfer"
)

// puller brings one set's wants and coverage up to what the Source's documents say.
type puller struct {
	s     *session
	set   *store.Set
	offer *destination.SetOffer
	plan  *plan.Planner
	cover *coverage.Coverage
	out   pulled

	// tail is where the lists read in this pull end, for spotting a history that went back.
	tail store.Micros
	// lists are the intervals of all lists known in this pull, so that a baseline can take up their chain.
	lists []store.Interval
	// unreached are the lists without from that do not reach back to what is known.
	unreached []unreached
	// archives is where a list says its archive is.
	archives string
	docs     []store.Document // read, not yet committed
	spans    []store.Span     // what they prove, for people, not yet committed
	gaps     []*store.Gap     // of a feed, not yet committed
	// unread is why some Change List could not be read, though it may well be there.
	unread error

	// before is the coverage before this pull; watching are its holes before notifications, listsRead the lists read since,
	// stale the kept notifications that no hole needs any more, missed who counts push misses (holes.go).
	before    coverage.Coverage
	watching  []openHole
	listsRead []listRead
	stale     []keptNotice
	missed    func(at store.Version, inHole bool)
	misses    int64
	open      bool         // a Change List was read that is still written to
	opened    store.Micros // when that was answered, by the Source's clock
	disturbed bool         // pushes were recorded while it waited for documents
	tooOld    bool         // no baseline could be had for a hole that lagged too long
	flawed    bool         // entries of its feed could not be read: it is read again, so that this is told again
	first     bool         // the set had no baseline before
	last      bool         // no other set follows in this run
	// shown tells what a complete feed has, in place of what its planner has seen.
	shown func(*store.Resource, *store.Want) bool
	freed bool // what its feed brings was refused so far and is not any more: its bytes are to be found
}

// unreached is a Change List without from and the hole before its oldest entry.
type unreached struct {
	doc  store.Document
	hole store.Interval
}

// pulled is what a pull did.
type pulled struct {
	kind                  string
	usable                bool  // at least one document could be used
	problem               error // what keeps the set from being in step
	gapsFound, gapsClosed int64
}

func (s *session) newPuller(set *store.Set, offer *destination.SetOffer) (*puller, error) {
	scope, err := s.scopeOf(set, offer)
	if err != nil {
		return nil, err
	}
	filter, err := s.t.filter()
	if err != nil {
		return nil, err
	}
	plan := plan.New(plan.Options{
		Site: s.site, Set: set, Refused: scope, Filtered: filter, Follow: s.t.Follow, Records: s.t.Records == plan.RecordsResourceFinder,
		Wide: s.wide, Await: s.await, Limits: s.unordered,
	})
	return &puller{
		s: s, set: set, offer: offer, plan: plan, out: pulled{kind: "none"}, tail: store.NoTime, opened: store.NoTime,
		first: set.Baselines == 0,
		cover: &coverage.Coverage{Floor: set.Floor, Proven: set.Proven, Joint: set.Joint},
	}, nil
}

// run does one pull. Its error is one of store, disk or context; faults of the Source stand in the outcome.
func (p *puller) run(ctx context.Context) error {
	if err := p.read(ctx); err != nil {
		return err
	}
	return p.look(ctx)
}

// read reads the documents of a pull.
func (p *puller) read(ctx context.Context) error {
	if err := p.start(ctx); err != nil {
		return err
	}
	if p.offer.Topic != nil {
		return p.topic(ctx)
	}
	if p.offer.ChangeList == nil {
		if err := p.listOnly(ctx); err != nil {
			return err
		}
		if err := p.settleLag(ctx); err != nil { // a kill may have left a gap whose hole is closed
			return err
		}
		return p.settlePushes(ctx)
	}
	if p.s.o.Full || !p.based() && !p.s.o.From.Known() {
		if err := p.rebase(ctx, p.offer.ResourceList, baselineOptions{after: store.NoTime}); err != nil {
			return err
		}
	} else if err := p.refresh(ctx); err != nil {
		return err
	}
	if !p.based() && p.s.o.From.Known() {
		p.cover.StartAt(p.s.o.From)
		if err := p.commitSet(ctx); err != nil { // the planner goes by the set's floor
			return err
		}
	}
	anew, err := p.resetCut(ctx)
	if err != nil {
		return err
	}
	if err := p.changes(ctx, *p.offer.ChangeList, anew || p.s.o.Full); err != nil {
		return err
	}
	if err := p.closeHoles(ctx); err != nil {
		return err
	}
	return p.settlePushes(ctx)
}

// settlePushes holds what was pushed against what the documents say.
func (p *puller) settlePushes(ctx context.Context) error {
	if p.s.o.Plan != nil {
		return nil
	}
	if err := p.judgeHoles(ctx); err != nil {
		return err
	}
	return p.askPushed(ctx)
}

// based reports whether the set has a place to go on from.
func (p *puller) based() bool { return p.cover.ProvenPosition().Known() }

// start re-judges refused resources if the scope changed, and fails a set without a usable document.
func (p *puller) start(ctx context.Context) error {
	if p.s.recheck {
		if err := p.rejudge(ctx); err != nil {
			return err
		}
	}
	if err := p.watch(ctx); err != nil {
		return err
	}
	if p.offer.ChangeList == nil && p.offer.ResourceList == nil && p.offer.Topic == nil {
		p.fail(errors.New("the set offers neither a Resource List nor a Change List"))
	}
	for _, more := range p.offer.Also {
		if first := p.followed(more.Kind); first != nil {
			p.fail(fmt.Errorf("the Capability List names more than one %s; only %s is followed, not %s: give that as a Source of its own, "+
				"or have its publisher join them in an index", more.Kind, fetch.RedactURL(first.URL), fetch.RedactURL(more.URL)))
		}
	}
	return nil
}

// followed is the document of a kind that the set is read by, nil for none.
func (p *puller) followed(kind rsdoc.Kind) *destination.Ref {
	switch kind {
	case rsdoc.KindResourceList:
		return p.offer.ResourceList
	case rsdoc.KindChangeList:
		return p.offer.ChangeList
	}
	return nil
}

func (p *puller) fail(err error) {
	if p.out.problem == nil {
		p.out.problem = err
	}
}

// listOnly is a set without Change List: a baseline whenever its Resource List changed.
func (p *puller) listOnly(ctx context.Context) error {
	if p.offer.ResourceList == nil {
		return nil
	}
	changed := p.set.Baselines > 0 && !p.s.o.Full
	return p.rebase(ctx, p.offer.ResourceList, baselineOptions{changed: changed, after: store.NoTime})
}

// refresh takes the baseline that a set gets whenever its Resource List changed: one with a hole that nobody can prove, one
// whose removals are held, for the list that would remove too much may have been a mistake, and one whose list had entries that
// could not be read.
func (p *puller) refresh(ctx context.Context) error {
	gaps, err := p.documentGaps(ctx)
	if err != nil || p.offer.ResourceList == nil {
		return err
	}
	held, err := p.s.Store.Scan(ctx, store.ScanQuery{SourceID: p.s.src.ID, SetID: p.set.ID, Filter: store.FilterHeld, Limit: 1})
	if err != nil {
		return err
	}
	if !p.set.Flawed && len(held) == 0 && !slices.ContainsFunc(gaps, func(g store.Gap) bool {
		return g.State == store.GapUnprovable && g.Until > p.set.Floor
	}) {
		return nil
	}
	return p.rebase(ctx, p.offer.ResourceList, baselineOptions{changed: true, after: store.NoTime})
}

// rebase takes a baseline and takes up the chain of the lists read so far.
func (p *puller) rebase(ctx context.Context, list *destination.Ref, o baselineOptions) error {
	if list == nil {
		return nil // a lone Change List: it mirrors what its changes create
	}
	out, err := p.takeBaseline(ctx, *list, o)
	if err != nil {
		return err
	}
	p.out.usable = p.out.usable || out.usable
	switch {
	case out.old, out.unchanged:
		return nil
	case out.err != nil:
		p.fail(fmt.Errorf("the baseline is incomplete, nothing was removed: %w", out.err))
	}
	if out.usable {
		p.out.kind = "baseline"
	}
	if !out.complete {
		return nil
	}
	for _, iv := range p.lists {
		p.cover.AddDocument(iv)
	}
	return p.commitSet(ctx)
}

// holesAtOnce bounds the holes that one pull deals with.
const holesAtOnce = 100

// closeHoles deals with the holes between the position and what the lists cover: archives, else exactly one baseline,
// else it is recorded as something that nobody can prove (coverage.md 4). It ends at the first one that stays open.
func (p *puller) closeHoles(ctx context.Context) error {
	for range holesAtOnce {
		hole, open := p.cover.FirstHole()
		if !open {
			if closed, err := p.closeUnreached(ctx); err != nil || !closed {
				return err
			}
			return p.wentBack(ctx)
		}
		if err := p.closeHole(ctx, hole); err != nil {
			return err
		}
		if !p.covered(hole) {
			return nil
		}
	}
	return nil
}

// closeUnreached deals with lists that say nothing of the time before their oldest entry: a baseline, or the set is not in
// step. It reports whether all of them reach back now.
func (p *puller) closeUnreached(ctx context.Context) (bool, error) {
	closed := true
	for _, u := range p.unreached {
		p.out.gapsFound++
		gap := &store.Gap{SetID: p.set.ID, From: u.hole.From, Until: u.hole.Until, State: store.GapBaseline, Found: p.s.site.LocalNow()}
		if err := p.fromArchives(ctx, u.hole); err != nil {
			return false, err
		}
		by := coverage.ByArchive
		if !p.covered(u.hole) && p.out.kind != "baseline" {
			by = coverage.ByBaseline
			if err := p.rebase(ctx, p.offer.ResourceList, baselineOptions{after: u.hole.From}); err != nil {
				return false, err
			}
		}
		if p.cover.ProvenPosition() < u.hole.Until-1 { // what is before a list's oldest entry is known up to right before it
			closed = false
			p.fail(fmt.Errorf("%s has no `from` and keeps the last changes only: nobody can tell what changed between %s and %s, and no newer "+
				"Resource List tells; have its publisher keep more, or give the list a `from`", fetch.RedactURL(u.doc.URL), u.hole.From.Time(), u.hole.Until.Time()))
			if err := p.putGap(ctx, gap); err != nil {
				return false, err
			}
			continue
		}
		u.doc.Complete = true
		p.docs = append(p.docs, u.doc)
		if err := p.closeGap(ctx, gap, by); err != nil {
			return false, err
		}
	}
	p.unreached = nil
	return closed, nil
}

func (p *puller) closeHole(ctx context.Context, hole store.Interval) error {
	if known, err := p.knownUnprovable(ctx, hole); err != nil || known {
		return err
	}
	p.out.gapsFound++
	gap := &store.Gap{SetID: p.set.ID, From: hole.From, Until: hole.Until, State: store.GapPulling, Found: p.s.site.LocalNow()}
	p.unread = nil // what counts is whether the lists can be read now
	if err := p.fromArchives(ctx, hole); err != nil {
		return err
	}
	if p.covered(hole) {
		return p.closeGap(ctx, gap, coverage.ByArchive)
	}
	if err := p.changes(ctx, *p.offer.ChangeList, true); err != nil { // a stale cache may hide the list that covers it (F59)
		return err
	}
	if p.covered(hole) {
		return p.closeGap(ctx, gap, coverage.ByChangeList)
	}
	return p.bridge(ctx, gap, hole)
}

// bridge takes the one baseline that a hole without evidence costs.
func (p *puller) bridge(ctx context.Context, gap *store.Gap, hole store.Interval) error {
	if p.unread != nil {
		if wait, err := p.awaitList(ctx, gap); err != nil || wait {
			return err
		}
	}
	before := p.set.Baselines
	if p.out.kind != "baseline" { // the baseline of this very pull is as new as one can be
		if err := p.rebase(ctx, p.offer.ResourceList, baselineOptions{after: p.cover.ProvenPosition()}); err != nil {
			return err
		}
	}
	if p.set.Baselines > before && p.covered(hole) {
		return p.closeGap(ctx, gap, coverage.ByBaseline)
	}
	rest, open := p.cover.FirstHole()
	if !open {
		return p.closeGap(ctx, gap, coverage.ByBaseline)
	}
	if p.out.problem != nil && p.offer.ResourceList != nil {
		gap.State = store.GapBaseline // to be tried again at the next pull
		return p.putGap(ctx, gap)
	}
	p.s.log.Warn("the documents of this set never meet; changes in between are only found by its Resource List",
		"set", p.set.CapabilityList, "from", rest.From.Time(), "until", rest.Until.Time())
	gap.From, gap.Until, gap.State, gap.Ended = rest.From, rest.Until, store.GapUnprovable, p.s.site.LocalNow()
	p.cover.Skip(rest)
	return p.putGap(ctx, gap)
}

// awaitList leaves a gap open because a list that may cover it could not be read for now: a baseline is for what no list
// covers (F63, F66), and is taken all the same after gap_patience.
func (p *puller) awaitList(ctx context.Context, gap *store.Gap) (bool, error) {
	gaps, err := p.documentGaps(ctx)
	if err != nil {
		return false, err
	}
	for i := range gaps {
		if g := &gaps[i]; g.State.Open() && g.From == gap.From {
			gap.Found = g.Found
		}
	}
	if p.s.site.LocalNow()-gap.Found >= p.patience() {
		return false, nil
	}
	p.fail(fmt.Errorf("a list that may tell of changes after %s could not be read: %w", gap.From.Time(), p.unread))
	return true, p.putGap(ctx, gap)
}

func (p *puller) covered(hole store.Interval) bool { return p.cover.ProvenPosition() >= hole.Until }

// closeGap ends a gap and every older open one that lies below the new position.
func (p *puller) closeGap(ctx context.Context, gap *store.Gap, by string) error {
	p.out.gapsClosed++
	gap.State, gap.ClosedBy, gap.Ended = store.GapClosed, by, p.s.site.LocalNow()
	gaps, err := p.documentGaps(ctx)
	if err != nil {
		return err
	}
	c := p.setCommit()
	c.Gaps = append(c.Gaps, gap)
	for i := range gaps {
		if g := &gaps[i]; g.State.Open() && p.covered(store.Interval{From: g.From, Until: g.Until}) {
			g.State, g.ClosedBy, g.Ended = store.GapClosed, by, gap.Ended
			c.Gaps = append(c.Gaps, g)
			p.out.gapsClosed++
		}
	}
	return p.s.Store.Commit(ctx, c)
}

func (p *puller) putGap(ctx context.Context, gap *store.Gap) error {
	c := p.setCommit()
	gaps, err := p.documentGaps(ctx)
	if err != nil {
		return err
	}
	for i := range gaps {
		if g := &gaps[i]; g.State.Open() && g.From == gap.From {
			gap.ID, gap.Found = g.ID, g.Found
		}
	}
	c.Gaps = []*store.Gap{gap}
	return p.s.Store.Commit(ctx, c)
}

// setCommit is a commit with the set's own fields as they are now, and the documents whose wants are recorded.
func (p *puller) setCommit() *store.Commit {
	p.set.Floor, p.set.Proven, p.set.Joint = p.cover.Floor, p.cover.Proven, p.cover.Joint
	c := &store.Commit{Claim: p.s.claim, Documents: p.docs, Spans: p.spans, Gaps: p.gaps, Sets: []store.SetChange{{ID: p.set.ID, State: stateOf(p.set)}}}
	p.docs, p.spans, p.gaps = nil, nil, nil
	return c
}

func (p *puller) commitSet(ctx context.Context) error { return p.s.Store.Commit(ctx, p.setCommit()) }

// rejudge looks at refused resources again after the scope or the filters changed.
func (p *puller) rejudge(ctx context.Context) error {
	now := p.s.site.LocalNow()
	for after, more := int64(0), true; more; {
		var err error
		if after, more, err = p.rejudgePage(ctx, after, now); err != nil {
			return err
		}
	}
	return nil
}

// rejudgePage holds the lock of the rows, because rows read here are written back while another set's want may be fetched.
func (p *puller) rejudgePage(ctx context.Context, after int64, now store.Micros) (last int64, more bool, err error) {
	p.s.site.Rows.Lock()
	defer p.s.site.Rows.Unlock()
	rs, err := p.s.Store.Scan(ctx, store.ScanQuery{
		SourceID: p.s.src.ID, SetID: p.set.ID, Filter: store.FilterRefused, After: after, Limit: sweepPage,
	})
	if err != nil || len(rs) == 0 {
		return after, false, err
	}
	c := &store.Commit{Claim: p.s.claim}
	for _, r := range rs {
		after = r.ID
		if r.Key == "" { // no file name can stand for it, wherever it lies
			continue
		}
		w := *r.WantFor(p.set.ID)
		if w.Refused = p.plan.Judge(r.URI, w.Inline); w.Refused == "" {
			*r.WantFor(p.set.ID) = w
			p.freed = p.freed || w.Inline
			work := merge.WorkForAll(r.Wants, &r.Have, now)
			rc := store.ResourceChange{ID: r.ID, Want: &w, Work: &work}
			p.s.site.Touch(&rc, now)
			c.Resources = append(c.Resources, rc)
		}
	}
	if len(c.Resources) == 0 {
		return after, true, nil
	}
	if err := p.s.Store.Commit(ctx, c); err != nil {
		return after, false, err
	}
	p.plan.Name(transfer.Due(c))
	return after, true, nil
}
