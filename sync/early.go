package sync

import (
	"cmp"
	"context"
	"runtime"
	"slices"

	"resyncd/store"
)

// earlyMost is how many resources are fetched while the commit that asks for them is under way: what is pushed one by one, not
// what a list brings, which is in pages.
const earlyMost = 16

// foresee hands rows to the reconciler as the commit c is going to leave them, so that they are fetched while it is written:
// a third of the time between a notification's being read and the end of its fetch. Nothing comes of them before c is
// recorded or has failed, because the caller holds the flight lock until then, and who places and records what was fetched waits
// for it (settle). Only rows that are there can be, as a new one gets its number by the commit.
func (p *planner) foresee(ctx context.Context, c *store.Commit) error {
	p.early = p.early[:0]
	if p.hot == nil || len(c.Inbox) == 0 {
		return nil
	}
	at := map[int64]*store.ResourceChange{}
	room := p.hot.roomForEarly()
	for i := range c.Resources {
		if rc := &c.Resources[i]; len(p.early) < room && p.foreseeable(rc) {
			p.early = append(p.early, rc.ID)
			at[rc.ID] = rc
		}
	}
	if len(p.early) == 0 {
		return nil
	}
	rs, err := p.s.Store.ByIDs(ctx, p.early)
	if err != nil {
		return err
	}
	for _, r := range rs {
		rc := at[r.ID]
		r.Work = *rc.Work
		if rc.Have != nil {
			r.Have = *rc.Have
		}
		if r.WantFor(rc.Want.SetID) != nil {
			r.Wants = replaced(r.Wants, rc.Want)
		} else {
			r.Wants = append(slices.Clip(r.Wants), *rc.Want)
			slices.SortFunc(r.Wants, func(a, b store.Want) int { return cmp.Compare(a.SetID, b.SetID) }) // as the store has them
		}
	}
	rs, p.early = p.s.flight.board(rs), p.early[:0]
	for _, r := range rs {
		p.early = append(p.early, r.ID)
	}
	p.hot.addEarly(rs)
	p.rouse()
	// Whoever was woken goes on at once, in this thread, and the commit, for which there is time while the Source answers, is what
	// waits until another thread is awake: 0.15 ms of a push on an idle machine.
	runtime.Gosched()
	return nil
}

// foreseeable tells a change of a row that is to be fetched at once, and is nobody's work yet.
func (p *planner) foreseeable(rc *store.ResourceChange) bool {
	return rc.ID != 0 && rc.Work != nil && rc.Work.Action == store.ActionFetch && rc.Want != nil &&
		rc.Want.State == store.WantPresent && !rc.Want.Inline && rc.Key == "" && !p.s.flight.flying(rc.ID)
}

// mistaken is told when the commit failed: what was foreseen is not so. Nothing comes of it, and the rows are looked at as they are.
func (p *planner) mistaken() {
	for _, id := range p.early {
		p.s.flight.fail(id)
	}
}

// roomForEarly is how many more rows may wait to be fetched early.
func (h *hotlist) roomForEarly() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return earlyMost - len(h.early)
}

// addEarly hands over rows that are in flight already.
func (h *hotlist) addEarly(rs []*store.Resource) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.early = append(h.early, rs...)
}

// takeEarly returns what was added since the last call.
func (h *hotlist) takeEarly() []*store.Resource {
	h.mu.Lock()
	defer h.mu.Unlock()
	rs := h.early
	h.early = nil
	return rs
}
