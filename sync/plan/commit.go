package plan

import (
	"context"
	"slices"

	"resyncd/store"
	"resyncd/sync/keymap"
	"resyncd/sync/merge"
	"resyncd/sync/transfer"
)

// changes adds the changed rows to a commit and returns them, aligned with its resources.
func (p *Planner) changes(ctx context.Context, byURI map[string]*row, c *store.Commit) (rows []*row, err error) {
	now := p.o.Site.LocalNow()
	var fresh []int // places without key
	var natural []string
	var shared []int // places of rows whose other sets matter
	var files, bytes int64
	for i := range p.Batch {
		r := byURI[p.Batch[i].URI]
		if r == nil {
			continue
		}
		delete(byURI, p.Batch[i].URI)
		if err := p.checkDisk(ctx, r, p.Batch[i].Item != nil); err != nil {
			return nil, err
		}
		r.adopt()
		known := r.same && !r.changed // a row with work is counted by its work
		lost := r.content != nil && r.want.Inline && r.res.Work.Action == store.ActionFetch
		if !r.changed && r.haveNew == nil && !lost { // lost bytes came again
			p.calmed(r, known && r.res.Work.Action == store.ActionNone)
			continue
		}
		rc := store.ResourceChange{ID: r.res.ID, Have: r.haveNew, URI: r.res.URI}
		if r.changed {
			rc.Want = &r.want
			p.event(c, r, now)
		}
		work := merge.WorkFor(&r.want, &r.res.Have, now)
		if r.doubted && !r.want.Held && r.want.Refused == "" {
			work = store.Work{Action: store.ActionFetch, Due: now}
		}
		p.calmed(r, known && work.Action == store.ActionNone)
		if rc.Work = &work; r.moved || work.Action == store.ActionNone && r.res.Work.Action != store.ActionNone {
			shared = append(shared, len(c.Resources))
		}
		if r.res.Key == "" && r.want.State != store.WantAbsent { // a tombstone of an unseen resource needs no key
			fresh, natural = append(fresh, len(c.Resources)), append(natural, r.natural)
		}
		r.keep(&rc)
		after := merge.Counted(&r.want, &r.res.Have)
		files, bytes = files+after.Resources-r.before.Resources, bytes+after.Bytes-r.before.Bytes
		if rows == nil {
			rows, c.Resources = make([]*row, 0, len(byURI)+1), make([]store.ResourceChange, 0, len(byURI)+1)
		}
		rows, c.Resources = append(rows, r), append(c.Resources, rc)
	}
	if err := p.AssignKeys(ctx, c, fresh, natural); err != nil {
		return nil, err
	}
	if err := p.askOthers(ctx, c, rows, shared, now); err != nil {
		return nil, err
	}
	for i := range c.Resources {
		if c.Resources[i].ID != 0 {
			p.o.Site.Touch(&c.Resources[i], now)
		}
	}
	if files != 0 || bytes != 0 {
		c.Sets = append(c.Sets, store.SetChange{ID: p.o.Set.ID, Resources: files, Bytes: bytes})
	}
	return rows, nil
}

// AssignKeys gives resources their mirror keys, in document order. A URI without a possible file name is refused.
func (p *Planner) AssignKeys(ctx context.Context, c *store.Commit, fresh []int, natural []string) error {
	if len(fresh) == 0 {
		return nil
	}
	uris := make([]string, len(fresh))
	for i, at := range fresh {
		uris[i] = c.Resources[at].URI
	}
	keys, err := keymap.Assign(p.fold, uris, natural, func(names []string) ([]store.NameUse, error) {
		return p.o.Site.Store.Names(ctx, p.o.Site.SourceID, names)
	})
	if err != nil {
		return err
	}
	for i, at := range fresh {
		rc := &c.Resources[at]
		if rc.Key = keys[i]; rc.Key == "" {
			if rc.Want.Refused == "" {
				rc.Want.Refused = "no file name can stand for this URI"
			}
			rc.Work, rc.Content = &store.Work{}, nil
		} else if p.fold {
			rc.Name = keymap.FoldKey(rc.Key)
		}
	}
	return nil
}

