package sync

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"resyncd/destination/peer/source"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/sync/coverage"
)

// A pushed change is in the mirror without a pull, and the Source was asked for nothing but that resource.
func TestPush(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(5))
	p.taken()
	if r := p.pull(false); !r.InStep || r.Fetched != 5 {
		t.Fatalf("the first pull: %+v", r)
	}
	p.put("a.txt", "created")
	p.put("d0/r000.txt", "updated")
	p.push() // the first one after a pull: a hole before it, that a list shows to be none
	p.eventually("both changes are here", p.same)
	p.eventually("quiet", p.quiet)
	p.mu.Lock()
	p.gaps = nil
	p.mu.Unlock()
	p.rig.mu.Lock()
	p.asks = nil
	p.rig.mu.Unlock()
	for i := range 20 {
		p.put("a.txt", fmt.Sprintf("version %d", i))
		p.push()
		p.eventually("the change is here", p.same)
	}
	p.eventually("quiet", p.quiet)
	if docs, res := p.asked(); len(docs) != 0 || len(res) != 20 {
		t.Errorf("asked for %d documents and %d resources: %q", len(docs), len(res), docs)
	}
	if len(p.listed()) != 0 {
		t.Errorf("gaps: %+v", p.listed())
	}
	if r := p.pull(false); !r.InStep || r.Fetched != 0 || r.GapsFound != 0 {
		t.Errorf("a pull after pushes: %+v", r)
	}
	p.equal()
}

// A deletion by push is carried out when the Source itself says that the resource is gone (P5).
func TestPushedDeletion(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(3))
	p.taken()
	p.pull(false)
	if !p.src.Delete("d0/r000.txt") {
		t.Fatal("nothing to delete")
	}
	p.push()
	p.eventually("the file is gone", p.same)
	p.eventually("quiet", p.quiet)

	// The same for one that the Source still serves: it stays, and a pull follows.
	_, iv := p.taken()
	iv.Until = p.theSetUntil() + 1000
	lie := []source.Change{{URI: p.src.URI("d1/r001.txt"), Change: rsdoc.ChangeDeleted, Datetime: iv.Until}}
	p.from = iv.Until
	p.deliver(iv, p.document(iv, lie), true)
	p.eventually("quiet", p.quiet)
	if !p.same() {
		t.Error("a deletion that the Source denies was carried out")
	}
	if r := p.pull(false); !r.InStep {
		t.Errorf("after the lie: %+v", r)
	}
	p.equal()
}

func (p *pusher) theSetUntil() rsdoc.Micros {
	set := p.theSet()
	c := coverage.Coverage{Floor: set.Floor, Proven: set.Proven, Joint: set.Joint}
	return rsdoc.Micros(c.Position())
}

// A lost notification is a gap that the Change List closes, without a baseline (F34).
func TestLostNotification(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, many(3))
	baselines := p.theSet().Baselines
	p.put("lost.txt", "2")
	p.taken()
	p.put("seen.txt", "3")
	p.push()
	p.eventually("the lost change is here", p.same)
	p.eventually("quiet", p.quiet)
	gaps := p.listed()
	if len(gaps) != 1 || gaps[0].State != store.GapClosed || gaps[0].ClosedBy != coverage.ByChangeList {
		t.Errorf("gaps: %+v", gaps)
	}
	if n := p.theSet().Baselines; n != baselines {
		t.Errorf("%d baselines for a gap that the Change List covers", n-baselines)
	}
	p.eventually("the miss is counted", func() (counted bool) { // the pull that closed the gap may not have ended yet
		p.locked(func() { counted = p.missed == 1 })
		return counted
	})
}

// Notifications out of order close the hole by themselves, and the last version stays (F36, F38).
func TestReordered(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, many(3))
	p.interpose(func(w http.ResponseWriter, r *http.Request) bool { // no list helps
		if r.URL.Path != "/a.txt" {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	p.put("a.txt", "2")
	c1, iv1 := p.taken()
	p.put("a.txt", "3")
	c2, iv2 := p.taken()
	p.deliver(iv2, p.document(iv2, c2), true)
	p.deliver(iv1, p.document(iv1, c1), true)
	p.deliver(iv2, p.document(iv2, c2), true)
	p.eventually("the newest version is here", p.same)
	p.eventually("quiet", p.quiet)
	for _, g := range p.listed() {
		if g.State != store.GapClosed || g.ClosedBy != coverage.ByNotification {
			t.Errorf("gap: %+v", g)
		}
	}
}

// What is acknowledged before a kill is applied after it (P4): the inbox and the gaps are in the store.
func TestFollowAgain(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, many(3))
	p.put("lost.txt", "2")
	p.taken()
	p.put("b.txt", "3")
	c, iv := p.taken()
	body := p.document(iv, c)
	p.stop()
	p.with(func(e *Engine, target Target) {
		p.store = e.Store
		p.deliver(iv, body, true)
	})
	p.follow()
	p.later(WorkNotify, time.Now())
	p.later(WorkPull, time.Now())
	p.eventually("both changes are here", p.same)
	p.eventually("quiet", p.quiet)
}

// An unsigned notification is a hint: it proves nothing and a pull follows at once (S-87).
func TestUnsigned(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(3))
	p.taken()
	p.pull(false)
	before := p.theSetUntil()
	p.put("a.txt", "1")
	c, iv := p.taken()
	iv.Until = never / 4
	p.deliver(iv, p.document(iv, c), false)
	p.eventually("the change was pulled", p.same)
	if after := p.theSetUntil(); after > rsdoc.MicrosOf(time.Now()) || after < before {
		t.Errorf("an unsigned notification moved the position from %v to %v", before, after)
	}
}

// Signed lies delay a change to the next pull at most (P9).
func TestSignedLies(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, many(3))
	at := rsdoc.MicrosOf(time.Now())
	forged := []source.Change{
		{URI: p.src.URI("d0/r000.txt"), Change: rsdoc.ChangeUpdated, Datetime: at, Length: 7}, // no such bytes
		{URI: p.src.URI("nosuch.txt"), Change: rsdoc.ChangeCreated, Datetime: at + 1, Length: 9},
		{URI: p.src.URI("d1/r001.txt"), Change: rsdoc.ChangeDeleted, Datetime: at + 2},
		{URI: "http://elsewhere.example/x", Change: rsdoc.ChangeCreated, Datetime: at + 3},
		{URI: p.src.URI("future.txt"), Change: rsdoc.ChangeCreated, Datetime: at + 86400*1e6},
	}
	_, iv := p.taken()
	iv.Until = at + 3600*1e6 // fast forward
	p.deliver(iv, p.document(iv, forged), true)
	p.eventually("taken up", func() bool {
		n, err := waiting(p.store)
		return err == nil && n.Deliveries == 0
	})
	p.put("a.txt", "2") // hidden by the invented until
	p.taken()
	p.put("later.txt", "so that the list goes on")
	p.taken()
	p.pull(false)
	p.eventually("the mirror equals the Source", p.same)
	p.eventually("quiet", p.quiet)
}
