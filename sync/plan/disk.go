package plan

import (
	"context"

	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/spill"
)

// sharedRow is a row of a batch and its place in the commit.
type sharedRow struct {
	*row
	at int
}

// askOthers looks at the wants of the other sets of the Source where that is needed: they may owe what this set has no work
// for, and they count a file that turned out to be lost.
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
					c.Sets = append(c.Sets, store.SetChange{ID: w.SetID, Resources: merge.Delta(b, a), Bytes: merge.DeltaBytes(b, a)})
				}
			}
		}
		work := merge.WorkForAll(wants, &r.res.Have, now)
		c.Resources[r.at].Work = &work
	}
	return nil
}

// adopt makes a file that was kept against the Source's will the mirror's own again once it is wanted as it is.
func (r *row) adopt() {
	if r.res.Have.State == store.HaveKept && r.want.State == store.WantPresent && merge.Satisfied(&r.want, &r.res.Have) == merge.Yes {
		h := r.res.Have
		h.State = store.HavePresent
		r.haveNew, r.res.Have = &h, h
	}
}

// checkDisk compares a file of which a document tells something new with what lstat says: the row may be older than the file,
// that of a backup, and the news that it is to be what the row says. That of an entry of a feed is compared in a look at all files,
// while its bytes are at hand. The file of a suspect row is hashed: it may have been replaced or removed without its row being told,
// and the Source may want just what the row says again (F1, F2, F10).
func (p *Planner) checkDisk(ctx context.Context, r *row, item bool) error {
	h, wanted := &r.res.Have, r.want.State != store.WantAbsent
	if r.doubted = wanted && p.o.Site.Doubted(r.res); r.doubted {
		return nil // it is fetched anew
	}
	now, err := p.o.Site.Found(ctx, r.res, wanted)
	if err != nil {
		return err
	}
	if now == nil {
		news := r.changed && wanted && r.res.Work.Action == store.ActionNone // else it is somebody's work, who places files meanwhile
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

// calmed notes a resource that an entry found as it is wanted, with nothing to do. What is refused has no file, nor has what is
// to be absent.
func (p *Planner) calmed(r *row) {
	if r.want.State == store.WantAbsent || r.want.Refused != "" {
		return
	}
	if p.Calm == nil {
		p.Calm = spill.NewBitmap()
	}
	p.Calm.Add(r.res.ID)
}

// calms is how many there are.
func (p *Planner) calms() int64 {
	if p.Calm == nil {
		return 0
	}
	return p.Calm.Len
}
