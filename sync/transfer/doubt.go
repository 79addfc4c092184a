package transfer

import (
	"context"
	"errors"

	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/verify"
)

// A resource is doubtful when its file may be newer than its row, because the disk or the state failed. It is compared
// with the disk before it counts as done (F6, F10).

// Doubt marks a row as doubtful.
func (w *Workset) Doubt(id int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.doubtful[id] = struct{}{}
}

func (w *Workset) trust(id int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.doubtful, id)
}

func (w *Workset) doubts(id int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.doubtful[id]
	return ok
}

// AnyDoubt tells whether any row is doubtful.
func (w *Workset) AnyDoubt() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.doubtful) > 0
}

// Doubted tells whether a resource is doubtful and owed. The disk may have lost its file, so it is fetched anew.
func (s *Site) Doubted(r *store.Resource) bool {
	return r.Work.Action != store.ActionNone && s.doubts(r.ID)
}

func (s *Site) suspects(r *store.Resource) bool {
	return r.Work.Action != store.ActionNone && s.Look || s.Doubted(r)
}

// Differs compares a file with its row by lstat. An error counts as a difference.
func (s *Site) Differs(ctx context.Context, r *store.Resource) bool {
	if r.Key == "" {
		return false
	}
	h := &r.Have
	info, err := s.Mirror.Stat(ctx, r.Key)
	switch {
	case blob.Missing(err):
		return h.State != store.HaveNone
	case err != nil:
		return true
	case h.State == store.HaveNone:
		return info.Kind == blob.KindFile
	}
	return info.Length != h.Length || info.ModTime != h.ModTime
}

// Found is the file of a suspect resource, nil if it is as its row says. A wanted resource without a row adopts its
// file instead (Reconciler.adopt).
func (s *Site) Found(ctx context.Context, r *store.Resource, wanted bool) (*store.Have, error) {
	if s.Mirror == nil || !s.suspects(r) {
		return nil, nil
	}
	if r.Have.State != store.HaveNone {
		return s.Actual(ctx, r)
	}
	if wanted || r.Key == "" || r.Work.Action != store.ActionFetch {
		return nil, nil
	}
	return s.Intruder(ctx, r)
}

// Intruder is the file of a resource that should have none, or nil.
func (s *Site) Intruder(ctx context.Context, r *store.Resource) (*store.Have, error) {
	info, err := s.Mirror.Stat(ctx, r.Key)
	if blob.Missing(err) || err == nil && info.Kind != blob.KindFile {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	sum, n, _, err := verify.Hash(ctx, s.Mirror, r.Key, nil)
	if errors.Is(err, blob.ErrIO) {
		sum, n, err = [32]byte{}, info.Length, nil
	}
	if err != nil {
		return nil, err
	}
	h := s.Unknown(sum, n, info.ModTime)
	return &h, nil
}

// Actual hashes the file of a row, and is nil if the row is right.
func (s *Site) Actual(ctx context.Context, r *store.Resource) (*store.Have, error) {
	h := &r.Have
	info, err := s.Mirror.Stat(ctx, r.Key)
	var now store.Have
	if err == nil {
		var sum [32]byte
		var n int64
		switch sum, n, _, err = verify.Hash(ctx, s.Mirror, r.Key, nil); {
		case errors.Is(err, blob.ErrIO): // one unreadable file must not hold up others (F10)
			now, err = s.Unknown([32]byte{}, info.Length, info.ModTime), nil
			now.State = h.State
		case err != nil:
		case sum != h.SHA256:
			now = s.Unknown(sum, n, info.ModTime)
			now.State = h.State
		case info.ModTime == h.ModTime:
			return nil, nil
		default:
			now = *h
			now.ModTime = info.ModTime
		}
	}
	if err != nil && !blob.Missing(err) && !errors.Is(err, blob.ErrNotRegular) {
		return nil, err // running out of descriptors is no missing file (F11)
	}
	return &now, nil
}

// Unknown is a file that no row explains, older than any want.
func (s *Site) Unknown(sum [32]byte, length, modified int64) store.Have {
	return store.Have{
		State: store.HavePresent, SHA256: sum, Length: length, ModTime: modified, Fetched: s.LocalNow(),
		Version: store.Version{From: store.NoTime, Until: store.NoTime},
	}
}
