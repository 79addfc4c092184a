package pull

import (
	"context"
	"fmt"

	"resyncd/destination/fetch"
	"resyncd/store"
	"resyncd/sync/coverage"
)

// holesAtOnce bounds the holes of one pull.
const holesAtOnce = 100

// CloseHoles closes holes by archives or exactly one baseline, or records them as unprovable (coverage.md 4). It stops
// at the first hole that stays open.
func (p *Puller) CloseHoles(ctx context.Context) error {
	for range holesAtOnce {
		hole, open := p.Cover.FirstHole()
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

// closeUnreached closes the holes before lists without from. It reports whether all are closed.
func (p *Puller) closeUnreached(ctx context.Context) (bool, error) {
	closed := true
	for _, u := range p.chain.unreached {
		gap := p.newGap(u.hole, store.GapBaseline)
		if err := p.fromArchives(ctx, u.hole); err != nil {
			return false, err
		}
		by := coverage.ByArchive
		if !p.covered(u.hole) && p.Out.Kind != "baseline" {
			by = coverage.ByBaseline
			if err := p.Rebase(ctx, p.Offer.ResourceList, BaselineOptions{After: u.hole.From}); err != nil {
				return false, err
			}
		}
		if p.Cover.ProvenPosition() < u.hole.Until-1 { // the position may lie right before the oldest entry
			closed = false
			p.Fail(fmt.Errorf(
				"%s has no `from` and keeps the last changes only: nobody can tell what changed between %s and %s, "+
					"and no newer Resource List tells; have its publisher keep more, or give the list a `from`",
				fetch.RedactURL(u.doc.URL), u.hole.From.Time(), u.hole.Until.Time()))
			if err := p.putGap(ctx, gap); err != nil {
				return false, err
			}
			continue
		}
		u.doc.Complete = true
		p.pending.Documents = append(p.pending.Documents, u.doc)
		if err := p.closeGap(ctx, gap, by); err != nil {
			return false, err
		}
	}
	p.chain.unreached = nil
	return closed, nil
}

func (p *Puller) closeHole(ctx context.Context, hole store.Interval) error {
	if known, err := p.knownUnprovable(ctx, hole); err != nil || known {
		return err
	}
	gap := p.newGap(hole, store.GapPulling)
	p.chain.unread = nil // only this reading of the lists counts
	if err := p.fromArchives(ctx, hole); err != nil {
		return err
	}
	if p.covered(hole) {
		return p.closeGap(ctx, gap, coverage.ByArchive)
	}
	if err := p.Changes(ctx, *p.Offer.ChangeList, true); err != nil { // a stale cache may hide the covering list (F59)
		return err
	}
	if p.covered(hole) {
		return p.closeGap(ctx, gap, coverage.ByChangeList)
	}
	return p.bridge(ctx, gap, hole)
}

func (p *Puller) bridge(ctx context.Context, gap *store.Gap, hole store.Interval) error {
	if p.chain.unread != nil {
		if wait, err := p.awaitList(ctx, gap); err != nil || wait {
			return err
		}
	}
	before := p.Set.Baselines
	if p.Out.Kind != "baseline" { // otherwise this pull has a new baseline already
		if err := p.Rebase(ctx, p.Offer.ResourceList, BaselineOptions{After: p.Cover.ProvenPosition()}); err != nil {
			return err
		}
	}
	if p.Set.Baselines > before && p.covered(hole) {
		return p.closeGap(ctx, gap, coverage.ByBaseline)
	}
	rest, open := p.Cover.FirstHole()
	if !open {
		return p.closeGap(ctx, gap, coverage.ByBaseline)
	}
	if p.Out.Problem != nil && p.Offer.ResourceList != nil {
		gap.State = store.GapBaseline // the next pull tries again
		return p.putGap(ctx, gap)
	}
	p.Log.Warn(
		"the documents of this set never meet; changes in between are only found by its Resource List",
		"set", p.Set.CapabilityList, "from", rest.From.Time(), "until", rest.Until.Time())
	gap.From, gap.Until, gap.State, gap.Ended = rest.From, rest.Until, store.GapUnprovable, p.LocalNow()
	p.Cover.Skip(rest)
	return p.putGap(ctx, gap)
}

// awaitList leaves a gap open for gap_patience while a list that may cover it cannot be read (F63, F66).
func (p *Puller) awaitList(ctx context.Context, gap *store.Gap) (bool, error) {
	gaps, err := p.documentGaps(ctx)
	if err != nil {
		return false, err
	}
	for i := range gaps {
		if g := &gaps[i]; g.State.Open() && g.From == gap.From {
			gap.Found = g.Found
		}
	}
	if p.LocalNow()-gap.Found >= p.patience() {
		return false, nil
	}
	p.Fail(fmt.Errorf("a list that may tell of changes after %s could not be read: %w",
		gap.From.Time(), p.chain.unread))
	return true, p.putGap(ctx, gap)
}

func (p *Puller) covered(hole store.Interval) bool { return p.Cover.ProvenPosition() >= hole.Until }

func (p *Puller) newGap(hole store.Interval, state store.GapState) *store.Gap {
	p.Out.GapsFound++
	return &store.Gap{SetID: p.Set.ID, From: hole.From, Until: hole.Until, State: state, Found: p.LocalNow()}
}

// closeGap closes a gap and all older open gaps below the position.
func (p *Puller) closeGap(ctx context.Context, gap *store.Gap, by string) error {
	p.Out.GapsClosed++
	gap.State, gap.ClosedBy, gap.Ended = store.GapClosed, by, p.LocalNow()
	gaps, err := p.documentGaps(ctx)
	if err != nil {
		return err
	}
	c := p.SetCommit()
	c.Gaps = append(c.Gaps, gap)
	for i := range gaps {
		if g := &gaps[i]; g.State.Open() && p.covered(store.Interval{From: g.From, Until: g.Until}) {
			g.State, g.ClosedBy, g.Ended = store.GapClosed, by, gap.Ended
			c.Gaps = append(c.Gaps, g)
			p.Out.GapsClosed++
		}
	}
	return p.Store.Commit(ctx, c)
}

func (p *Puller) putGap(ctx context.Context, gap *store.Gap) error {
	c := p.SetCommit()
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
	return p.Store.Commit(ctx, c)
}

// Spans show the evidence of coverage. No decision depends on one.

func (p *Puller) span(kind store.SpanKind, iv store.Interval, entries int64, document string) store.Span {
	now := p.LocalNow()
	return store.Span{
		SetID: p.Set.ID, Kind: kind, From: iv.From, Until: iv.Until, First: now, Last: now, Entries: entries,
		Document: document,
	}
}

func (p *Puller) knownUnprovable(ctx context.Context, hole store.Interval) (bool, error) {
	gaps, err := p.documentGaps(ctx)
	if err != nil {
		return false, err
	}
	for _, g := range gaps {
		if g.State == store.GapUnprovable && g.Until == hole.Until && g.From <= hole.From {
			p.Cover.Skip(hole)
			return true, p.commitSet(ctx)
		}
	}
	return false, nil
}

// wentBack handles lists that end before the position: a stale cache, or a Source restored from a backup. A state that
// persists past caches for gap_patience is a reset, and a baseline begins a new history (F65, F73).
func (p *Puller) wentBack(ctx context.Context) error {
	pos := p.Cover.ProvenPosition()
	if !p.chain.tail.Known() || !pos.Known() || p.chain.tail >= pos || p.Out.Kind == "baseline" {
		return p.SettleLag(ctx)
	}
	if p.Set.Floor.Known() && pos <= p.Set.Floor {
		return p.SettleLag(ctx) // the first list may be newer than the last change
	}
	p.chain.tail = store.NoTime
	if err := p.Changes(ctx, *p.Offer.ChangeList, true); err != nil {
		return err
	}
	if !p.chain.tail.Known() || p.chain.tail >= pos {
		return p.SettleLag(ctx)
	}
	gap, err := p.lagging(ctx, store.Interval{From: p.chain.tail, Until: pos})
	if err != nil {
		return err
	}
	if p.LocalNow()-gap.Found < p.patience() || p.Offer.ResourceList == nil {
		p.Log.Warn(
			"the Change List ends before the position: a stale cache, or the Source's history went back",
			"set", p.Set.CapabilityList, "list", p.chain.tail.Time(), "position", pos.Time())
		return p.putGap(ctx, gap)
	}
	p.Log.Warn("the Source's history went back; taking a baseline from what it says now", "set", p.Set.CapabilityList)
	gap.State = store.GapBaseline // a killed run reads all lists anew
	if err := p.putGap(ctx, gap); err != nil {
		return err
	}
	before := p.Set.Baselines
	p.chain.lists = nil // their entries lost against wants of the old history
	if err := p.Rebase(ctx, p.Offer.ResourceList, BaselineOptions{reset: true, After: store.NoTime}); err != nil {
		return err
	}
	if p.Set.Baselines == before {
		gap.State = store.GapLagging
		return p.putGap(ctx, gap)
	}
	if err := p.Changes(ctx, *p.Offer.ChangeList, true); err != nil {
		return err
	}
	return p.closeGap(ctx, gap, coverage.ByBaseline)
}

func (p *Puller) lagging(ctx context.Context, hole store.Interval) (*store.Gap, error) {
	gaps, err := p.documentGaps(ctx)
	if err != nil {
		return nil, err
	}
	for i := range gaps {
		if g := &gaps[i]; g.State == store.GapLagging || g.State == store.GapBaseline && g.Until == hole.Until {
			return &gaps[i], nil
		}
	}
	return p.newGap(hole, store.GapLagging), nil
}

// SettleLag closes the gaps of lists that have caught up, and gaps that waited for a baseline.
func (p *Puller) SettleLag(ctx context.Context) error {
	gaps, err := p.documentGaps(ctx)
	if err != nil {
		return err
	}
	c := p.SetCommit()
	for i := range gaps {
		g := &gaps[i]
		covered := p.covered(store.Interval{From: g.From, Until: g.Until})
		by := coverage.ByChangeList
		if !covered || p.Offer.ChangeList == nil || p.Set.Floor.Known() && g.Until <= p.Set.Floor {
			by = coverage.ByBaseline
		}
		if g.State == store.GapBaseline || g.State.Open() && covered {
			g.State, g.ClosedBy, g.Ended = store.GapClosed, by, p.LocalNow()
			c.Gaps = append(c.Gaps, g)
			p.Out.GapsClosed++
		}
	}
	return p.Store.Commit(ctx, c)
}
