package sync

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"resyncd/destination/peer/source"
	"resyncd/store"
	"resyncd/sync/merge"
)

// heldStore lets a test into the middle of a commit that takes up a notification.
type heldStore struct {
	store.Store
	during func(c *store.Commit) error // nil: the commit may go on
}

func (s *heldStore) Commit(ctx context.Context, c *store.Commit) error {
	if len(c.Inbox) > 0 && s.during != nil {
		if err := s.during(c); err != nil {
			return err
		}
	}
	return s.Store.Commit(ctx, c)
}

// holding is a settled pusher whose commits of notifications the test gets into.
func holding(t *testing.T) (*pusher, *heldStore) {
	t.Helper()
	s := &heldStore{}
	p := newSettled(t, source.Options{}, many(3))
	p.stop()
	p.engine = func(e *Engine) { s.Store = e.Store; e.Store = s }
	p.follow()
	p.eventually("quiet", p.quiet)
	p.rig.mu.Lock()
	p.asks = nil
	p.rig.mu.Unlock()
	return p, s
}

// TestFetchedEarly: what is pushed is fetched while the commit of its want is under way, and recorded after it.
func TestFetchedEarly(t *testing.T) {
	t.Parallel()
	p, s := holding(t)
	served := make(chan struct{})
	p.interpose(func(w http.ResponseWriter, req *http.Request) bool {
		if req.URL.Path != "/a.txt" {
			return false
		}
		_, _ = w.Write([]byte("2"))
		close(served)
		return true
	})
	s.during = func(*store.Commit) error {
		<-served // or never
		if r, err := p.store.Resource(context.Background(), p.theSet().SourceID, p.src.URI("a.txt")); err != nil || r.Wants[0].Digests != merge.DigestOf(&r.Have) {
			t.Errorf("the row tells of it before its want: %+v, %v", r, err)
		}
		return nil
	}
	p.put("a.txt", "2")
	p.push()
	p.eventually("it is here", func() bool { return p.same() && p.quiet() })
	if docs, res := p.asked(); len(docs) != 0 || len(res) != 1 {
		t.Errorf("asked for %q and %q", docs, res)
	}
	p.equal()
}

// inVain has the first commits of a notification fail, each after /a.txt was fetched, and the notification taken up again so much
// later. It returns how many were tried.
func (p *pusher) inVain(s *heldStore, fail int64, again time.Duration) (tries *atomic.Int64) {
	p.failed = func(at Work, err error) {
		if at == WorkNotify {
			p.later(WorkNotify, p.eng.Now().Add(again))
		}
	}
	fetched := make(chan struct{})
	var once sync.Once
	p.interpose(func(_ http.ResponseWriter, req *http.Request) bool {
		if req.URL.Path == "/a.txt" {
			once.Do(func() { close(fetched) })
		}
		return false
	})
	tries = new(atomic.Int64)
	s.during = func(*store.Commit) error {
		<-fetched
		if tries.Add(1) <= fail {
			return fmt.Errorf("test: %w", store.ErrFull)
		}
		return nil
	}
	return tries
}

// TestEarlyInVain: where the commit of a want fails after its resource was fetched, nothing of it is recorded as if it had been
// wanted, and the notification brings it when it is taken up again.
func TestEarlyInVain(t *testing.T) {
	t.Parallel()
	p, s := holding(t)
	tries := p.inVain(s, 2, 0)
	p.put("a.txt", "2")
	p.push()
	p.eventually("it is here", func() bool { return p.same() && p.quiet() })
	if tries.Load() < 3 {
		t.Errorf("the commit was tried %d times", tries.Load())
	}
	p.equal()
}

// TestEarlyInVainOfADeleted: a resource that was deleted is made again, and the commit of its want fails after it was fetched. It
// does not get its name before that commit is made: by its row it would have to go again (P5).
func TestEarlyInVainOfADeleted(t *testing.T) {
	t.Parallel()
	p, s := holding(t)
	p.src.Delete("a.txt")
	p.put("b.txt", "so that the list goes on")
	p.taken()
	p.pull(false)
	p.eventually("it is gone", func() bool { return p.same() && p.quiet() })
	before := len(p.trashed())
	tries := p.inVain(s, 1, 200*time.Millisecond) // there is time for what was fetched
	p.put("a.txt", "again")
	p.push()
	p.eventually("it is here", func() bool { return p.same() && p.quiet() })
	if tries.Load() < 2 {
		t.Errorf("the commit was tried %d times", tries.Load())
	}
	if now := p.trashed(); len(now) > before {
		t.Errorf("it came and went: %+v", now[before:])
	}
}