// event adds a history line for a replaced want.
func (p *Planner) event(c *store.Commit, r *row, now store.Micros) {
	if !r.had {
		return
	}
	what, detail := "wanted", r.want.Digests
	if r.want.State == store.WantAbsent {
		what, detail = "wanted absent", ""
	}
	c.Events = append(c.Events, store.Event{
		SourceID: p.o.Site.SourceID, URI: r.res.URI, At: now, What: what, Version: r.want.Version, Detail: detail,
	})
}

// askOthers counts in the other sets: they may owe work that this set does not, and a lost file changes their counts.
func (p *Planner) askOthers(ctx context.Context, c *store.Commit, rows []*row, places []int,
	now store.Micros) error {
	if len(places) == 0 {
		return nil
	}
	ids, by := make([]int64, len(places)), make(map[int64]int, len(places))
	for i, at := range places {
		ids[i] = c.Resources[at].ID
		by[ids[i]] = at
	}
	all, err := p.o.Site.Store.ByIDs(ctx, ids)
	if err != nil {
		return err
	}
	for _, res := range all {
		at := by[res.ID]
		r := rows[at]
		wants := []store.Want{r.want}
		for i := range res.Wants {
			if w := &res.Wants[i]; w.SetID != p.o.Set.ID {
				wants = append(wants, *w)
				if b, a := merge.Counted(w, &res.Have), merge.Counted(w, &r.res.Have); b != a {
					c.Sets = append(c.Sets,
						store.SetChange{ID: w.SetID, Resources: a.Resources - b.Resources, Bytes: a.Bytes - b.Bytes})
				}
			}
		}
		work := merge.WorkForAll(wants, &r.res.Have, now)
		c.Resources[at].Work = &work
	}
	return nil
}

// keep stores content in the change of its resource, or drops unwanted content.
func (r *row) keep(rc *store.ResourceChange) {
	was := r.res.WantFor(r.want.SetID)
	switch {
	case !r.want.Inline && (was == nil || !was.Inline):
	case rc.Work.Action == store.ActionFetch && r.content != nil:
		rc.Content = r.content
	case (rc.Work.Action != store.ActionFetch || r.changed) && r.res.ID != 0:
		rc.DropContent = true
	}
}

// adopt makes a kept file the mirror's own again once the Source wants these bytes.
func (r *row) adopt() {
	if r.res.Have.State == store.HaveKept && r.want.State == store.WantPresent &&
		merge.Satisfied(&r.want, &r.res.Have) == merge.Yes {
		h := r.res.Have
		h.State = store.HavePresent
		r.haveNew, r.res.Have = &h, h
	}
}

// checkDisk compares a file with its row before news is judged by the row, which may be a backup's (F1, F2, F10).
func (p *Planner) checkDisk(ctx context.Context, r *row, item bool) error {
	h, wanted := &r.res.Have, r.want.State != store.WantAbsent
	if r.doubted = wanted && p.o.Site.Doubted(r.res); r.doubted {
		return nil
	}
	now, err := p.o.Site.Found(ctx, r.res, wanted)
	if err != nil {
		return err
	}
	if now == nil {
		// a row with work may have its file placed right now
		news := r.changed && wanted && r.res.Work.Action == store.ActionNone
		known := item && p.o.Wide && r.same && !r.changed
		if !news && !known || p.o.Site.Mirror == nil || h.State == store.HaveNone {
			return nil
		}
		info, err := p.o.Site.Mirror.Stat(ctx, r.res.Key)
		if err == nil && info.Length == h.Length && info.ModTime == h.ModTime {
			return nil
		}
		if now, err = p.o.Site.Actual(ctx, r.res); err != nil || now == nil {
			return err
		}
	}
	r.moved = true
	r.haveNew, r.res.Have = now, *now
	return nil
}

// calmed counts a resource found as wanted. Absent and refused resources have no file.
func (p *Planner) calmed(r *row, calm bool) {
	if calm && r.want.State != store.WantAbsent && r.want.Refused == "" {
		p.Calm.Add(r.res.ID)
	}
}

