package sync

import (
	"sync"
	"testing"
	"time"

	"resyncd/store"
)

// TestRelay: workers that serve themselves take each job once, and afterwards the conductor's books are as if it had handed out
// each of them itself.
func TestRelay(t *testing.T) {
	t.Parallel()
	const workers, jobs = 4, 1000
	r := &reconciler{s: &session{t: Target{Concurrency: workers}}, workers: workers}
	r.under.brisk.Store(true)
	outcomes := make(chan *outcome, workers)
	c := &conductor{r: r, outcomes: outcomes, relay: newRelay(), lull: time.NewTimer(forEver), ripens: time.NewTimer(forEver)}
	for i := range jobs {
		c.queue = append(c.queue, &store.Resource{ID: int64(i + 1)})
	}
	handed := make(chan job, workers)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for j := range handed {
				for more := true; more; {
					o := &outcome{res: j.res}
					if j, more = c.relay.next(o); !more {
						outcomes <- o
					}
				}
			}
		})
	}
	c.jobs = handed
	for {
		c.recall()
		c.handOut()
		if c.active == 0 && len(c.queue) == 0 {
			break
		}
		c.offer()
		select {
		case o := <-outcomes:
			c.recall()
			c.ended(o)
		case <-c.relay.low:
		case <-c.lull.C:
		}
	}
	close(handed)
	all.Wait()
	seen := map[int64]bool{}
	for _, o := range c.group {
		seen[o.res.ID] = true
	}
	if len(c.group) != jobs || len(seen) != jobs {
		t.Errorf("%d outcomes of %d resources, want %d", len(c.group), len(seen), jobs)
	}
}

// TestRelayHalts: nobody takes another job once a disk failed, and none is lost.
func TestRelayHalts(t *testing.T) {
	t.Parallel()
	r := &reconciler{s: &session{t: Target{Concurrency: 1}}, workers: 1}
	r.under.brisk.Store(true)
	c := &conductor{r: r, relay: newRelay(), lull: time.NewTimer(forEver), ripens: time.NewTimer(forEver), active: 1}
	for i := range 2 * relayed {
		c.queue = append(c.queue, &store.Resource{ID: int64(i + 1)})
	}
	c.offer()
	first, ok := c.relay.next(&outcome{res: &store.Resource{ID: 1000}})
	if !ok || first.res.ID != 1 {
		t.Fatalf("%v, %v", first, ok)
	}
	if _, ok := c.relay.next(&outcome{res: first.res, disk: errAside}); ok {
		t.Error("another job after a disk failed")
	}
	if _, ok := c.relay.next(&outcome{res: &store.Resource{ID: 1001}}); ok {
		t.Error("another job for another worker")
	}
	c.recall()
	if len(c.group) != 1 || c.active != 1 || len(c.queue) != 2*relayed-1 || c.queue[0].ID != 2 {
		t.Errorf("%d outcomes, %d at work, %d wait", len(c.group), c.active, len(c.queue))
	}
}
