package sync

import (
	"context"
	"errors"

	"resyncd/store"
	"resyncd/store/blob"
)

// removeAll carries out removals, after the fetches of a pass. A file goes only when no set of the Source wants it, and
// only by a want that a `deleted` entry, a complete baseline, the Source's own 404 or the operator made absent (P5).
func (r *reconciler) removeAll(ctx context.Context, now func() store.Micros) error {
	for after, more := int64(0), true; more; {
		var err error
		if after, more, err = r.removeSome(ctx, now(), after); err != nil {
			return err
		}
	}
	return nil
}

// removeSome holds the flight lock, because a want may come back while its file goes. What is being fetched is left alone:
// it comes up again when that ends.
func (r *reconciler) removeSome(ctx context.Context, now store.Micros, after int64) (last int64, more bool, err error) {
	f := r.s.flight
	f.mu.Lock()
	defer f.mu.Unlock()
	rs, err := r.s.Store.Due(ctx, store.DueQuery{
		SourceID: r.s.src.ID, Action: store.ActionRemove, Now: now, After: after, Limit: duePage,
	})
	if err != nil || len(rs) == 0 {
		return after, false, err
	}
	if err := r.s.t.Mirror.Check(ctx); err != nil { // a disk that went away must not look like files that are gone (F12)
		r.halt(err)
		return after, false, nil
	}
	after = rs[len(rs)-1].ID
	if rs = f.grounded(rs); len(rs) == 0 {
		return after, true, nil
	}
	if err := r.s.Store.Durable(ctx); err != nil {
		return after, false, err
	}
	return after, true, r.removePage(ctx, rs)
}

// removePage takes files out of sight first and commits after: a kill in between finds the file under its trash id.
func (r *reconciler) removePage(ctx context.Context, rs []*store.Resource) error {
	c := &store.Commit{Claim: r.s.claim}
	sums := map[int64]*store.SetChange{}
	var gone []*store.Resource
	var ids []string // in the trash
	for _, res := range rs {
		switch w := Effective(res.Wants); {
		case w == nil || w.State != store.WantAbsent, res.Have.State != store.HavePresent: // another set wants or holds it
			work := store.Work{}
			if w != nil && w.State != store.WantAbsent {
				work = r.s.workFor(w, &res.Have, r.s.localNow())
			}
			c.Resources = append(c.Resources, store.ResourceChange{ID: res.ID, Work: &work})
		case r.s.t.Delete == DeleteKeep:
			h := res.Have
			h.State = store.HaveKept
			r.change(c, sums, res, &h, "kept")
		default:
			ids = append(ids, trashID(res)) // by what the row says: after a kill the file may be there already, and is not found
			if now, err := r.s.found(ctx, res, false); err == nil && now != nil && now.State != store.HaveNone {
				res.Have = *now // what the trash will hold
			}
			gone = append(gone, res)
		}
	}
	var n int64
	if r.s.t.Delete == DeleteNow {
		n = r.removeNow(ctx, c, sums, gone)
	} else {
		n = r.trash(ctx, c, sums, gone, ids)
	}
	for _, s := range sums {
		c.Sets = append(c.Sets, *s)
	}
	if err := r.s.Store.Commit(ctx, c); err != nil {
		for _, res := range gone { // no row tells, and until this run has ended one may be wanted again
			r.s.doubts.add(res.ID)
		}
		return err
	}
	for i := range c.Resources {
		if h := c.Resources[i].Have; h != nil && h.State == store.HaveNone {
			r.s.doubts.drop(c.Resources[i].ID)
		}
	}
	r.tally.add(func(t *tally) { t.deleted += n })
	r.s.observe.removed(n)
	if r.hot != nil {
		for i := range c.Resources {
			r.hot.landed(c.Resources[i].ID, removes(c.Resources[i]))
		}
	}
	if r.s.o.Progress != nil && n > 0 {
		r.s.o.Progress(Progress{Deleted: n})
	}
	return nil
}

func (r *reconciler) change(c *store.Commit, sums map[int64]*store.SetChange, res *store.Resource, h *store.Have, what string) {
	total(sums, res.Wants, &res.Have, res.Wants, h)
	if h.State == store.HaveNone {
		r.remember(c, res)
	}
	c.Resources = append(c.Resources, store.ResourceChange{ID: res.ID, Have: h, Work: &store.Work{}})
	version := res.Have.Version
	if w := Effective(res.Wants); w != nil { // the evidence of a removal is what asked for it, not what once brought the file
		version = w.Version
	}
	c.Events = append(c.Events, store.Event{SourceID: r.s.src.ID, URI: res.URI, At: r.s.localNow(), What: what,
		Version: version, Detail: digestOf(&res.Have)})
}

func (r *reconciler) removeNow(ctx context.Context, c *store.Commit, sums map[int64]*store.SetChange, gone []*store.Resource) (done int64) {
	keys := make([]string, len(gone))
	for i, res := range gone {
		keys[i] = res.Key
	}
	for i, err := range r.s.t.Mirror.Remove(ctx, keys) {
		done += r.removed(c, sums, gone[i], err)
	}
	return done
}

// trash moves files under ids made of what they are, so that a repeated removal after a kill finds its own work done.
func (r *reconciler) trash(ctx context.Context, c *store.Commit, sums map[int64]*store.SetChange, gone []*store.Resource, ids []string) (done int64) {
	items := make([]blob.TrashItem, len(gone))
	for i, res := range gone {
		items[i] = blob.TrashItem{Key: res.Key, ID: ids[i]}
	}
	for i, err := range r.s.t.Mirror.Trash(ctx, items) {
		res := gone[i]
		inTrash := err == nil || errors.Is(err, blob.ErrSync) // moved, if not for certain
		if errors.Is(err, blob.ErrNotFound) {
			f, _, terr := r.s.t.Mirror.OpenTrash(ctx, items[i].ID)
			if inTrash = terr == nil; inTrash {
				_ = f.Close() // only asked whether it is there
			}
		}
		if inTrash {
			reason := "deleted at the Source"
			if w := Effective(res.Wants); w != nil && w.Generation > 0 {
				reason = "no longer listed by the Source"
			}
			c.Trash = append(c.Trash, store.Trashed{ID: items[i].ID, SourceID: r.s.src.ID, URI: res.URI, Key: res.Key,
				SHA256: res.Have.SHA256, Length: res.Have.Length, Reason: reason, At: r.s.localNow()})
		}
		done += r.removed(c, sums, res, err)
	}
	return done
}

// removed records one removal and counts it. A file that was gone already is gone; any other failure leaves the removal
// owed.
func (r *reconciler) removed(c *store.Commit, sums map[int64]*store.SetChange, res *store.Resource, err error) int64 {
	if err == nil || missing(err) {
		r.tally.add(func(t *tally) { t.end(res.ID, false) })
		r.change(c, sums, res, &store.Have{}, "deleted")
		return 1
	}
	if errors.Is(err, blob.ErrSync) {
		r.s.doubts.add(res.ID) // it may be gone, and wanted again before this is tried again
	}
	r.tally.add(func(*tally) { r.failing.add(res.ID) })
	o := &outcome{res: res}
	o.failWith(err)
	work := r.reschedule(o, r.s.localNow())
	work.Action = store.ActionRemove
	c.Resources = append(c.Resources, store.ResourceChange{ID: res.ID, Work: &work})
	if blob.Systemic(err) {
		r.halt(err)
	}
	return 0
}
