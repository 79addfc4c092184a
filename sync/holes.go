package sync

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

// A hole in joint coverage lies before a notification: something was lost, or came late, or the Source has been silent.
// Its gap lives in the store; what the notification behind it announced is kept in the inbox until a list has shown it
// (coverage.md 4).

// keptNotice is a delivery that may stand behind a hole.
type keptNotice struct {
	id       int64
	iv       store.Interval
	received store.Micros
	body     []byte
	kind     store.ChannelKind
}

// openHole is a hole, its gap and the notification behind it.
type openHole struct {
	hole   store.Interval
	gap    *store.Gap           // nil: not recorded
	notice *keptNotice          // nil: unknown, after a loss
	told   []coverage.Announced // by the notice
	over   bool                 // a late notification closed it, and recorded that
	news   bool                 // a list told of a change inside that was not known
}

// soughtMost bounds how many holes one pull compares with what its lists hold; others wait for the next.
const soughtMost = 64

// lagLeast is the least time after which an unchanged list proves that nothing happened (coverage.md 4, rule 4); lagMost
// keeps a slow poll from counting as a slow list.
const (
	lagLeast store.Micros = 60 * 1e6
	lagMost  store.Micros = 3600 * 1e6
)

// watch finds the holes that a pull is to close, before it reads anything.
func (p *puller) watch(ctx context.Context) error {
	p.before = p.cover.Clone()
	p.watching, p.listsRead, p.stale = nil, nil, nil
	p.plan.News = p.heard
	holes := p.cover.Unheard()
	kept, err := p.s.keptNotices(ctx, p.set.ID, holes[:min(len(holes), soughtMost)])
	if err != nil {
		return err
	}
	if len(holes) == 0 {
		p.stale = kept
		return nil
	}
	gaps, err := p.s.Store.Gaps(ctx, p.set.ID)
	if err != nil {
		return err
	}
	for n, h := range holes {
		w := openHole{hole: h}
		for i := range gaps {
			if g := &gaps[i]; g.State.Open() && g.Until == h.Until {
				w.gap = g
			}
		}
		for i := range kept {
			if n >= soughtMost {
				break
			}
			if k := &kept[i]; k.iv.From == h.Until && (w.notice == nil || k.iv.Until > w.notice.iv.Until) {
				w.notice = k
			}
		}
		if w.notice != nil {
			if _, err := parsed.ReadNotice(w.notice.body, parsed.Assumed(w.notice.kind), func(e *rsdoc.Entry) error {
				w.told = append(w.told, parsed.Announced(e))
				return nil
			}); err != nil {
				return err
			}
		}
		p.watching = append(p.watching, w)
	}
	for _, k := range kept { // into a slice of its own: what is watched points into kept
		if !slices.ContainsFunc(holes, func(h store.Interval) bool { return h.Until == k.iv.From }) {
			p.stale = append(p.stale, k)
		}
	}
	return nil
}

// keptNotices are the deliveries of a set that stand behind holes, with the bodies of those behind the given ones. Their
// until counts for what it did when they came: it must not grow into a future that was cut off then (F40).
func (s *session) keptNotices(ctx context.Context, set int64, holes []store.Interval) ([]keptNotice, error) {
	var out []keptNotice
	for after := int64(0); ; {
		ds, err := s.Store.Deliveries(ctx, store.InboxQuery{SourceID: s.src.ID, Kept: true, After: after, Limit: 100, MaxBytes: 16 << 20})
		if err != nil || len(ds) == 0 {
			return out, err
		}
		for i := range ds {
			d := &ds[i]
			after = d.ID
			if d.SetID != set {
				continue
			}
			k := keptNotice{id: d.ID, received: d.Received, kind: d.Kind}
			k.iv = coverage.Clip(store.Interval{From: d.From, Until: d.Until}, d.Received+s.offset+clockError)
			if slices.ContainsFunc(holes, func(h store.Interval) bool { return h.Until == d.From }) {
				k.body = d.Body
			}
			out = append(out, k)
		}
	}
}

// documentGaps are the gaps of a set that no hole before a notification stands for, be it one that came up since this pull
// began: those of its documents.
func (p *puller) documentGaps(ctx context.Context) ([]store.Gap, error) {
	gaps, err := p.s.Store.Gaps(ctx, p.set.ID)
	unheard := p.cover.Unheard()
	return slices.DeleteFunc(gaps, func(g store.Gap) bool {
		return slices.ContainsFunc(p.watching, func(w openHole) bool { return w.gap != nil && w.gap.ID == g.ID }) ||
			g.State.Open() && slices.ContainsFunc(unheard, func(h store.Interval) bool { return h.Until == g.Until })
	}), err
}

