package plan

import (
	"context"

	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/spill"
)

type sharedRow struct {
	*row
	at int
}

// askOthers counts in the other sets: they may owe work that this set does not, and a lost file changes their counts.
func (p *Planner) askOthers(ctx context.Context, c *store.Commit, rows []sharedRow, now store.Micros) error {
	if len(rows) == 0 {
		return nil
	}
	ids := make([]int64, len(rows))
	by := make(map[int64]sharedRow, len(rows))
	for i, r := range rows {
		ids[i], by[r.res.ID] = r.res.ID, r
	}
	all, err := p.o.Site.Store.ByIDs(ctx, ids)
	if err != nil {
		return err
	}
	for _, res := range all {
		r := by[res.ID]
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
		c.Resources[r.at].Work = &work
	}
	return nil
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

// checkDisk compares a file with its row, which may be that of a backup, before news is judged by the row (F1, F2,
// F10). The file of a suspect row is hashed; files of feed entries are compared only in a look at all files.
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
func (p *Planner) calmed(r *row) {
	if r.want.State == store.WantAbsent || r.want.Refused != "" {
		return
	}
	if p.Calm == nil {
		p.Calm = spill.NewBitmap()
	}
	p.Calm.Add(r.res.ID)
}

func (p *Planner) calms() int64 {
	if p.Calm == nil {
		return 0
	}
	return p.Calm.Len
}
