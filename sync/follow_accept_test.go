package sync

import (
	"bytes"
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"resyncd/destination/peer/source"
	"resyncd/store"
	"resyncd/sync/coverage"
)

// An index is no notification, whatever interval it names: a pull follows, and brings what it hid.
func TestIndexAsNotification(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(3))
	p.taken()
	p.pull(false)
	p.put("a.txt", "1")
	changes, iv := p.taken()
	body := bytes.ReplaceAll(p.document(iv, changes), []byte("urlset"), []byte("sitemapindex"))
	p.deliver(iv, body, true)
	p.eventually("the change was pulled", p.same)
}

// Pushed entries outside the scope are refused and listed; none is asked for (F51).
func TestPushOutsideScope(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(3))
	p.taken()
	p.pull(false)
	p.put("a.txt", "1")
	changes, iv := p.taken()
	foreign := changes[0]
	foreign.URI = "http://elsewhere.example/x"
	p.deliver(iv, p.document(iv, append(changes, foreign)), true)
	p.eventually("the change is here", p.same)
	p.eventually("quiet", p.quiet)
	counts, err := p.store.Counts(context.Background(), p.theSet().ID)
	if err != nil || counts.Refused != 1 || counts.Owed != 0 {
		t.Errorf("counts %+v, %v", counts, err)
	}
}

// Whoever asks for a pull has what is owed tried at once, and again for as long as was said.
func TestRequestedPullTriesOwed(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(3))
	p.taken()
	var broken atomic.Bool
	var asks atomic.Int32
	broken.Store(true)
	p.interpose(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/d0/r000.txt" {
			return false
		}
		asks.Add(1)
		if broken.Load() {
			http.Error(w, "no", http.StatusForbidden) // tried again after an hour only
			return true
		}
		return false
	})
	if r := p.pull(false); r.Owed != 1 {
		t.Fatalf("the first pull: %+v", r)
	}
	before := asks.Load()
	if r := p.pull(false); r.Owed != 1 || asks.Load() == before {
		t.Fatalf("owed work was not tried: %+v", r)
	}
	broken.Store(false)
	if r := p.pull(false); r.Owed != 0 || !r.InStep || r.Fetched != 1 {
		t.Errorf("mended: %+v", r)
	}
}

// A request waits for failures to be retried as long as it says.
func TestRequestedPullRetries(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(3))
	var asks atomic.Int32
	p.interpose(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/d0/r000.txt" && asks.Add(1) <= 5 {
			http.Error(w, "no", http.StatusInternalServerError)
			return true
		}
		return false
	})
	done, res := make(chan error, 1), Result{}
	p.f.RequestPull(PullRequest{RetryFor: 15 * time.Second, Ended: func(r Result) { res = r }, Done: func(err error) { done <- err }})
	p.later(WorkPull, time.Now())
	if err := <-done; err != nil || res.Owed != 0 || !res.InStep {
		t.Errorf("%+v, %v", res, err)
	}
}

// A change that a push has overtaken since is a gap all the same, closed by the list that tells of it.
func TestOvertakenLossIsAGap(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, many(3))
	p.put("b.txt", "lost")
	p.put("c.txt", "lost")
	p.taken()
	p.put("b.txt", "seen")
	p.put("c.txt", "seen")
	p.push()
	p.eventually("quiet", func() bool { return p.same() && p.quiet() })
	if gaps := p.listed(); len(gaps) != 1 || gaps[0].State != store.GapClosed || gaps[0].ClosedBy != coverage.ByChangeList {
		t.Errorf("gaps: %+v", gaps)
	}
}

// A notification of changes that calls itself one of documents hides nothing.
func TestMislabelledNotification(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(3))
	p.taken()
	p.pull(false)
	p.put("a.txt", "1")
	changes, iv := p.taken()
	p.deliver(iv, bytes.ReplaceAll(p.document(iv, changes), []byte("change-notification"), []byte("framework-notification")), true)
	p.eventually("the change was pulled", p.same)
}