// refreshHoles takes up what late notifications have done to the watched holes since this pull began to watch them: one
// that they closed is over, one that they filled in part begins later.
func (p *puller) refreshHoles(ctx context.Context) error {
	if !p.disturbed || len(p.watching) == 0 {
		return nil
	}
	gaps, err := p.s.Store.Gaps(ctx, p.set.ID)
	if err != nil {
		return err
	}
	unheard := p.cover.Unheard()
	for i := range p.watching {
		w := &p.watching[i]
		w.over = w.gap != nil && slices.ContainsFunc(gaps, func(g store.Gap) bool { return g.ID == w.gap.ID && !g.State.Open() })
		if j := slices.IndexFunc(unheard, func(h store.Interval) bool { return h.Until == w.hole.Until }); j >= 0 {
			w.hole.From = unheard[j].From
		}
	}
	return nil
}

// seek begins to look for what the notifications behind the holes announced, in one list.
func (p *puller) seek() []*coverage.Announcements {
	if len(p.watching) == 0 {
		return nil
	}
	out := make([]*coverage.Announcements, len(p.watching))
	for i := range p.watching {
		if told := p.watching[i].told; len(told) > 0 {
			out[i] = coverage.NewAnnouncements(told)
		}
	}
	return out
}

// listRead is a ListRead with what it holds for each hole.
type listRead struct {
	coverage.ListRead
	holds []bool
}

// sawList notes a list for the judgement of the holes.
func (p *puller) sawList(doc store.Document, archived bool, sought []*coverage.Announcements, same bool) {
	if len(p.watching) == 0 || !doc.From.Known() {
		return
	}
	l := listRead{ListRead: coverage.ListRead{Interval: covers(doc), Last: doc.LastEntry, Archived: archived, Unchanged: same}}
	l.holds = make([]bool, len(p.watching))
	for i, a := range sought {
		l.holds[i] = a != nil && a.Complete()
	}
	p.listsRead = append(p.listsRead, l)
}

// sameList tells a list that says what it said when it was read before.
func sameList(doc, prev store.Document) bool {
	return prev.Complete && doc.From == prev.From && doc.Until == prev.Until && doc.LastEntry == prev.LastEntry && doc.Entries == prev.Entries
}

// listed is told of each change in a list. What lies strictly inside a hole was lost, also where a later push of the same
// resource has overtaken it; at its ends are changes that are known: an open list proves all but its last instant.
func (p *puller) listed(at store.Version) {
	for i := range p.watching {
		if h := p.watching[i].hole; at.From > h.From+1 && at.Until < h.Until {
			p.watching[i].news = true
		}
	}
}

// heard is told of each change that a list of this pull told first.
func (p *puller) heard(at store.Version) {
	inHole := false
	for i := range p.watching {
		if h := p.watching[i].hole; at.Until > h.From && at.From <= h.Until {
			p.watching[i].news, inHole = true, true
		}
	}
	if p.missed != nil {
		p.missed(at, inHole)
	}
}

// lagSince learns how long entries take to come into a list: at least from the change to the last reading without it.
func (p *puller) lagSince(prev store.Document) func(store.Version) {
	if !prev.Complete || !prev.Read.Known() {
		return nil
	}
	read := prev.Read + p.s.offset
	return func(at store.Version) {
		if merge.Dated(at) && read > at.From {
			p.s.lag = max(p.s.lag, min(read-at.From, lagMost))
		}
	}
}

// judgeHoles ends the gaps that the lists of this pull close, and says what becomes of the others.
func (p *puller) judgeHoles(ctx context.Context) error {
	if len(p.watching) == 0 && len(p.stale) == 0 {
		return nil
	}
	now := p.s.site.LocalNow()
	verdicts := make([]coverage.GapVerdict, len(p.watching))
	for i := range p.watching {
		v := p.judgeHole(i, now)
		if v.State != store.GapClosed {
			if err := p.late(ctx, &p.watching[i], &v, now); err != nil {
				return err
			}
		}
		verdicts[i] = v
	}
	if err := p.refreshHoles(ctx); err != nil { // after the last wait
		return err
	}
	c := &store.Commit{Claim: p.s.claim}
	for i := range p.watching {
		if w := &p.watching[i]; !w.over {
			p.recordHole(c, w, verdicts[i], now)
		}
	}
	for i := range p.stale {
		c.Inbox = append(c.Inbox, store.InboxChange{ID: p.stale[i].id})
	}
	rest := p.setCommit()
	c.Sets, c.Documents, c.Spans = rest.Sets, rest.Documents, rest.Spans
	if err := p.s.Store.Commit(ctx, c); err != nil {
		return err
	}
	p.stale = nil
	if p.s.gapTold != nil {
		for _, g := range c.Gaps {
			p.s.gapTold(*g)
		}
		for i := range p.watching {
			if g := p.watching[i].gap; g != nil && slices.Contains(c.DropGaps, g.ID) {
				none := *g
				none.State = store.GapClosed
				p.s.gapTold(none)
			}
		}
	}
	return nil
}

