package sync

import (
	"context"
	"errors"

	"resyncd/store"
	"resyncd/store/blob"
)

// sharedRow is a row of a batch and its place in the commit.
type sharedRow struct {
	*row
	at int
}

// askOthers looks at the wants of the other sets of the Source where that is needed: they may owe what this set has no work
// for, and they count a file that turned out to be lost.
func (p *planner) askOthers(ctx context.Context, c *store.Commit, rows []sharedRow, now store.Micros) error {
	if len(rows) == 0 {
		return nil
	}
	ids := make([]int64, len(rows))
	by := make(map[int64]sharedRow, len(rows))
	for i, r := range rows {
		ids[i], by[r.res.ID] = r.res.ID, r
	}
	all, err := p.s.Store.ByIDs(ctx, ids)
	if err != nil {
		return err
	}
	for _, res := range all {
		r := by[res.ID]
		wants := []store.Want{r.want}
		for i := range res.Wants {
			if w := &res.Wants[i]; w.SetID != p.set.ID {
				wants = append(wants, *w)
				if b, a := counted(w, &res.Have), counted(w, &r.res.Have); b != a {
					c.Sets = append(c.Sets, store.SetChange{ID: w.SetID, Resources: delta(b, a), Bytes: deltaBytes(b, a)})
				}
			}
		}
		work := p.s.workForAll(wants, &r.res.Have, now)
		c.Resources[r.at].Work = &work
	}
	return nil
}

// adopt makes a file that was kept against the Source's will the mirror's own again once it is wanted as it is.
func (r *row) adopt() {
	if r.res.Have.State == store.HaveKept && r.want.State == store.WantPresent && Satisfied(&r.want, &r.res.Have) == Yes {
		h := r.res.Have
		h.State = store.HavePresent
		r.haveNew, r.res.Have = &h, h
	}
}

// checkDisk compares a file that the rows call right with what lstat says, so that a file somebody removed or edited is
// found by the next baseline; only an audit reads contents. A file with work under way when a run was cut is hashed: it may
// have been replaced or removed without its row being told, and the Source may want just what the row says again (F1, F2).
func (p *planner) checkDisk(ctx context.Context, r *row, baseline bool) error {
	h := &r.res.Have
	suspect := p.s.look && r.res.Work.Action != store.ActionNone
	if suspect && r.want.State == store.WantAbsent && h.State == store.HaveNone {
		found, err := p.s.leftover(ctx, r.res)
		if found != nil {
			r.moved, r.haveNew, r.res.Have = true, found, *found
		}
		return err
	}
	if !suspect && (!baseline || !r.same || r.changed) || p.s.t.Mirror == nil || h.State == store.HaveNone {
		return nil
	}
	info, err := p.s.t.Mirror.Stat(ctx, r.res.Key)
	if err == nil && !suspect && info.Length == h.Length && info.ModTime == h.ModTime {
		return nil
	}
	var now store.Have
	if err == nil {
		var sum [32]byte
		var n int64
		switch sum, n, _, err = p.s.hashFile(ctx, r.res.Key, nil); {
		case err != nil:
		case sum != h.SHA256:
			now = p.s.unknown(sum, n, info.ModTime)
			now.State = h.State
		case info.ModTime == h.ModTime:
			return nil
		default:
			now = *h
			now.ModTime = info.ModTime
		}
	}
	if err != nil && !missing(err) && !errors.Is(err, blob.ErrNotRegular) {
		return err // running out of descriptors is no missing file (F11)
	}
	r.moved = true
	r.haveNew, r.res.Have = &now, now
	return nil
}

// leftover looks for the file that a cut run may have put in place without its row being told, once the resource is no
// longer wanted: nil if there is none. A resource that is still wanted adopts its file (reconciler.adopt).
func (s *session) leftover(ctx context.Context, r *store.Resource) (*store.Have, error) {
	if !s.look || s.t.Mirror == nil || r.Key == "" || r.Have.State != store.HaveNone || r.Work.Action != store.ActionFetch {
		return nil, nil
	}
	info, err := s.t.Mirror.Stat(ctx, r.Key)
	if missing(err) || err == nil && info.Kind != blob.KindFile {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	sum, n, _, err := s.hashFile(ctx, r.Key, nil)
	if err != nil {
		return nil, err
	}
	found := s.unknown(sum, n, info.ModTime)
	return &found, nil
}

// unknown is a file in our place of which no row tells where it came from: older than anything that is wanted.
func (s *session) unknown(sum [32]byte, length, modified int64) store.Have {
	return store.Have{State: store.HavePresent, SHA256: sum, Length: length, ModTime: modified, Fetched: s.localNow(),
		Version: store.Version{From: store.NoTime, Until: store.NoTime}}
}
