package pull

import (
	"context"
	"fmt"
	"slices"

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
		if !p.covered(hole.Until) {
			return nil
		}
	}
	return nil
}

// closeUnreached closes the holes before lists without from. It reports whether all are closed.
func (p *Puller) closeUnreached(ctx context.Context) (bool, error) {
	closed := true
	for _, u := range p.chain.unreached {
		gap, err := p.gapAt(ctx, u.hole, store.GapBaseline)
		if err == nil {
			err = p.fromArchives(ctx, u.hole)
		}
		by := coverage.ByArchive
		if err == nil && !p.covered(u.hole.Until) {
			by, err = coverage.ByChangeDump, p.fromDumps(ctx, u.hole)
		}
		if err == nil && !p.covered(u.hole.Until) && p.Out.Kind != "baseline" {
			by = coverage.ByBaseline
			err = p.Rebase(ctx, p.Offer.ResourceList, BaselineOptions{After: u.hole.From})
		}
		switch {
		case err != nil:
		case p.covered(u.hole.Until - 1): // the position may lie right before the oldest entry
			u.doc.Complete = true
			p.pending.Documents = append(p.pending.Documents, u.doc)
			err = p.closeGap(ctx, gap, by)
		default:
			closed = false
			p.Fail(fmt.Errorf(
				"%s has no `from` and keeps the last changes only: nobody can tell what changed between %s and %s, "+
					"and no newer Resource List tells; have its publisher keep more, or give the list a `from`",
				fetch.RedactURL(u.doc.URL), u.hole.From.Time(), u.hole.Until.Time()))
			err = p.putGap(ctx, gap)
		}
		if err != nil {
			return false, err
		}
	}
	p.chain.unreached = nil
	return closed, nil
}

func (p *Puller) closeHole(ctx context.Context, hole store.Interval) error {
	known, err := p.gapWhere(ctx, func(g *store.Gap) bool {
		return g.State == store.GapUnprovable && g.Until == hole.Until && g.From <= hole.From
	})
	if err != nil {
		return err
	}
	if known != nil {
		p.Cover.AddDocument(hole)
		return p.commitSet(ctx)
	}
	gap, err := p.gapAt(ctx, hole, store.GapPulling)
	if err != nil {
		return err
	}
	p.chain.unread = nil // only this reading of the lists counts
	if err := p.fromArchives(ctx, hole); err != nil {
		return err
	}
	if p.covered(hole.Until) {
		return p.closeGap(ctx, gap, coverage.ByArchive)
	}
	if err := p.Changes(ctx, *p.Offer.ChangeList, true); err != nil { // a stale cache may hide the covering list (F59)
		return err
	}
	if p.covered(hole.Until) {
		return p.closeGap(ctx, gap, coverage.ByChangeList)
	}
	if err := p.fromDumps(ctx, hole); err != nil {
		return err
	}
	if p.covered(hole.Until) {
		return p.closeGap(ctx, gap, coverage.ByChangeDump)
	}
	return p.bridge(ctx, gap, hole)
}

func (p *Puller) bridge(ctx context.Context, gap *store.Gap, hole store.Interval) error {
	if p.chain.unread != nil && p.LocalNow()-gap.Found < p.patience() {
		// The gap stays open while a list that may cover it cannot be read (F63, F66).
		p.Fail(fmt.Errorf("a list that may tell of changes after %s could not be read: %w",
			gap.From.Time(), p.chain.unread))
		return p.putGap(ctx, gap)
	}
	before := p.Set.Baselines
	if p.Out.Kind != "baseline" { // otherwise this pull has a new baseline already
		if err := p.Rebase(ctx, p.Offer.ResourceList, BaselineOptions{After: p.Cover.ProvenPosition()}); err != nil {
			return err
		}
	}
	rest, open := p.Cover.FirstHole()
	switch {
	case !open || p.Set.Baselines > before && p.covered(hole.Until):
		return p.closeGap(ctx, gap, coverage.ByBaseline)
	case p.Out.Problem != nil && p.Offer.ResourceList != nil:
		gap.State = store.GapBaseline // the next pull tries again
		return p.putGap(ctx, gap)
	}
	p.Log.Warn(
		"the documents of this set never meet; changes in between are only found by its Resource List",
		"set", p.Set.CapabilityList, "from", rest.From.Time(), "until", rest.Until.Time())
	gap.From, gap.Until, gap.State, gap.Ended = rest.From, rest.Until, store.GapUnprovable, p.LocalNow()
	p.Cover.AddDocument(rest)
	return p.putGap(ctx, gap)
}

