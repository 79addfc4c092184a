package transfer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/store"
)

// TestSetAside: a transfer is broken off once nothing was heard of it for far longer than usual, while it is the peer that is
// waited for, and not more of them than a small part.
func TestSetAside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var as attempts
		begin := func(length int64, patient bool) *attempt {
			a := as.begin(t.Context(), nil, patient)
			a.silence.large = length >= asideBody
			return a
		}
		off := func(a *attempt) bool { return errors.Is(context.Cause(a.ctx), errAside) }
		end := func(a *attempt, err error) {
			a.silence.end(err)
			as.end(a)
		}
		well := func(silence time.Duration) {
			a := begin(-1, false)
			a.silence.waits(true, time.Now())
			<-time.After(silence)
			end(a, nil)
		}
		unknown := begin(-1, false)
		unknown.silence.waits(true, time.Now())
		<-time.After(asideFirst - 1)
		if as.setAside(1); off(unknown) {
			t.Error("too early, while nothing is known of the Source")
		}
		<-time.After(2)
		if as.setAside(1); !off(unknown) {
			t.Error("not set aside, while nothing is known of the Source")
		}
		end(unknown, errAside)
		for range asideShare { // which make up for one
			well(50 * time.Millisecond)
		}
		pausing := begin(-1, false)
		pausing.silence.waits(true, time.Now())
		pausing.silence.waits(false, time.Now())
		dripping := begin(-1, false)
		dripping.silence.waits(true, time.Now())
		large := begin(asideBody, false)
		large.silence.waits(true, time.Now())
		large.silence.waits(false, time.Now())
		large.silence.waits(true, time.Now())
		hung := begin(-1, false)
		hung.silence.waits(true, time.Now())
		for range 6 {
			dripping.silence.waits(false, time.Now())
			dripping.silence.waits(true, time.Now())
			<-time.After(100 * time.Millisecond)
			as.setAside(1)
		}
		if off(pausing) || off(dripping) || off(large) || !off(hung) {
			t.Errorf("set aside: one in a pause of ours %v, one that moves %v, a large one in its midst %v, one that hangs %v",
				off(pausing), off(dripping), off(large), off(hung))
		}
		end(pausing, nil)
		end(dripping, nil)
		end(large, context.Canceled)
		end(hung, errAside)
		for range asideShare - 2 - 1 { // with the two above, one too few
			well(50 * time.Millisecond)
		}
		again := func() bool {
			a := begin(-1, false)
			a.silence.waits(true, time.Now())
			<-time.After(time.Second)
			as.setAside(1)
			defer end(a, errAside)
			return off(a)
		}
		if again() {
			t.Error("more than one in so many was set aside")
		}
		well(50 * time.Millisecond)
		if !again() {
			t.Error("not set aside although so many went well")
		}
		before := as.usual
		waited := begin(-1, true)
		waited.silence.waits(true, time.Now())
		<-time.After(time.Minute)
		as.setAside(16)
		if end(waited, nil); as.usual <= before {
			t.Error("one that was waited for teaches nothing")
		}
	})
}

// TestSlowPlaces: what hangs is worked on after the others and holds but a part of the places, unless nothing else can come.
func TestSlowPlaces(t *testing.T) {
	t.Parallel()
	rows := func(n int, class string) (rs []*store.Resource) {
		for i := range n {
			rs = append(rs, &store.Resource{ID: int64(i), Work: store.Work{Class: class}})
		}
		return rs
	}
	c := &conductor{r: &Reconciler{s: &Site{Workset: NewWorkset(), Now: time.Now}, workers: 16}, dry: true}
	if c.queue = c.apart(append(rows(20, classSilent), rows(1, "transient")...)); len(c.queue) != 1 || len(c.slow) != 20 {
		t.Fatalf("%d queued, %d apart", len(c.queue), len(c.slow))
	}
	begin := func() (slow int) {
		for {
			a := c.next(t.Context())
			if a != nil && !a.patient {
				c.queue, c.active = append(c.queue, a.res), c.active-1
			}
			if a == nil || !a.patient {
				return c.attempts.slow
			}
		}
	}
	if n := begin(); n != 0 {
		t.Errorf("%d of 16 places before others that wait", n)
	}
	c.r.s.Follows = true
	if n := begin(); n != 1 {
		t.Errorf("%d of 16 places beside others that may always wait", n)
	}
	c.queue = nil
	if n := begin(); n != 4 {
		t.Errorf("%d of 16 places while others may come", n)
	}
	c.r.s.Follows = false
	if n := begin(); n != 16 || len(c.slow) != 4 {
		t.Errorf("%d of 16 places when no others come, %d left", n, len(c.slow))
	}
	if many := c.apart(rows(2*duePage, classSilent)); len(c.slow) != duePage || len(many) != duePage+4 {
		t.Errorf("%d are remembered, %d are not", len(c.slow), len(many))
	}
}
