package pull

import (
	"context"
	"slices"
	"time"

	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/merge"
	"resyncd/sync/parsed"
)

// A hole in the coverage lies before a notification: a loss, a late delivery, or a silent Source. Its gap is in the
// store, and the notification stays in the inbox until a list shows its entries (coverage.md 4).

type keptNotice struct {
	ID       int64
	Interval store.Interval
	received store.Micros
}

type openHole struct {
	hole   store.Interval
	gap    *store.Gap
	notice *keptNotice          // nil after a loss
	told   []coverage.Announced // entries of the notice
	over   bool                 // a late notification closed the hole and its gap
	news   bool                 // a list told an unknown change inside
	found  coverage.GapVerdict
}

// soughtMost bounds the holes that one pull compares with lists.
const soughtMost = 64

// lagLeast is the least age at which an unchanged list proves something (coverage.md 4, rule 4).
const (
	lagLeast store.Micros = 60 * 1e6
	lagMost  store.Micros = 3600 * 1e6
)

// watch finds the holes before the pull reads anything.
func (p *Puller) watch(ctx context.Context) error {
	p.Holes.before = p.Cover.Clone()
	p.Holes.Watching, p.Holes.listsRead, p.Holes.stale = nil, nil, nil
	p.Plan.News = p.heard
	gaps, err := p.Store.Gaps(ctx, p.Set.ID)
	if err != nil {
		return err
	}
	for _, h := range p.Cover.Unheard() {
		w := &openHole{hole: h}
		for i := range gaps {
			if g := &gaps[i]; g.State.Open() && g.Until == h.Until {
				w.gap = g
			}
		}
		p.Holes.Watching = append(p.Holes.Watching, w)
	}
	for after := int64(0); ; {
		ds, err := p.Store.Deliveries(ctx,
			store.InboxQuery{SourceID: p.SourceID, Kept: true, After: after, Limit: 100, MaxBytes: 16 << 20})
		if err != nil || len(ds) == 0 {
			return err
		}
		for i := range ds {
			if after = ds[i].ID; ds[i].SetID != p.Set.ID {
				continue
			}
			if err := p.kept(&ds[i]); err != nil {
				return err
			}
		}
	}
}

// kept looks for the hole before a notification. An until is clipped as at its arrival (F40).
func (p *Puller) kept(d *store.Delivery) error {
	n := slices.IndexFunc(p.Holes.Watching, func(w *openHole) bool { return w.hole.Until == d.From })
	if n < 0 {
		p.Holes.stale = append(p.Holes.stale, d.ID)
		return nil
	}
	w, k := p.Holes.Watching[n], &keptNotice{ID: d.ID, received: d.Received}
	k.Interval = coverage.Clip(store.Interval{From: d.From, Until: d.Until}, d.Received+p.Offset+ClockError)
	if n >= soughtMost || w.notice != nil && k.Interval.Until <= w.notice.Interval.Until {
		return nil
	}
	w.notice, w.told = k, nil
	_, err := parsed.ReadNotice(d.Body, parsed.Assumed(d.Kind), func(e *rsdoc.Entry) error {
		w.told = append(w.told, parsed.Announced(e))
		return nil
	})
	return err
}

// documentGaps returns the gaps between documents, without those of holes before notifications.
func (p *Puller) documentGaps(ctx context.Context) ([]store.Gap, error) {
	gaps, err := p.Store.Gaps(ctx, p.Set.ID)
	unheard := p.Cover.Unheard()
	return slices.DeleteFunc(gaps, func(g store.Gap) bool {
		return slices.ContainsFunc(p.Holes.Watching,
			func(w *openHole) bool { return w.gap != nil && w.gap.ID == g.ID }) ||
			g.State.Open() && slices.ContainsFunc(unheard, func(h store.Interval) bool { return h.Until == g.Until })
	}), err
}

