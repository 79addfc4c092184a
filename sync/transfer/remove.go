package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/merge"
)

// RemoveAll carries out due removals. A file goes only by an absent want, once no set wants it (P5).
func (r *Reconciler) RemoveAll(ctx context.Context, now store.Micros) error {
	for after, more := int64(0), true; more; {
		var err error
		if after, more, err = r.removeSome(ctx, now, after); err != nil {
			return err
		}
	}
	return nil
}

// removeSome holds Rows, because a want may come back while its file goes. Rows in flight come up again.
func (r *Reconciler) removeSome(ctx context.Context, now store.Micros, after int64) (last int64, more bool, err error) {
	w := r.s
	w.Rows.Lock()
	defer w.Rows.Unlock()
	rs, err := r.s.Store.Due(ctx, store.DueQuery{
		SourceID: r.s.SourceID, Action: store.ActionRemove, Now: now, After: after, Limit: duePage,
	})
	if err != nil || len(rs) == 0 {
		return after, false, err
	}
	if err := r.s.Mirror.Check(ctx); err != nil { // a lost disk must not look like removed files (F12)
		r.halt(err)
		return after, false, nil
	}
	after = rs[len(rs)-1].ID
	if rs = w.Idle(rs); len(rs) == 0 {
		return after, true, nil
	}
	if err := r.s.Store.Durable(ctx); err != nil {
		return after, false, err
	}
	return after, true, r.removePage(ctx, rs)
}

// removePage moves files before it commits: after a kill they are found by trash id.
func (r *Reconciler) removePage(ctx context.Context, rs []*store.Resource) error {
	c := &store.Commit{Claim: r.s.Claim}
	var gone []*store.Resource
	var items []blob.TrashItem
	for _, res := range rs {
		switch w := merge.Effective(res.Wants); {
		case w == nil || w.State != store.WantAbsent, res.Have.State != store.HavePresent:
			work := store.Work{}
			if w != nil && w.State != store.WantAbsent {
				work = merge.WorkFor(w, &res.Have, r.s.LocalNow())
			}
			c.Resources = append(c.Resources, store.ResourceChange{ID: res.ID, Work: &work})
		case r.s.Means.Delete == DeleteKeep:
			h := res.Have
			h.State = store.HaveKept
			r.change(c, res, &h, "kept")
		default:
			// By the row: after a kill the file may be in the trash already.
			items = append(items, blob.TrashItem{Key: res.Key, ID: trashID(res)})
			if now, err := r.s.Found(ctx, res, false); err == nil && now != nil && now.State != store.HaveNone {
				res.Have = *now // as the trash will have it
			}
			gone = append(gone, res)
		}
	}
	if len(items) > 0 {
		if err := r.s.Begun(ctx, nil); err != nil {
			return err
		}
	}
	n := int64(0)
	for i, err := range r.take(ctx, items) {
		if r.s.Means.Delete != DeleteNow && r.inTrash(ctx, items[i].ID, err) {
			c.Trash = append(c.Trash, r.trashed(gone[i], items[i].ID))
		}
		n += r.removed(c, gone[i], err)
	}
	if err := r.s.Store.Commit(ctx, c); err != nil {
		for _, res := range gone { // no row tells, and they may be wanted again
			r.s.Doubt(res.ID)
		}
		return err
	}
	for i := range c.Resources {
		if h := c.Resources[i].Have; h != nil && h.State == store.HaveNone {
			r.s.trust(c.Resources[i].ID)
		}
	}
	r.Went(n)
	for i := range c.Resources {
		r.s.landed(c.Resources[i].ID, removes(c.Resources[i]))
	}
	return nil
}

func (r *Reconciler) change(c *store.Commit, res *store.Resource, h *store.Have, what string) {
	merge.Total(c, res.Wants, &res.Have, res.Wants, h)
	if h.State == store.HaveNone {
		r.remember(c, res)
	}
	c.Resources = append(c.Resources, store.ResourceChange{ID: res.ID, Have: h, Work: &store.Work{}})
	version := res.Have.Version
	if w := merge.Effective(res.Wants); w != nil {
		version = w.Version
	}
	c.Events = append(c.Events, store.Event{SourceID: r.s.SourceID, URI: res.URI, At: r.s.LocalNow(), What: what,
		Version: version, Detail: merge.DigestOf(&res.Have)})
}

// take moves files to the trash, or removes them.
func (r *Reconciler) take(ctx context.Context, items []blob.TrashItem) []error {
	if r.s.Means.Delete != DeleteNow {
		return r.s.Mirror.Trash(ctx, items)
	}
	keys := make([]string, len(items))
	for i := range items {
		keys[i] = items[i].Key
	}
	return r.s.Mirror.Remove(ctx, keys)
}

// inTrash tells whether a file came to lie in the trash, now or before a kill. After ErrSync it may not last there.
func (r *Reconciler) inTrash(ctx context.Context, id string, err error) bool {
	if errors.Is(err, blob.ErrNotFound) {
		f, _, err := r.s.Mirror.OpenTrash(ctx, id)
		if err == nil {
			_ = f.Close()
		}
		return err == nil
	}
	return err == nil || errors.Is(err, blob.ErrSync)
}

func (r *Reconciler) trashed(res *store.Resource, id string) store.Trashed {
	reason := "deleted at the Source"
	if w := merge.Effective(res.Wants); w != nil && w.Generation > 0 {
		reason = "no longer listed by the Source"
	}
	return store.Trashed{ID: id, SourceID: r.s.SourceID, URI: res.URI, Key: res.Key, SHA256: res.Have.SHA256,
		Length: res.Have.Length, Reason: reason, At: r.s.LocalNow()}
}