// judgeHole applies coverage.md 4 to one hole. What the lists add by themselves is in the coverage already.
func (p *puller) judgeHole(i int, now store.Micros) coverage.GapVerdict {
	w := &p.watching[i]
	if p.set.Floor.Known() && p.set.Floor >= w.hole.Until && p.cover.Floor > p.before.Floor {
		p.cover.Accept(w.hole) // a baseline as of a later instant
		return coverage.GapVerdict{State: store.GapClosed, ClosedBy: coverage.ByBaseline, Until: store.NoTime}
	}
	hole := coverage.Hole{Interval: w.hole, Notice: w.hole, Empty: false}
	ripe := false
	if w.notice != nil {
		hole.Notice, hole.Empty = w.notice.iv, len(w.told) == 0
		ripe = p.readAt(now)-w.notice.received >= max(lagLeast, p.s.lag)
	}
	reads := make([]coverage.ListRead, len(p.listsRead))
	for j := range p.listsRead {
		reads[j] = p.listsRead[j].ListRead
		reads[j].Holds, reads[j].Unchanged = p.listsRead[j].holds[i], reads[j].Unchanged && ripe
	}
	v := coverage.JudgeGap(p.before, hole, reads)
	covered := !slices.ContainsFunc(p.cover.Unheard(), func(h store.Interval) bool { return h.Until == w.hole.Until })
	switch {
	case v.State == store.GapClosed && v.Until.Known():
		p.cover.Accept(store.Interval{From: w.hole.From, Until: max(v.Until, w.hole.Until)})
	case v.State == store.GapClosed && !covered:
		p.cover.Accept(w.hole)
	case v.State != store.GapClosed && covered:
		v = coverage.GapVerdict{State: store.GapClosed, ClosedBy: coverage.ByChangeList, Until: store.NoTime}
	}
	return v
}

// readAt is when the lists were answered, by our clock: since then a pull may have waited long for another document.
func (p *puller) readAt(now store.Micros) store.Micros {
	if !p.opened.Known() {
		return now
	}
	return min(now, p.opened-p.s.offset)
}

// late decides about a hole that no list closes yet: the Source's list may lag, for as long as patience lasts.
func (p *puller) late(ctx context.Context, w *openHole, v *coverage.GapVerdict, now store.Micros) error {
	v.State = store.GapLagging
	if w.gap == nil || w.gap.State != store.GapLagging && w.gap.State != store.GapBaseline || now-w.gap.Found < p.patience() {
		return nil
	}
	before := p.set.Baselines
	if !p.tooOld { // else the Resource List did not reach an earlier hole
		if err := p.rebase(ctx, p.offer.ResourceList, baselineOptions{after: w.hole.Until - 1}); err != nil {
			return err
		}
		p.tooOld = p.set.Baselines == before
	}
	state := coverage.AfterPatience(time.Duration(now-w.gap.Found)*time.Microsecond, time.Duration(p.patience())*time.Microsecond, p.set.Floor, w.hole.Until)
	if v.State = state; state == store.GapBaseline && p.set.Baselines > before {
		p.cover.Accept(w.hole)
		*v = coverage.GapVerdict{State: store.GapClosed, ClosedBy: coverage.ByBaseline}
	}
	return nil
}

// recordHole writes the gap of a hole. A hole whose first pull shows no change inside was no gap: it is neither listed nor
// counted, unless the list proves that it lags.
func (p *puller) recordHole(c *store.Commit, w *openHole, v coverage.GapVerdict, now store.Micros) {
	closed := v.State == store.GapClosed
	quiet := !w.news && (closed || w.notice != nil && len(w.told) == 0)
	if quiet && (w.gap == nil || w.gap.State != store.GapLagging || closed) {
		if w.gap != nil {
			c.DropGaps = append(c.DropGaps, w.gap.ID)
		}
	} else {
		g := w.gap
		if g == nil {
			g = &store.Gap{SetID: p.set.ID, Found: now, Ended: store.NoTime}
		}
		if g.ID == 0 || g.State != store.GapLagging {
			p.out.gapsFound++
		}
		g.From, g.Until, g.State = w.hole.From, w.hole.Until, v.State
		if closed {
			g.ClosedBy, g.Ended = v.ClosedBy, now
			p.out.gapsClosed++
		}
		c.Gaps = append(c.Gaps, g)
	}
	if closed && w.notice != nil {
		c.Inbox = append(c.Inbox, store.InboxChange{ID: w.notice.id})
	}
}

// patience is how long a list may lag or a history may have gone back before a baseline is taken.
func (p *puller) patience() store.Micros {
	if p.s.t.GapPatience > 0 {
		return store.Micros(p.s.t.GapPatience / time.Microsecond)
	}
	return 24 * 3600 * 1e6
}
