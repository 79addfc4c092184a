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
)

// Restore brings the newest trashed file of a URI, or else of a key, back under its key and keeps it there until the Source lists
// it again.
func (e *Engine) Restore(ctx context.Context, t Target, name string) (store.Trashed, error) {
	s, err := e.begin(ctx, t, RunOptions{})
	if err != nil {
		return store.Trashed{}, err
	}
	defer s.release()
	return s.restore(ctx, name)
}

func (s *session) restore(ctx context.Context, name string) (store.Trashed, error) {
	tr, err := s.Store.TrashedOf(ctx, s.src.ID, name)
	if errors.Is(err, store.ErrNotFound) {
		tr, err = s.trashedUnder(ctx, name)
	}
	if errors.Is(err, store.ErrNotFound) {
		return tr, fmt.Errorf("nothing of %s is in the trash of %s: %w", name, s.Target.Name, err)
	}
	if err != nil {
		return tr, err
	}
	r, err := s.Store.Resource(ctx, s.src.ID, tr.URI)
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

// trashedUnder is the newest trashed file that lay under a key. If it is not known whose it is, it gets the URI that can be told
// by now, or else its key for one (foreign), so that it is kept like any other: no row would leave it to the next sweep.
func (s *session) trashedUnder(ctx context.Context, key string) (tr store.Trashed, err error) {
	for after := ""; ; {
		ts, err := s.Store.Trash(ctx, s.src.ID, store.NoTime, after, pull.SweepPage)
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

// vacant refuses a key that another resource has, or that is a folder to the mirror, though nothing may be there just now.
func (s *session) vacant(ctx context.Context, key string) error {
	name := key
	if s.Target.Mirror.FoldsCase() {
		name = keymap.FoldKey(key)
	}
	use, err := s.Store.Names(ctx, s.src.ID, []string{name})
	if err == nil && use[0] != store.NameFree {
		err = fmt.Errorf("%s is taken by another resource of %s", key, s.Target.Name)
	}
	return err
}

// bringBack moves a file out of the trash. A kill before that was recorded leaves it in place already. Of one that was nobody's
// the state does not know what it was.
func (s *session) bringBack(ctx context.Context, tr *store.Trashed) error {
	err := s.Target.Mirror.Restore(ctx, tr.ID, tr.Key)
	if errors.Is(err, blob.ErrNotFound) {
		if sum, _, _, herr := s.Site.HashFile(ctx, tr.Key, nil); herr == nil && (sum == tr.SHA256 || tr.Length < 0) {
			return nil
		}
	}
	if errors.Is(err, blob.ErrExists) {
		return fmt.Errorf("another file is where %s was; move it away first: %w", tr.URI, err)
	}
	return err
}

// recordRestored makes the file known as kept. What the Source wants of the resource, and owed work, stay as they are.
func (s *session) recordRestored(ctx context.Context, tr *store.Trashed, r *store.Resource) error {
	sum, n, _, err := s.Site.HashFile(ctx, tr.Key, nil)
	if err != nil {
		return err
	}
	info, err := s.Target.Mirror.Stat(ctx, tr.Key)
	if err != nil {
		return err
	}
	s.Site.Rows.Lock()
	defer s.Site.Rows.Unlock()
	if r != nil { // as it is now: a Follower works on
		rs, err := s.Store.ByIDs(ctx, []int64{r.ID})
		if err != nil {
			return err
		}
		if len(rs) == 0 || rs[0].Have.State != store.HaveNone { // a newer file has taken its place
			return s.Store.Commit(ctx, &store.Commit{Claim: s.claim, DropTrash: []string{tr.ID}})
		}
		r = rs[0]
	}
	now := s.Site.LocalNow()
	have := &store.Have{State: store.HaveKept, SHA256: sum, Length: n, ModTime: info.ModTime, Fetched: now}
	rc := store.ResourceChange{URI: tr.URI, Key: tr.Key, Have: have, Work: &store.Work{}}
	if s.Target.Mirror.FoldsCase() {
		rc.Name = keymap.FoldKey(rc.Key)
	}
	c := &store.Commit{
		Claim: s.claim, DropTrash: []string{tr.ID},
		Events: []store.Event{{SourceID: s.src.ID, URI: tr.URI, At: now, What: "restored", Detail: merge.DigestOf(have)}},
	}
	if r != nil {
		rc.ID = r.ID
		s.Site.Touch(&rc, now)
		if r.Work.Action == store.ActionFetch {
			rc.Work = nil
		}
		sums := map[int64]*store.SetChange{}
		merge.Total(sums, r.Wants, &r.Have, r.Wants, have)
		for _, sc := range sums {
			c.Sets = append(c.Sets, *sc)
		}
	}
	c.Resources = []store.ResourceChange{rc}
	return errors.Join(s.Store.Commit(ctx, c), s.tidyUp(ctx))
}
