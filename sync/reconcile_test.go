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
