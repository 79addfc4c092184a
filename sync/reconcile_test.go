package sync

import (
	"testing"
	"time"

	"resyncd/store"
)

// The first group must not wait as long as later ones: runs that are killed after half a second would never get anywhere.
func TestFirstGroupIsClosedEarly(t *testing.T) {
	t.Parallel()
	c := conductor{r: &reconciler{}, active: 1, group: []*outcome{{}}, opened: time.Now().Add(-groupAge / 2)}
	if c.age = groupAgeFirst; !c.ripe() {
		t.Errorf("half of %s old, the first group is still open", groupAge)
	}
	if c.age = groupAge; c.ripe() {
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
		"files": func(c *conductor) { c.group = make([]*outcome, waitingGroups*groupFiles) },
		"bytes": func(c *conductor) { c.group, c.bytes = []*outcome{{}}, waitingGroups*groupBytes },
	} {
		for _, hangs := range []bool{false, true} {
			rows := []*store.Resource{{ID: 1}}
			c := conductor{r: &reconciler{workers: 16}, planned: true, placing: true}
			if hangs {
				c.slow = rows
			} else {
				c.queue = rows
			}
			if _, ok := c.next(); !ok {
				t.Errorf("%s: nothing is begun although nothing waits", name)
			}
			if fill(&c); c.choked() {
				if _, ok := c.next(); ok {
					t.Errorf("%s: more is begun although the disk is far behind", name)
				}
			} else {
				t.Errorf("%s: the disk may be further behind than that", name)
			}
			c.placing = false
			if _, ok := c.next(); !ok {
				t.Errorf("%s: nothing is begun although the disk has caught up", name)
			}
		}
	}
}

// TestQueueIsFilledBeforeItIsEmpty: what was handed on is taken while there is something to do still, unless somebody else has
// the lock, for as long as the disk may take to record a group.
func TestQueueIsFilledBeforeItIsEmpty(t *testing.T) {
	t.Parallel()
	f := newFlight()
	c := conductor{r: &reconciler{s: &session{flight: f}}, dry: true, queue: []*store.Resource{{ID: 1}}}
	c.handed = f.receive()
	f.handOn([]*store.Resource{{ID: 2}, {ID: 3}})
	f.mu.Lock()
	if err := c.page(t.Context()); err != nil || len(c.queue) != 1 {
		t.Errorf("beside a commit: %d queued, %v", len(c.queue), err)
	}
	f.mu.Unlock()
	if err := c.page(t.Context()); err != nil || len(c.queue) != 3 {
		t.Errorf("%d queued, %v", len(c.queue), err)
	}
}

// TestLastOnesAreNotWaitedFor: once no more is left than what is here, that is placed meanwhile.
func TestLastOnesAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	last := func(change func(c *conductor)) *conductor {
		c := &conductor{
			r: &reconciler{}, planned: true, dry: true, active: 16, queue: make([]*store.Resource, halfFiles-16),
			group: make([]*outcome, halfFiles), opened: time.Now(), age: groupAge,
		}
		change(c)
		return c
	}
	if c := last(func(*conductor) {}); !c.ripe() {
		t.Error("what is here waits for the last resources")
	}
	for name, change := range map[string]func(c *conductor){
		"more is left":        func(c *conductor) { c.queue = append(c.queue, &store.Resource{}) },
		"more may come":       func(c *conductor) { c.planned = false },
		"more may be owed":    func(c *conductor) { c.dry = false },
		"some are put aside":  func(c *conductor) { c.slow = []*store.Resource{{}} },
		"few are here":        func(c *conductor) { c.group, c.queue = c.group[1:], nil },
		"one is being placed": func(c *conductor) { c.placing = true },
	} {
		if c := last(change); c.ripe() {
			t.Errorf("%s: the group is closed", name)
		}
	}
}