// foresee hands over rows as commit c will leave them, so that a pushed resource is fetched while c is written.
// Settling waits for the row lock, which is held until c ends.
func (p *Planner) foresee(ctx context.Context, c *store.Commit) (urgent []int64, err error) {
	if !p.o.Site.Follows || len(c.Inbox) == 0 {
		return nil, nil
	}
	at := map[int64]*store.ResourceChange{}
	room := p.o.Site.UrgentRoom()
	for i := range c.Resources {
		if rc := &c.Resources[i]; len(urgent) < room && p.foreseeable(rc) {
			urgent = append(urgent, rc.ID)
			at[rc.ID] = rc
		}
	}
	if len(urgent) == 0 {
		return nil, nil
	}
	rs, err := p.o.Site.Store.ByIDs(ctx, urgent)
	if err != nil {
		return nil, err
	}
	for _, r := range rs {
		rc := at[r.ID]
		r.Work = *rc.Work
		if rc.Have != nil {
			r.Have = *rc.Have
		}
		r.Wants = merge.Replaced(r.Wants, rc.Want)
	}
	rs, urgent = p.o.Site.Begin(rs), urgent[:0]
	for _, r := range rs {
		urgent = append(urgent, r.ID)
	}
	p.o.Site.HandUrgent(rs)
	return urgent, nil
}

func (p *Planner) foreseeable(rc *store.ResourceChange) bool {
	return rc.ID != 0 && rc.Work != nil && rc.Work.Action == store.ActionFetch && rc.Want != nil &&
		rc.Want.State == store.WantPresent && !rc.Want.Inline && rc.Key == "" && !p.o.Site.Busy(rc.ID)
}

func (p *Planner) written(c *store.Commit, rows []*row, urgent []int64) {
	ids := make([]int64, 0, len(rows))
	for i, r := range rows {
		rc := &c.Resources[i]
		if r.listed {
			p.Seen.Add(rc.ID)
		}
		if rc.Work.Action == store.ActionNone {
			continue
		}
		if !slices.Contains(urgent, rc.ID) {
			ids = append(ids, rc.ID)
		}
		if r.note != nil {
			p.o.Site.Expect(rc.ID, r.note)
		}
	}
	handed := p.handNew(c, rows)
	if handed == 0 || handed < len(ids) {
		p.Name(ids)
	}
}

// Name says which rows have new work. A long list is named as a whole, so that a push can pass it.
func (p *Planner) Name(ids []int64) {
	if p.order.listed >= planBatch {
		p.o.Site.NameAll()
	} else {
		p.o.Site.Name(ids)
	}
}

// handNew hands over new resources without the cost of reading them back, and returns how many.
func (p *Planner) handNew(c *store.Commit, rows []*row) int {
	var fresh []*store.Resource
	wants := make([]store.Want, len(rows)) // a want inside the rows would keep them alive
	for i, r := range rows {
		rc := &c.Resources[i]
		if r.res.ID != 0 || rc.Work.Action != store.ActionFetch || rc.Want == nil || rc.Want.Inline || r.note != nil {
			continue
		}
		wants[i] = *rc.Want
		r.res.ID, r.res.Key, r.res.Work, r.res.Wants = rc.ID, rc.Key, *rc.Work, wants[i:i+1:i+1]
		fresh = append(fresh, r.res)
	}
	if len(fresh) == 0 || !p.o.Site.HandReady(fresh) {
		return 0
	}
	return len(fresh)
}

// handOffered hands over owed rows whose bytes are at hand, changed by their entries or not: what brings a want says
// nothing about what is wanted. It reads them anew, because a row here knows the want of its own set only.
func (p *Planner) handOffered(ctx context.Context, c *store.Commit, rows, offered []*row) error {
	if len(offered) == 0 {
		return nil
	}
	for i, r := range rows {
		if len(r.offers) > 0 {
			r.res.ID = c.Resources[i].ID
		}
	}
	at := make(map[int64]*row, len(offered))
	ids := make([]int64, 0, len(offered))
	for _, r := range offered {
		if at[r.res.ID] == nil && r.res.ID != 0 {
			at[r.res.ID] = r
			ids = append(ids, r.res.ID)
		}
	}
	known, err := p.o.Site.Store.ByIDs(ctx, ids)
	if err != nil {
		return err
	}
	var owed []*store.Resource
	var offers []*transfer.Offer
	for _, res := range p.o.Site.Idle(known) {
		w := merge.Effective(res.Wants)
		if res.Work.Action != store.ActionFetch || w == nil {
			continue
		}
		fits := slices.IndexFunc(at[res.ID].offers, func(o *transfer.Offer) bool { return o.Fits(w) })
		if fits >= 0 {
			owed, offers = append(owed, res), append(offers, at[res.ID].offers[fits])
		}
	}
	p.o.Site.HandOffered(owed, offers)
	return nil
}
