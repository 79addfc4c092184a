package sync

import (
	"testing"
	"time"
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