// removed counts a removal. A missing file counts too; other failures stay owed.
func (r *Reconciler) removed(c *store.Commit, res *store.Resource, err error) int64 {
	if err == nil || blob.Missing(err) {
		r.tallied(func(t *tally) { t.end(res.ID, false) })
		r.change(c, res, &store.Have{}, "deleted")
		return 1
	}
	if errors.Is(err, blob.ErrSync) {
		r.s.Doubt(res.ID) // the file may be gone, and wanted again soon
	}
	r.tallied(func(t *tally) { t.failing.Add(res.ID) })
	o := &outcome{res: res}
	o.fail(err)
	work := o.reschedule(r.s.LocalNow())
	work.Action = store.ActionRemove
	c.Resources = append(c.Resources, store.ResourceChange{ID: res.ID, Work: &work})
	if blob.Systemic(err) {
		r.halt(err)
	}
	return 0
}

// trashID names a file in the trash. A removal repeated after a kill must compute the same name.
func trashID(r *store.Resource) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d\x00%s\x00%x", r.ID, r.URI, r.Have.SHA256)
	ms := uint64(max(int64(r.Work.Due)/1000, 0)) & (1<<48 - 1)
	return fmt.Sprintf("%012x", ms) + hex.EncodeToString(h.Sum(nil))[:20]
}

// Reading says whether documents are being read.
func (r *Reconciler) Reading(on bool) {
	r.reading.Store(on)
	r.s.Poke()
}

// Retry has failures tried again until end, zero for ever.
func (r *Reconciler) Retry(end time.Time) {
	r.tallied(func(t *tally) { t.until = end })
	r.s.Poke()
}

// Rests tells whether nothing is in flight, due or held.
func (r *Reconciler) Rests() (rests bool) {
	r.tallied(func(t *tally) { rests = t.resting && !r.s.offers.held })
	return rests
}

// Stir ends a rest, so that the next one is reported.
func (r *Reconciler) Stir() {
	r.tallied(func(t *tally) { t.resting = false })
	r.s.Poke()
}

// rest tells whether a rest begins. It holds both locks, or a pull could be concluded without work that is handed over
// meanwhile.
func (r *Reconciler) rest(idle bool) (begins bool) {
	if idle {
		r.s.Rows.Lock()
		defer r.s.Rows.Unlock()
	}
	r.tallied(func(t *tally) {
		idle = idle && !r.s.waits()
		begins, t.resting = idle && !t.resting, idle
	})
	return begins
}

func (r *Reconciler) halt(err error) {
	if errors.Is(err, blob.ErrNoSpace) && r.s.Means.Delete == DeleteTrash {
		err = fmt.Errorf("%w; the trash keeps what the Source deletes, and its room, for %s: shorten `trash` or "+
			"set `delete: now` to get it back", err, r.s.Means.TrashFor)
	}
	first := false
	r.tallied(func(t *tally) {
		if first = t.halted == nil; first {
			t.halted = err
			r.s.Observe.Halted(err)
		}
	})
	if first {
		r.s.Log.Error("the mirror cannot take files; what is left stays owed", "err", err)
	}
}

func (r *Reconciler) haltedBy() (err error) {
	r.tallied(func(t *tally) { err = t.halted })
	return err
}

// IsHalted tells whether a failure of the disk stopped the fetching.
func (r *Reconciler) IsHalted() bool { return r.haltedBy() != nil }

// mayRemove: a full mirror may get room only from its own removals.
func (r *Reconciler) mayRemove() bool {
	err := r.haltedBy()
	return err == nil || errors.Is(err, blob.ErrNoSpace)
}

// ErrHalted is the failure that stopped a run, if any.
func (r *Reconciler) ErrHalted() error {
	if err := r.haltedBy(); err != nil {
		return fmt.Errorf("the mirror's disk failed or is full, free it and run again: %w", err)
	}
	return nil
}

// useRoom ends the halt of a full mirror after removals that gave room. The trash gives none.
func (r *Reconciler) useRoom() {
	room := false
	r.tallied(func(t *tally) {
		deleted := t.sum.Deleted
		if room = r.s.Means.Delete == DeleteNow && errors.Is(t.halted, blob.ErrNoSpace) && deleted > t.used; room {
			t.used = deleted
		}
	})
	if room {
		r.resume()
	}
}

const probeBytes = 1 << 20

func (r *Reconciler) probe(ctx context.Context) error {
	if err := r.s.Mirror.Check(ctx); err != nil {
		return err
	}
	stage, err := r.s.Mirror.NewStage(ctx)
	if err != nil {
		return err
	}
	_, err = stage.Write(make([]byte, probeBytes))
	return errors.Join(err, stage.Discard())
}

// resume ends a halt. The next rest is reported, even with nothing owed.
func (r *Reconciler) resume() {
	r.tallied(func(t *tally) {
		t.halted, t.resumed, t.resting = nil, true, false
		r.s.Observe.Halted(nil) // under the lock: a later failure must be reported later
	})
	r.s.Log.Info("the mirror takes files again")
}

// TakeResumed tells whether a halt ended since the last call.
func (r *Reconciler) TakeResumed() (resumed bool) {
	r.tallied(func(t *tally) { resumed, t.resumed = t.resumed, false })
	return resumed
}
