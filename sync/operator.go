package sync

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/keymap"
	"resyncd/sync/merge"
	"resyncd/sync/pull"
	"resyncd/sync/transfer"
)

// Approved is the result of `approve`.
type Approved struct {
	Resources int64 `json:"resources"`
	Rejected  bool  `json:"rejected"`
}

// Approve carries out every held removal of a Source, or drops it with reject: the files then stay wanted until their
// list changes.
func (e *Engine) Approve(ctx context.Context, t Target, reject bool) (Approved, error) {
	s, err := e.begin(ctx, t, RunOptions{}, Observer{})
	if err != nil {
		return Approved{Rejected: reject}, err
	}
	defer s.release()
	return s.approve(ctx, reject)
}

func (s *session) approve(ctx context.Context, reject bool) (Approved, error) {
	done, what := Approved{Rejected: reject}, pull.HeldApproved
	if reject {
		what = pull.HeldRejected
	}
	name := s.Name // owed again
	if !reject {
		name = nil // RemoveAll finds removals
	}
	var err error
	if done.Resources, err = s.DecideHeld(ctx, 0, what, name); err != nil {
		return done, err
	}
	rec := transfer.New(s.Site, nil)
	if err := rec.RemoveAll(ctx, pull.EndOfTime); err != nil {
		return done, err
	}
	return done, errors.Join(rec.ErrHalted(), s.tidyUp(ctx))
}

// Forget drops all state of a Source; withMirror also drops its files and trash. Foreign files stay.
func (e *Engine) Forget(ctx context.Context, t Target, withMirror bool) error {
	src, err := e.Store.Source(ctx, t.Name)
	if err != nil {
		return err
	}
	claim, release, err := e.claim(ctx, src.ID)
	if err != nil {
		return err
	}
	defer release()
	if withMirror && t.Mirror != nil {
		if err := e.dropFiles(ctx, src.ID, t.Mirror); err != nil {
			return err
		}
	}
	return e.Store.ForgetSource(ctx, claim)
}

func (e *Engine) dropFiles(ctx context.Context, source int64, m blob.Mirror) error {
	for after := int64(0); ; {
		rs, err := e.Store.Scan(ctx, store.ScanQuery{
			SourceID: source, Filter: store.FilterMirrored, After: after, Limit: pull.SweepPage,
		})
		if err != nil {
			return err
		}
		if len(rs) == 0 {
			break
		}
		after = rs[len(rs)-1].ID
		keys := make([]string, 0, len(rs))
		for _, r := range rs {
			if !foreign(r) {
				keys = append(keys, r.Key)
			}
		}
		for _, err := range m.Remove(ctx, keys) {
			if err != nil && !blob.Missing(err) {
				return err
			}
		}
	}
	return m.ListTrash(ctx, func(t blob.TrashInfo) error {
		if err := m.DropTrash(ctx, t.ID); err != nil && !blob.Missing(err) {
			return err
		}
		return nil
	})
}

// policyAdopting stands in Source.Policy until a whole run has ended, or a kill would make foreign files ours.
const policyAdopting = "adopting"

// Adopt records a Source whose mirror will be a folder that existed before. Without that record LostState would take
// the folder for one whose state was lost.
func (e *Engine) Adopt(ctx context.Context, name, url string) (src store.Source, err error) {
	src, err = e.Store.EnsureSource(ctx, name, url)
	if err != nil || src.Policy == policyAdopting {
		return src, err
	}
	claim, release, err := e.claim(ctx, src.ID)
	if err != nil {
		return src, err
	}
	err = e.Store.Commit(ctx, &store.Commit{Claim: claim, Source: &store.SourceChange{Policy: new(policyAdopting)}})
	if err = errors.Join(err, release()); err != nil {
		return src, err
	}
	return e.Store.Source(ctx, name)
}

// LostState reports whether the state of a mirror with a root marker was lost: the Source is unknown (nil), or somebody
// has only just begun it anew. Files that no list names are ours then.
func LostState(src *store.Source) bool {
	return src == nil || src.RootID == "" && src.Policy != policyAdopting
}

// Restore brings the newest trashed file of a URI, or else of a key, back and keeps it until the Source lists it again.
func (e *Engine) Restore(ctx context.Context, t Target, name string) (store.Trashed, error) {
	s, err := e.begin(ctx, t, RunOptions{}, Observer{})
	if err != nil {
		return store.Trashed{}, err
	}
	defer s.release()
	return s.restore(ctx, name)
}

func (s *session) restore(ctx context.Context, name string) (store.Trashed, error) {
	tr, err := s.Store.TrashedOf(ctx, s.SourceID, name)
	if errors.Is(err, store.ErrNotFound) {
		tr, err = s.trashedUnder(ctx, name)
	}
	if errors.Is(err, store.ErrNotFound) {
		return tr, fmt.Errorf("nothing of %s is in the trash of %s: %w", name, s.Target.Name, err)
	}
	if err != nil {
		return tr, err
	}
	r, err := s.Store.Resource(ctx, s.SourceID, tr.URI)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return tr, err
	}
	if r != nil && r.Have.State != store.HaveNone {
		return tr, fmt.Errorf("%s has a file in the mirror already: %s", tr.URI, r.Key)
	}
	if r != nil && r.Key != "" {
		tr.Key = r.Key
	} else if err := s.vacant(ctx, tr.Key); err != nil {
		return tr, err
	}
	if err := s.bringBack(ctx, &tr); err != nil {
		return tr, err
	}
	return tr, s.recordRestored(ctx, &tr, r)
}

