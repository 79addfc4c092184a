package transfer

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"resyncd/store"
	"resyncd/store/blob"
)

// siteOf is a Site of which nothing is heard.
func siteOf(w *Workset) *Site {
	return &Site{
		Workset: w, Now: time.Now, Log: slog.New(slog.DiscardHandler), Hint: func(int64) {}, Progress: func(Progress) {},
		Observe: Observer{Settled: func(Settled) {}, Removed: func(int64) {}, Halted: func(error) {}},
	}
}

// alone is a Reconciler with one worker.
func alone(s *Site, rested func()) *Reconciler {
	r := New(s, rested)
	r.workers = 1
	return r
}

// The first group must not wait as long as later ones: runs that are killed after half a second would never get anywhere.
func TestFirstGroupIsClosedEarly(t *testing.T) {
	t.Parallel()
	c := conductor{r: &Reconciler{s: &Site{Workset: NewWorkset(), Now: time.Now}}, active: 1, batch: group{outcomes: []*outcome{{}}, opened: time.Now().Add(-groupAge / 2)}}
	if c.batch.age = groupAgeFirst; !c.ripe() {
		t.Errorf("half of %s old, the first group is still open", groupAge)
	}
	if c.batch.age = groupAge; c.ripe() {
		t.Errorf("half of %s old, a later group is closed", groupAge)
	}
	if groupAgeFirst > groupAge/10 {
		t.Errorf("the first group waits for %s", groupAgeFirst)
	}
}

// TestSlowDiskIsWaitedFor: what was fetched while a group is placed does not pile up without bound (P8).
func TestSlowDiskIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string]func(c *conductor){
		"files": func(c *conductor) { c.batch.outcomes = make([]*outcome, waitingGroups*groupFiles) },
		"bytes": func(c *conductor) { c.batch.outcomes, c.batch.bytes = []*outcome{{}}, waitingGroups*groupBytes },
	} {
		for _, hangs := range []bool{false, true} {
			rows := []*store.Resource{{ID: 1}}
			c := conductor{r: &Reconciler{s: &Site{Workset: NewWorkset(), Now: time.Now}, workers: 16}, disk: disk{busy: true}}
			if hangs {
				c.slow = rows
			} else {
				c.queue = rows
			}
			if c.next(t.Context()) == nil {
				t.Errorf("%s: nothing is begun although nothing waits", name)
			}
			c.slow, c.queue = append(c.slow, rows...), append(c.queue, rows...)
			if fill(&c); c.choked() {
				if c.next(t.Context()) != nil {
					t.Errorf("%s: more is begun although the disk is far behind", name)
				}
			} else {
				t.Errorf("%s: the disk may be further behind than that", name)
			}
			c.disk.busy = false
			if c.next(t.Context()) == nil {
				t.Errorf("%s: nothing is begun although the disk has caught up", name)
			}
		}
	}
}

// TestQueueIsFilledBeforeItIsEmpty: what was handed over is taken while there is something to do still, also beside whoever
// holds the lock of the rows for as long as the disk takes to record a group.
func TestQueueIsFilledBeforeItIsEmpty(t *testing.T) {
	t.Parallel()
	w := NewWorkset()
	c := conductor{r: &Reconciler{s: &Site{Workset: w, Now: time.Now}}, queue: []*store.Resource{{ID: 1}}}
	w.Take()
	w.HandReady([]*store.Resource{{ID: 2}, {ID: 3}})
	w.Rows.Lock()
	if err := c.page(t.Context()); err != nil || len(c.queue) != 3 {
		t.Errorf("beside a commit: %d queued, %v", len(c.queue), err)
	}
	w.Rows.Unlock()
}

// TestLastOnesAreNotWaitedFor: once no more is left than what is here, that is placed meanwhile.
func TestLastOnesAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	last := func(change func(c *conductor)) *conductor {
		c := &conductor{
			r: &Reconciler{s: &Site{Workset: NewWorkset(), Now: time.Now}}, dry: true, active: 16, queue: make([]*store.Resource, halfFiles-16),
			batch: group{outcomes: make([]*outcome, halfFiles), opened: time.Now(), age: groupAge},
		}
		change(c)
		return c
	}
	if c := last(func(*conductor) {}); !c.ripe() {
		t.Error("what is here waits for the last resources")
	}
	for name, change := range map[string]func(c *conductor){
		"more is left":        func(c *conductor) { c.queue = append(c.queue, &store.Resource{}) },
		"more may come":       func(c *conductor) { c.r.Reading(true) },
		"more may be owed":    func(c *conductor) { c.dry = false },
		"some are put aside":  func(c *conductor) { c.slow = []*store.Resource{{}} },
		"few are here":        func(c *conductor) { c.batch.outcomes, c.queue = c.batch.outcomes[1:], nil },
		"one is being placed": func(c *conductor) { c.disk.busy = true },
	} {
		if c := last(change); c.ripe() {
			t.Errorf("%s: the group is closed", name)
		}
	}
}

// What a baseline wants is paged out of the store, never held in memory (P8).
func TestBaselineIsPaged(t *testing.T) {
	t.Parallel()
	w := NewWorkset()
	w.Follows = true
	r := alone(siteOf(w), func() {})
	c := conductor{r: r, dry: true}
	ids := make([]int64, 10_000)
	for range 100 {
		w.Name(ids)
		if len(w.named) > namedMost {
			t.Fatalf("%d rows are named", len(w.named))
		}
	}
	if err := c.hear(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.dry || !c.again {
		t.Error("nobody looks for the others")
	}
	if !w.takeRemovals(false) {
		t.Error("nobody looks for removals")
	}
}

// TestRoomIsTakenAtOnce: what waits for a full disk goes on when removals have made room, not when the disk would be tried next.
func TestRoomIsTakenAtOnce(t *testing.T) {
	t.Parallel()
	r := alone(siteOf(NewWorkset()), func() {})
	r.tally.halted = blob.ErrNoSpace
	c := &conductor{r: r, look: look{relax: relaxMost, armed: true}}
	if c.stir(); !c.look.armed || c.look.relax != relaxMost {
		t.Error("a push has a full disk tried again")
	}
	r.tally.halted = nil
	if c.stir(); c.look.armed {
		t.Error("what is owed waits")
	}
}

// A pull is concluded while the reconciler of its Follower goes on failing and mending: with -race, this tells of whoever counts
// what fails without the others' leave.
func TestConcludedBesideTheReconciler(t *testing.T) {
	t.Parallel()
	r := alone(siteOf(NewWorkset()), nil)
	var fails sync.WaitGroup
	fails.Go(func() {
		for id := range int64(2000) {
			r.count([]*outcome{
				{res: &store.Resource{ID: id << 15}, verdict: verdictFailed},
				{res: &store.Resource{ID: id << 14}, verdict: verdictFetched},
			})
		}
	})
	for range 200 {
		for id := range r.Failing().All() {
			_ = id
		}
	}
	fails.Wait()
}
