package sync

import (
	"context"
	"errors"
	"sync"

	"resyncd/store"
	"resyncd/store/blob"
)

// doubts are the resources whose file may be newer than their row: it was given its name, and then the disk did not confirm
// it, or the state took no word of it. Work goes on once the disk does, often with another want, so whoever would say
// that there is nothing to do for such a row looks at the disk first (F6, F10).
type doubts struct {
	mu  sync.Mutex
	ids map[int64]struct{}
}

func (d *doubts) add(id int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ids == nil {
		d.ids = map[int64]struct{}{}
	}
	d.ids[id] = struct{}{}
}

func (d *doubts) drop(id int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.ids, id)
}

func (d *doubts) has(id int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.ids[id]
	return ok
}

func (d *doubts) any() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.ids) > 0
}

// doubted tells a resource of doubts that is still owed. Its file is not what is wanted, whatever it holds: the disk may
// have lost it since, so it is fetched anew.
func (s *session) doubted(r *store.Resource) bool {
	return r.Work.Action != store.ActionNone && s.doubts.has(r.ID)
}

// suspects tells whether the disk may hold something else for a resource than its row says: one that is doubted, or, after
// a run that was cut, any with work under way.
func (s *session) suspects(r *store.Resource) bool {
	return r.Work.Action != store.ActionNone && s.look || s.doubted(r)
}

// lookMost is how many rows uncertain looks at: a second's work where each is on a slow disk.
const lookMost = 10_000

// uncertain tells whether the disk may still hold something else for a resource that is owed than its row says, so that the
// next run has to look too: one that could not be fetched was looked at in vain, one that was not due never (F1). Where
// more are owed than it looks at, some may.
func (s *session) uncertain(ctx context.Context) (bool, error) {
	if !s.look {
		return false, nil
	}
	looked := 0
	for _, action := range []store.Action{store.ActionFetch, store.ActionRemove} {
		for after := int64(0); ; {
			rs, err := s.Store.Due(ctx, store.DueQuery{SourceID: s.src.ID, Action: action, Now: endOfTime, After: after, Limit: duePage})
			if err != nil {
				return false, err
			}
			if len(rs) == 0 {
				break
			}
			after = rs[len(rs)-1].ID
			if looked += len(rs); looked > lookMost {
				return true, nil
			}
			for _, r := range rs {
				if s.differs(ctx, r) {
					return true, nil
				}
			}
		}
	}
	return false, nil
}

// differs compares what lies in a resource's place with its row, by lstat. What cannot be looked at may differ.
func (s *session) differs(ctx context.Context, r *store.Resource) bool {
	if r.Key == "" {
		return false
	}
	h := &r.Have
	info, err := s.t.Mirror.Stat(ctx, r.Key)
	switch {
	case missing(err):
		return h.State != store.HaveNone
	case err != nil:
		return true
	case h.State == store.HaveNone:
		return info.Kind == blob.KindFile
	}
	return info.Length != h.Length || info.ModTime != h.ModTime
}

// found is what a suspect resource has on disk, nil if that is what its row says. A file that no row knows counts only
// where the resource is no longer wanted: one that is wanted adopts it (reconciler.adopt).
func (s *session) found(ctx context.Context, r *store.Resource, wanted bool) (*store.Have, error) {
	if s.t.Mirror == nil || !s.suspects(r) {
		return nil, nil
	}
	if r.Have.State != store.HaveNone {
		return s.actual(ctx, r)
	}
	if wanted || r.Key == "" || r.Work.Action != store.ActionFetch {
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
	if errors.Is(err, blob.ErrIO) {
		sum, n, err = [32]byte{}, info.Length, nil
	}
	if err != nil {
		return nil, err
	}
	h := s.unknown(sum, n, info.ModTime)
	return &h, nil
}

// actual hashes the file of a row that has one: nil if it is what the row says.
func (s *session) actual(ctx context.Context, r *store.Resource) (*store.Have, error) {
	h := &r.Have
	info, err := s.t.Mirror.Stat(ctx, r.Key)
	var now store.Have
	if err == nil {
		var sum [32]byte
		var n int64
		switch sum, n, _, err = s.hashFile(ctx, r.Key, nil); {
		case errors.Is(err, blob.ErrIO): // it is there, and nobody reads it: one spoilt file costs no other (F10)
			now, err = s.unknown([32]byte{}, info.Length, info.ModTime), nil
			now.State = h.State
		case err != nil:
		case sum != h.SHA256:
			now = s.unknown(sum, n, info.ModTime)
			now.State = h.State
		case info.ModTime == h.ModTime:
			return nil, nil
		default:
			now = *h
			now.ModTime = info.ModTime
		}
	}
	if err != nil && !missing(err) && !errors.Is(err, blob.ErrNotRegular) {
		return nil, err // running out of descriptors is no missing file (F11)
	}
	return &now, nil
}

// unknown is a file in our place of which no row tells where it came from: older than anything that is wanted.
func (s *session) unknown(sum [32]byte, length, modified int64) store.Have {
	return store.Have{State: store.HavePresent, SHA256: sum, Length: length, ModTime: modified, Fetched: s.localNow(),
		Version: store.Version{From: store.NoTime, Until: store.NoTime}}
}