// refreshHoles applies late notifications to the watched holes.
func (p *Puller) refreshHoles(ctx context.Context) error {
	gaps, err := p.Store.Gaps(ctx, p.Set.ID)
	if err != nil {
		return err
	}
	unheard := p.Cover.Unheard()
	for _, w := range p.Holes.Watching {
		w.over = w.gap != nil &&
			slices.ContainsFunc(gaps, func(g store.Gap) bool { return g.ID == w.gap.ID && !g.State.Open() })
		if j := slices.IndexFunc(unheard, func(h store.Interval) bool { return h.Until == w.hole.Until }); j >= 0 {
			w.hole.From = unheard[j].From
		}
	}
	return nil
}

// seek starts the search for announcements in one list.
func (p *Puller) seek() []*coverage.Announcements {
	out := make([]*coverage.Announcements, len(p.Holes.Watching))
	for i, w := range p.Holes.Watching {
		if len(w.told) > 0 {
			out[i] = coverage.NewAnnouncements(w.told)
		}
	}
	return out
}

type listRead struct {
	coverage.ListRead
	holds []bool
}

func (p *Puller) sawList(doc store.Document, archived bool, sought []*coverage.Announcements, same bool) {
	if len(p.Holes.Watching) == 0 || !doc.From.Known() {
		return
	}
	l := listRead{ListRead: coverage.ListRead{Interval: covers(doc), Last: doc.LastEntry, Archived: archived,
		Unchanged: same}}
	l.holds = make([]bool, len(p.Holes.Watching))
	for i, a := range sought {
		l.holds[i] = a != nil && a.Complete()
	}
	p.Holes.listsRead = append(p.Holes.listsRead, l)
}

func sameList(doc, prev store.Document) bool {
	return prev.Complete && doc.From == prev.From && doc.Until == prev.Until && doc.LastEntry == prev.LastEntry &&
		doc.Entries == prev.Entries
}

// listed notes changes that were lost inside a hole; those at its ends are known.
func (p *Puller) listed(at store.Version) {
	for _, w := range p.Holes.Watching {
		w.news = w.news || at.From > w.hole.From+1 && at.Until < w.hole.Until
	}
}

func (p *Puller) heard(at store.Version) {
	inHole := false
	for _, w := range p.Holes.Watching {
		if at.Until > w.hole.From && at.From <= w.hole.Until {
			w.news, inHole = true, true
		}
	}
	if p.Holes.Missed != nil {
		p.Holes.Missed(at, inHole)
	}
}

// lagSince measures the lag of entries in a list.
func (p *Puller) lagSince(prev store.Document) func(store.Version) {
	if !prev.Complete || !prev.Read.Known() {
		return nil
	}
	read := prev.Read + p.Offset
	return func(at store.Version) {
		if merge.Dated(at) && read > at.From {
			p.lag = max(p.lag, min(read-at.From, lagMost))
		}
	}
}

// JudgeHoles closes the gaps that the lists prove.
func (p *Puller) JudgeHoles(ctx context.Context) error {
	if len(p.Holes.Watching) == 0 && len(p.Holes.stale) == 0 {
		return nil
	}
	now := p.LocalNow()
	for i, w := range p.Holes.Watching {
		w.found = p.judgeHole(i, now)
		if w.found.State != store.GapClosed {
			if err := p.late(ctx, w, now); err != nil {
				return err
			}
		}
	}
	if err := p.refreshHoles(ctx); err != nil { // after the last wait
		return err
	}
	var told []store.Gap
	for _, w := range p.Holes.Watching {
		if !w.over {
			told = append(told, p.recordHole(w, now)...)
		}
	}
	c := p.SetCommit()
	for _, id := range p.Holes.stale {
		c.Inbox = append(c.Inbox, store.InboxChange{ID: id})
	}
	if err := p.Store.Commit(ctx, c); err != nil {
		return err
	}
	p.Holes.stale = nil
	for _, g := range told {
		p.Observe.Gap(g)
	}
	return nil
}