// trashedUnder returns the newest trashed file of a key. One without an owner gets a URI, or its key for one.
func (s *session) trashedUnder(ctx context.Context, key string) (tr store.Trashed, err error) {
	for after := ""; ; {
		ts, err := s.Store.Trash(ctx, s.SourceID, store.NoTime, after, pull.SweepPage)
		if err != nil {
			return tr, err
		}
		if len(ts) == 0 {
			break
		}
		after = ts[len(ts)-1].ID
		for i := range ts {
			if ts[i].Key == key && key != "" {
				tr = ts[i]
			}
		}
	}
	if tr.ID == "" {
		return tr, store.ErrNotFound
	}
	if tr.URI != "" {
		return tr, nil
	}
	uris, err := s.urisOf(ctx, []string{key})
	if err == nil {
		tr.URI = cmp.Or(uris[0], key)
	}
	return tr, err
}

// vacant refuses a key that belongs to another resource or is a folder.
func (s *session) vacant(ctx context.Context, key string) error {
	name := key
	if s.Target.Mirror.FoldsCase() {
		name = keymap.FoldKey(key)
	}
	use, err := s.Store.Names(ctx, s.SourceID, []string{name})
	if err == nil && use[0] != store.NameFree {
		err = fmt.Errorf("%s is taken by another resource of %s", key, s.Target.Name)
	}
	return err
}

// bringBack moves a file out of the trash. After a kill before the commit it is in place already.
func (s *session) bringBack(ctx context.Context, tr *store.Trashed) error {
	if err := s.Begun(ctx, nil); err != nil {
		return err
	}
	err := s.Target.Mirror.Restore(ctx, tr.ID, tr.Key)
	if errors.Is(err, blob.ErrNotFound) {
		sum, _, _, herr := transfer.HashFile(ctx, s.Target.Mirror, tr.Key, nil)
		if herr == nil && (sum == tr.SHA256 || tr.Length < 0) {
			return nil
		}
	}
	if errors.Is(err, blob.ErrExists) {
		return fmt.Errorf("another file is where %s was; move it away first: %w", tr.URI, err)
	}
	return err
}

// recordRestored records the file as kept; what the Source wants stays.
func (s *session) recordRestored(ctx context.Context, tr *store.Trashed, r *store.Resource) error {
	sum, n, _, err := transfer.HashFile(ctx, s.Target.Mirror, tr.Key, nil)
	if err != nil {
		return err
	}
	info, err := s.Target.Mirror.Stat(ctx, tr.Key)
	if err != nil {
		return err
	}
	s.Rows.Lock()
	defer s.Rows.Unlock()
	if r != nil { // a Follower may have changed it
		rs, err := s.Store.ByIDs(ctx, []int64{r.ID})
		if err != nil {
			return err
		}
		if len(rs) == 0 || rs[0].Have.State != store.HaveNone {
			return s.Store.Commit(ctx, &store.Commit{Claim: s.Claim, DropTrash: []string{tr.ID}})
		}
		r = rs[0]
	}
	v := s.NewRevision()
	have := &store.Have{State: store.HaveKept, SHA256: sum, Length: n, ModTime: info.ModTime, Fetched: v.Now}
	rc := store.ResourceChange{URI: tr.URI, Key: tr.Key, Have: have, Work: &store.Work{}}
	if s.Target.Mirror.FoldsCase() {
		rc.Name = keymap.FoldKey(rc.Key)
	}
	v.DropTrash = []string{tr.ID}
	v.Events = []store.Event{{
		SourceID: s.SourceID, URI: tr.URI, At: v.Now, What: "restored", Detail: merge.DigestOf(have),
	}}
	if r != nil {
		if rc.ID = r.ID; r.Work.Action == store.ActionFetch {
			rc.Work = nil
		}
		was := r.Have
		r.Have = *have
		v.Count(r.Wants, was, r)
	}
	v.Change(rc)
	_, err = v.Write(ctx)
	return errors.Join(err, s.tidyUp(ctx))
}

func (s *session) emptyTrash(ctx context.Context) error {
	before := store.MicrosOf(s.Now().Add(-s.Target.TrashFor))
	for after := ""; ; {
		ts, err := s.Store.Trash(ctx, s.SourceID, before, after, 1000)
		if err != nil || len(ts) == 0 {
			return err
		}
		if err := s.Begun(ctx, nil); err != nil {
			return err
		}
		c := &store.Commit{Claim: s.Claim}
		for _, t := range ts {
			after = t.ID
			if err := s.Target.Mirror.DropTrash(ctx, t.ID); err != nil && !errors.Is(err, blob.ErrNotFound) {
				s.Log.Warn("could not drop a file from the trash; it is tried again with the next run",
					"key", t.Key, "err", err)
				continue
			}
			c.DropTrash = append(c.DropTrash, t.ID)
		}
		if err := s.Store.Commit(ctx, c); err != nil {
			return err
		}
	}
}

// claimTrash gives rows to trashed files that a kill left without one, so that they can be dropped (P8).
func (s *session) claimTrash(ctx context.Context) error {
	var lost []store.Trashed
	err := s.Target.Mirror.ListTrash(ctx, func(i blob.TrashInfo) error {
		if i.Trashed.IsZero() {
			return nil
		}
		// The prefix matches ids that differ in the last digit.
		near, err := s.Store.Trash(ctx, s.SourceID, store.NoTime, i.ID[:len(i.ID)-1], 16)
		for _, t := range near {
			if t.ID == i.ID {
				return err
			}
		}
		if err == nil {
			lost = append(lost, store.Trashed{
				ID: i.ID, SourceID: s.SourceID, Length: -1, Reason: "left by a run that was cut", At: s.LocalNow(),
			})
		}
		return err
	})
	for start := 0; start < len(lost) && err == nil; start += 1000 {
		err = s.Store.Commit(ctx, &store.Commit{Claim: s.Claim, Trash: lost[start:min(start+1000, len(lost))]})
	}
	return err
}
