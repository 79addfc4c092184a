package sync

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"resyncd/destination/peer/source"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/transfer"
)

// mortal stops everything durable after so many steps, as a kill would: files and rows are never changed again.
type mortal struct{ left atomic.Int64 }

var errKilled = errors.New("killed here by the test")

// step takes up to n durable steps and tells how many may still be done.
func (m *mortal) step(n int) int {
	left := m.left.Add(-int64(n)) + int64(n)
	return int(max(0, min(int64(n), left)))
}

type mortalStore struct {
	store.Store
	life *mortal
}

func (s mortalStore) Commit(ctx context.Context, c *store.Commit) error {
	if s.life.step(1) == 0 {
		return errKilled
	}
	return s.Store.Commit(ctx, c)
}

type mortalMirror struct {
	blob.Mirror
	life *mortal
}

func (m mortalMirror) Place(ctx context.Context, group []blob.Placement) ([]error, error) {
	n := m.life.step(len(group))
	errs, err := m.Mirror.Place(ctx, group[:n])
	for range group[n:] {
		errs = append(errs, errKilled)
	}
	return errs, err
}

func (m mortalMirror) Trash(ctx context.Context, items []blob.TrashItem) []error {
	n := m.life.step(len(items))
	errs := m.Mirror.Trash(ctx, items[:n])
	for range items[n:] {
		errs = append(errs, errKilled)
	}
	return errs
}

func (m mortalMirror) Remove(ctx context.Context, keys []string) []error {
	n := m.life.step(len(keys))
	errs := m.Mirror.Remove(ctx, keys[:n])
	for range keys[n:] {
		errs = append(errs, errKilled)
	}
	return errs
}

func (m mortalMirror) DropTrash(ctx context.Context, id string) error {
	if m.life.step(1) == 0 {
		return errKilled
	}
	return m.Mirror.DropTrash(ctx, id)
}

// dieAfter runs once with so many durable steps to live. It reports whether the run outlived them.
func (r *rig) dieAfter(steps int64) (survived bool) {
	r.t.Helper()
	life := &mortal{}
	life.left.Store(steps)
	tune := r.tune
	defer func() { r.engine, r.tune = nil, tune }()
	r.engine = func(e *Engine) { e.Store = mortalStore{e.Store, life} }
	r.tune = func(t *Target) {
		if tune != nil {
			tune(t)
		}
		t.Mirror = mortalMirror{t.Mirror, life}
	}
	if _, err := r.run(); err != nil && !errors.Is(err, errKilled) {
		r.t.Errorf("killed after %d steps: %v", steps, err)
	}
	return life.left.Load() >= 0
}

// TestKillAtEachStep kills a catch-up after each of its durable steps (F2). Before the next run the Source goes back to
// what it had before: what lies on disk by then is what no row tells.
func TestKillAtEachStep(t *testing.T) {
	t.Parallel()
	for _, mode := range []transfer.DeleteMode{transfer.DeleteTrash, transfer.DeleteNow} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			for steps := int64(0); ; steps++ {
				r := newRigIn(t, ramDir(t), source.Options{}, many(6))
				r.mirror.Unsynced = true
				r.tune = func(t *Target) { t.Delete = mode }
				r.must()
				r.put("d0/r000.txt", "changed")
				r.put("d0/r003.txt", "also changed")
				r.put("fresh", "new")
				r.src.Delete("d1/r001.txt")
				r.src.Delete("d1/r004.txt")
				survived := r.dieAfter(steps)
				r.put("d0/r000.txt", "body 0") // as before
				r.put("d1/r001.txt", "body 1")
				r.src.Delete("fresh")
				r.must()
				r.tidy()
				if t.Failed() {
					t.Fatalf("after a kill at step %d", steps)
				}
				if survived {
					t.Logf("%d steps", steps)
					return
				}
			}
		})
	}
}

// TestKillInBaseline does the same to a first run in a folder that holds other files.
func TestKillInBaseline(t *testing.T) {
	t.Parallel()
	for steps := int64(0); ; steps++ {
		r := newRigIn(t, ramDir(t), source.Options{ListSize: 3, ListEvery: -1}, many(7))
		r.mirror.Unsynced = true
		write(t, r.path("d0/r000.txt"), "in the way")
		write(t, r.path("d0/r003.txt"), "body 3")
		write(t, r.root+"/mine.txt", "not of the Source")
		survived := r.dieAfter(steps)
		r.put("d1/r001.txt", "changed")
		r.src.Delete("d2/r002.txt")
		if res, err := r.run(); err != nil || !res.InStep {
			t.Fatalf("step %d: %+v, %v", steps, res, err)
		}
		files := r.files()
		if files["mine.txt"] == "" {
			t.Fatalf("step %d: a file that is not ours is gone", steps)
		}
		write(t, r.root+"/mine.txt", "")
		r.equalBut("mine.txt")
		r.tidy()
		if t.Failed() {
			t.Fatalf("after a kill at step %d", steps)
		}
		if survived {
			t.Logf("%d steps", steps)
			return
		}
	}
}
