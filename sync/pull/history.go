package pull

import (
	"context"
	"slices"

	"resyncd/store"
	"resyncd/sync/coverage"
)

// knownUnprovable steps over a hole that is recorded as unprovable, so that it is not counted again.
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

// resetCut reports whether the last run ended before a baseline. Then no list is skipped, because a reset has
// overwritten what earlier lists proved.
func (p *Puller) resetCut(ctx context.Context) (bool, error) {
	gaps, err := p.documentGaps(ctx)
	return slices.ContainsFunc(gaps, func(g store.Gap) bool { return g.State == store.GapBaseline }), err
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