func (p *Puller) covered(until store.Micros) bool { return p.Cover.ProvenPosition() >= until }

// gapWhere returns the first gap between documents that is so; nil for none.
func (p *Puller) gapWhere(ctx context.Context, so func(*store.Gap) bool) (*store.Gap, error) {
	gaps, err := p.documentGaps(ctx)
	if i := slices.IndexFunc(gaps, func(g store.Gap) bool { return so(&g) }); i >= 0 {
		return &gaps[i], err
	}
	return nil, err
}

// gapAt returns the gap of a hole: one that an earlier pull left open where the hole begins, or a new one.
func (p *Puller) gapAt(ctx context.Context, hole store.Interval, state store.GapState) (*store.Gap, error) {
	p.Out.GapsFound++
	g, err := p.gapWhere(ctx, func(g *store.Gap) bool { return g.State.Open() && g.From == hole.From })
	if g == nil {
		g = &store.Gap{SetID: p.Set.ID, From: hole.From, Found: p.LocalNow()}
	}
	g.Until, g.State = hole.Until, state
	return g, err
}

func (p *Puller) putGap(ctx context.Context, gap *store.Gap) error {
	p.pending.Gaps = append(p.pending.Gaps, gap)
	return p.commitSet(ctx)
}

// closed adds the end of a gap to the next commit of the set.
func (p *Puller) closed(g *store.Gap, by string) {
	if by == coverage.ByChangeList && p.Offer.ChangeList == p.Offer.ChangeDump {
		by = coverage.ByChangeDump // there is no other list
	}
	g.State, g.ClosedBy, g.Ended = store.GapClosed, by, p.LocalNow()
	p.pending.Gaps = append(p.pending.Gaps, g)
	p.Out.GapsClosed++
}

// closeGap closes a gap and all older open gaps below the position.
func (p *Puller) closeGap(ctx context.Context, gap *store.Gap, by string) error {
	p.closed(gap, by)
	return p.closeGaps(ctx, func(g *store.Gap, covered bool) string {
		if g.ID == gap.ID || !g.State.Open() || !covered {
			return ""
		}
		return by
	})
}

// closeGaps closes the gaps between documents of which closed tells by what.
func (p *Puller) closeGaps(ctx context.Context, closed func(g *store.Gap, covered bool) (by string)) error {
	gaps, err := p.documentGaps(ctx)
	if err != nil {
		return err
	}
	for i := range gaps {
		if by := closed(&gaps[i], p.covered(gaps[i].Until)); by != "" {
			p.closed(&gaps[i], by)
		}
	}
	return p.commitSet(ctx)
}

// SettleLag closes the gaps of lists that have caught up, and gaps that waited for a baseline.
func (p *Puller) SettleLag(ctx context.Context) error {
	return p.closeGaps(ctx, func(g *store.Gap, covered bool) string {
		switch {
		case g.State != store.GapBaseline && !(g.State.Open() && covered):
			return ""
		case !covered || p.Offer.ChangeList == nil || p.Set.Floor.Known() && g.Until <= p.Set.Floor:
			return coverage.ByBaseline
		}
		return coverage.ByChangeList
	})
}

// wentBack handles lists that end before the position: a stale cache, or a Source restored from a backup. A state that
// persists past caches for gap_patience is a reset, and a baseline begins a new history (F65, F73).
func (p *Puller) wentBack(ctx context.Context) error {
	pos := p.Cover.ProvenPosition()
	if !p.chain.tail.Known() || !pos.Known() || p.chain.tail >= pos || p.Out.Kind == "baseline" ||
		pos <= p.Set.Floor { // the first list may be newer than the last change
		return p.SettleLag(ctx)
	}
	p.chain.tail = store.NoTime
	if err := p.Changes(ctx, *p.Offer.ChangeList, true); err != nil {
		return err
	}
	if !p.chain.tail.Known() || p.chain.tail >= pos {
		return p.SettleLag(ctx)
	}
	gap, err := p.gapWhere(ctx, func(g *store.Gap) bool {
		return g.State == store.GapLagging || g.State == store.GapBaseline && g.Until == pos
	})
	if err == nil && gap == nil {
		gap, err = p.gapAt(ctx, store.Interval{From: p.chain.tail, Until: pos}, store.GapLagging)
	}
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
	p.chain.lists, p.chain.anew = nil, true // their entries lost against wants of the old history
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