// judgeHole applies coverage.md 4 to one hole.
func (p *Puller) judgeHole(i int, now store.Micros) coverage.GapVerdict {
	w := p.Holes.Watching[i]
	if p.Set.Floor >= w.hole.Until && p.Cover.Floor > p.Holes.before.Floor {
		p.Cover.Accept(w.hole) // a baseline as of a later instant
		return coverage.GapVerdict{State: store.GapClosed, ClosedBy: coverage.ByBaseline, Until: store.NoTime}
	}
	hole := coverage.Hole{Interval: w.hole, Notice: w.hole, Empty: false}
	ripe := false
	if w.notice != nil {
		hole.Notice, hole.Empty = w.notice.Interval, len(w.told) == 0
		if p.chain.opened.Known() { // the lists answered then; a pull may wait long afterwards
			now = min(now, p.chain.opened-p.Offset)
		}
		ripe = now-w.notice.received >= max(lagLeast, p.lag)
	}
	reads := make([]coverage.ListRead, len(p.Holes.listsRead))
	for j := range p.Holes.listsRead {
		reads[j] = p.Holes.listsRead[j].ListRead
		reads[j].Holds, reads[j].Unchanged = p.Holes.listsRead[j].holds[i], reads[j].Unchanged && ripe
	}
	v := coverage.JudgeGap(p.Holes.before, hole, reads)
	covered := !slices.ContainsFunc(p.Cover.Unheard(), func(h store.Interval) bool { return h.Until == w.hole.Until })
	switch {
	case v.State == store.GapClosed && v.Until.Known():
		p.Cover.Accept(store.Interval{From: w.hole.From, Until: max(v.Until, w.hole.Until)})
	case v.State == store.GapClosed && !covered:
		p.Cover.Accept(w.hole)
	case v.State != store.GapClosed && covered:
		v = coverage.GapVerdict{State: store.GapClosed, ClosedBy: coverage.ByChangeList, Until: store.NoTime}
	}
	return v
}

func (p *Puller) late(ctx context.Context, w *openHole, now store.Micros) error {
	w.found.State = store.GapLagging
	if w.gap == nil || w.gap.State != store.GapLagging && w.gap.State != store.GapBaseline ||
		now-w.gap.Found < p.patience() {
		return nil
	}
	before := p.Set.Baselines
	if !p.tooOld { // tooOld: the Resource List did not reach an earlier hole
		if err := p.Rebase(ctx, p.Offer.ResourceList, BaselineOptions{After: w.hole.Until - 1}); err != nil {
			return err
		}
		p.tooOld = p.Set.Baselines == before
	}
	switch reached := p.Set.Floor >= w.hole.Until; {
	case reached && p.Set.Baselines > before:
		p.Cover.Accept(w.hole)
		w.found = coverage.GapVerdict{State: store.GapClosed, ClosedBy: coverage.ByBaseline}
	case reached:
		w.found.State = store.GapBaseline
	}
	return nil
}

// recordHole has the next commit record a hole, and returns what observers hear. A hole without a change inside was no
// gap, unless the list lags.
func (p *Puller) recordHole(w *openHole, now store.Micros) (told []store.Gap) {
	closed := w.found.State == store.GapClosed
	if closed && w.notice != nil {
		p.pending.Inbox = append(p.pending.Inbox, store.InboxChange{ID: w.notice.ID})
	}
	g := w.gap
	if !w.news && (closed || w.notice != nil && len(w.told) == 0 && (g == nil || g.State != store.GapLagging)) {
		if g == nil {
			return nil
		}
		p.pending.DropGaps = append(p.pending.DropGaps, g.ID)
		none := *g
		none.State = store.GapClosed
		return []store.Gap{none}
	}
	if g == nil {
		g = &store.Gap{SetID: p.Set.ID, Found: now, Ended: store.NoTime}
	}
	if g.ID == 0 || g.State != store.GapLagging {
		p.Out.GapsFound++
	}
	if g.From, g.Until, g.State = w.hole.From, w.hole.Until, w.found.State; closed {
		p.closed(g, w.found.ClosedBy)
	} else {
		p.pending.Gaps = append(p.pending.Gaps, g)
	}
	return []store.Gap{*g}
}

func (p *Puller) patience() store.Micros {
	if p.Target.GapPatience > 0 {
		return store.Micros(p.Target.GapPatience / time.Microsecond)
	}
	return 24 * 3600 * 1e6
}
