package sync

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"resyncd/destination/peer/source"
	"resyncd/store"
)

// cutStore keeps what a power cut leaves of the state where nothing was synced since the first commit that takes deliveries out of
// the inbox and is marked as repeatable: the files of SQLite as they were right before it.
type cutStore struct {
	store.Store
	t     *testing.T
	state string // path of the database
	left  string // the folder for what is left of it
	done  *bool
}

func (s cutStore) Commit(ctx context.Context, c *store.Commit) error {
	if c.Repeatable && len(c.Inbox) > 0 && !*s.done {
		*s.done = true
		copyState(s.t, s.state, filepath.Join(s.left, filepath.Base(s.state)))
	}
	return s.Store.Commit(ctx, c)
}

// copyState copies a database and its log; the index of the log is made anew.
func copyState(t *testing.T, from, to string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(from + suffix)
		if err == nil {
			err = os.WriteFile(to+suffix, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(to + "-shm"); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}

// TestPowerCutInPush: the wants of a push are not synced by themselves. A power cut may take them back when its files are
// in the mirror already, or gone from it; the delivery is still there then, and everything is done again (P1, P3, P4).
func TestPowerCutInPush(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, many(4))
	p.stop()
	state, left, done := p.rig.db, t.TempDir(), false
	p.rig.engine = func(e *Engine) { e.Store = cutStore{e.Store, t, state, left, &done} }
	p.follow()
	p.pull(false)
	p.put("a.txt", "2")
	p.put("fresh/b.txt", "new")
	p.src.Delete("d1/r001.txt")
	p.push()
	p.eventually("carried out", func() bool { return p.same() && p.quiet() })
	p.stop()
	if !done {
		t.Fatal("nothing of a push is repeatable")
	}

	p.rig.engine = nil
	copyState(t, filepath.Join(left, filepath.Base(state)), state)
	p.follow()
	if n, err := waiting(p.store); err != nil || n.Deliveries != 1 {
		t.Fatalf("%d deliveries wait after the power cut, %v", n.Deliveries, err)
	}
	p.later(WorkNotify, p.f.s.Now())
	p.eventually("done again", func() bool { return p.same() && p.quiet() })
}
