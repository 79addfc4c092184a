package sync

import (
	"context"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"resyncd/destination/peer/source"
	"resyncd/store"
	"resyncd/store/blob"
)

// doubtfulMirror gives files their names and then says that the disk did not confirm it, as often as it is told to.
type doubtfulMirror struct {
	blob.Mirror
	fails  *atomic.Int64
	placed func() // after that, before it is told
}

func (m doubtfulMirror) Place(ctx context.Context, group []blob.Placement) ([]error, error) {
	errs, err := m.Mirror.Place(ctx, group)
	if err != nil || m.fails.Add(-1) < 0 {
		return errs, err
	}
	if m.placed != nil {
		m.placed()
	}
	return slices.Repeat([]error{blob.ErrSync}, len(group)), blob.ErrSync
}

// TestUnconfirmedThenUnwanted: a file that was given its name, but not for certain, is found when the next word is that the
// resource is gone, or is to be what it was before, though its row knows nothing of it (F10).
func TestUnconfirmedThenUnwanted(t *testing.T) {
	t.Parallel()
	deleted := func(p *pusher, file string) { p.src.Delete(file) }
	asBefore := func(p *pusher, file string) { p.put(file, "before") }
	pulled := func(p *pusher) { p.pull(false) }
	pushed := func(p *pusher) { p.push(); p.emptied() }
	for name, c := range map[string]struct {
		file      string
		meanwhile bool
		next      func(p *pusher, file string)
		tell      func(p *pusher)
	}{
		"new, deleted, pulled":               {"new.txt", false, deleted, pulled},
		"new, deleted, pushed":               {"new.txt", false, deleted, pushed},
		"new, deleted meanwhile, pushed":     {"new.txt", true, deleted, pushed},
		"known, deleted, pulled":             {"known.txt", false, deleted, pulled},
		"known, deleted meanwhile, pulled":   {"known.txt", true, deleted, pulled},
		"known, as before, pushed":           {"known.txt", false, asBefore, pushed},
		"known, as before meanwhile, pulled": {"known.txt", true, asBefore, pulled},
		"known, nothing new, pulled":         {"known.txt", false, func(*pusher, string) {}, pulled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			unconfirmed(t, c.file, c.meanwhile, func(p *pusher) { c.next(p, c.file); c.tell(p) })
		})
	}
}

// unconfirmed changes a file, of which the disk is not sure, and then does what comes next: while the file is being placed,
// or once the trouble is over.
func unconfirmed(t *testing.T, file string, meanwhile bool, next func(p *pusher)) {
	p := newSettled(t, source.Options{}, map[string]string{"known.txt": "before", "other.txt": "other"})
	p.stop()
	var fails, ahead atomic.Int64
	p.engine = func(e *Engine) {
		e.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}
	named, told := make(chan struct{}), make(chan struct{})
	p.tune = func(t *Target) {
		m := doubtfulMirror{Mirror: t.Mirror, fails: &fails}
		if meanwhile {
			m.placed = func() { close(named); <-told }
		}
		t.Mirror = m
	}
	p.follow()
	p.pull(false)
	p.eventually("at rest", p.f.Idle)
	fails.Store(1)
	p.put(file, "changed")
	p.push()
	if meanwhile {
		<-named
		next(p)
		// Should it be cut here, the file has its name and the row does not know: only what is owed is looked at (F1).
		if row, err := p.store.Resource(t.Context(), p.f.SourceID(), p.src.URI(file)); err != nil || row.Work.Action != store.ActionFetch {
			t.Errorf("while the file is placed: %+v, %v", row, err)
		}
		close(told)
	}
	p.eventually("the disk was not sure", func() bool { return fails.Load() <= 0 && p.f.s.Site.AnyDoubt() })
	if b, err := os.ReadFile(p.path(file)); err != nil || string(b) != "changed" {
		t.Fatalf("the test's file holds %q, %v", b, err)
	}
	ahead.Store(int64(10 * time.Second)) // nobody waits for that
	if !meanwhile {
		next(p)
	}
	p.eventually("the mirror equals the Source", p.same)
	p.pull(false)
	p.eventually("nothing is in doubt", func() bool { return p.f.Idle() && p.same() && !p.f.s.Site.AnyDoubt() })
}

// TestDoubtOutlivesItsSession: who stops while a file is in doubt leaves word for whoever comes next.
func TestDoubtOutlivesItsSession(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, map[string]string{"known.txt": "before"})
	p.stop()
	var fails atomic.Int64
	p.tune = func(t *Target) { t.Mirror = doubtfulMirror{Mirror: t.Mirror, fails: &fails} }
	p.follow()
	fails.Store(1)
	p.put("new.txt", "new")
	p.push()
	p.eventually("in doubt", p.f.s.Site.AnyDoubt)
	p.stop()
	p.tune = nil
	p.src.Delete("new.txt")
	e, target, done := p.open()
	src, err := e.Store.Source(t.Context(), target.Name)
	done()
	if err != nil || !src.Unclean {
		t.Fatalf("unclean: %v, %v", src.Unclean, err)
	}
	p.must()
	p.equal()
	if _, err := os.Stat(p.path("new.txt")); !os.IsNotExist(err) {
		t.Errorf("left behind: %v", err)
	}
	p.with(func(e *Engine, _ Target) {
		row, err := e.Store.Resource(context.Background(), src.ID, p.srv.URL+"/new.txt")
		if err != nil || row.Have.State != store.HaveNone {
			t.Errorf("%+v, %v", row, err)
		}
	})
}

// forgetfulStore takes no word of removals, as often as it is told to.
type forgetfulStore struct {
	store.Store
	fails *atomic.Int64
}

func (s forgetfulStore) Commit(ctx context.Context, c *store.Commit) error {
	if len(c.Trash) > 0 && s.fails.Add(-1) >= 0 {
		return errDisk
	}
	return s.Store.Commit(ctx, c)
}

// TestRemovedUnrecorded: a file is gone and the state took no word of it. Before the Follower has ended the Source has the
// resource again, as the row says that it is on disk: there is something to do all the same (F1).
func TestRemovedUnrecorded(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, map[string]string{"known.txt": "before"})
	p.stop()
	var fails atomic.Int64
	p.engine = func(e *Engine) { e.Store = forgetfulStore{e.Store, &fails} }
	ended := make(chan struct{})
	p.failed = func(at Work, err error) {
		if at != "" {
			t.Errorf("%s: %v", at, err)
			return
		}
		close(ended)
	}
	p.follow()
	p.pull(false)
	p.eventually("at rest", p.f.Idle)
	fails.Store(1)
	p.src.Delete("known.txt")
	p.push()
	<-ended
	if _, err := os.Stat(p.path("known.txt")); !os.IsNotExist(err) {
		t.Fatalf("not removed: %v", err)
	}
	p.put("known.txt", "before")
	p.push()
	p.emptied()
	row, err := p.store.Resource(t.Context(), p.f.SourceID(), p.src.URI("known.txt"))
	if err != nil || row.Have.State != store.HavePresent || row.Work.Action != store.ActionFetch {
		t.Errorf("a row that knows nothing of the removal: %+v, %v", row, err)
	}
	p.stop()
	p.follow()
	p.eventually("the mirror equals the Source", p.same)
}
