package e2e_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"resyncd/destination/peer/source"
	"resyncd/destination/rsdoc"
)

// historyLost has a Source forget what it told: its Change Lists begin later than the mirror's position (F63); it begins
// from nothing, with another set of resources (F65, F73); it does so with a clock an hour ahead (F40, F74), and then with
// one that is right, so that all it said before lies in the future.
func historyLost(t *testing.T) {
	t.Parallel()
	o, m := newMisbehaving(t, 80, func(s *source.Options) { s.ChangeListSize, s.KeepChangeLists = 20, 2 })
	saw := o.annals.watchOver(o.mirror, 2*time.Millisecond)
	o.serveDaemon()
	o.pushed()
	rounds := 1
	if soak {
		rounds = 10
	}
	slowest := time.Duration(0)
	inStep := func() {
		took := o.converged(time.Minute)
		for range 5 {
			o.change()
		}
		slowest = max(slowest, took+o.converged(time.Minute))
	}
	for range rounds {
		o.rotateAway(m)
		inStep()
		o.beginAnew(m, time.Now)
		inStep()
		before := o.annals.living()
		o.beginAnew(m, func() time.Time { return time.Now().Add(time.Hour) })
		o.change()
		o.readAgain(m)
		o.unharmed(before) // no time of its is believed, and so nothing it lacks; what it tells is seen to all the same
		o.beginAnew(m, time.Now)
		inStep()
	}
	o.settled(30 * time.Second)
	reads := saw.quit(t)
	t.Logf("history lost %d times, %d requests, %d reads by the witness: %d of what was never published, older than before, or deleted unasked; in step within %s",
		4*rounds, m.requests.Load(), reads, len(saw.wrong), slowest.Round(time.Millisecond))
}

// readAgain waits until the daemon has read the Capability List and what it names.
func (o *ordeal) readAgain(m *mischief) {
	o.t.Helper()
	had := m.count(m.asked, capabilityList)
	o.until("the Source is read twice", 30*time.Second, func() bool { return m.count(m.asked, capabilityList) > had+2 })
}

// rotateAway makes more changes than the Change Lists keep while nobody hears of them.
func (o *ordeal) rotateAway(m *mischief) {
	o.t.Helper()
	m.begin(func(string, int) string { return "500" })
	for range 100 {
		o.change()
	}
	m.calm()
}

// beginAnew replaces the Source by one at the same place with another clock, that knows of no change before. Every tenth
// resource is not there any more, the others are new editions.
func (o *ordeal) beginAnew(m *mischief, now func() time.Time) {
	o.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	options := o.options
	options.Now = now
	fresh, err := source.New(ctx, options)
	if err != nil {
		cancel()
		o.t.Fatal(err)
	}
	o.src = fresh
	i := 0
	for uri := range o.annals.living() {
		if i++; i%10 == 0 {
			o.annals.heard(source.Change{URI: uri, Change: rsdoc.ChangeDeleted})
			continue
		}
		o.put(uri[len(o.base)+1:])
	}
	m.honest.Store(fresh)
	var running sync.WaitGroup
	running.Go(func() {
		if err := fresh.Run(ctx); err != nil {
			o.t.Error(fmt.Errorf("run the Source: %w", err))
		}
	})
	o.t.Cleanup(func() {
		cancel()
		running.Wait()
		if err := fresh.Close(); err != nil {
			o.t.Error(err)
		}
	})
}
