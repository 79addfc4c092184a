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
		var ts transfers
		next := ts.watches(t.Context()) // of a worker that has had many
		off := func(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errAside) }
		well := func(silence time.Duration) {
			ctx, u := ts.begin(next, time.Now(), -1, false)
			if ctx.Err() != nil {
				t.Error("begun under the context of one that was broken off")
			}
			u.waiting(true, time.Now())
			<-time.After(silence)
			ts.end(u, time.Now(), nil)
		}
		unknown, first := ts.begin(ts.watches(t.Context()), time.Now(), -1, false)
		first.waiting(true, time.Now())
		<-time.After(asideFirst - 1)
		if ts.setAside(1); off(unknown) {
			t.Error("too early, while nothing is known of the Source")
		}
		<-time.After(2)
		if ts.setAside(1); !off(unknown) {
			t.Error("not set aside, while nothing is known of the Source")
		}
		ts.end(first, time.Now(), errAside)
		for range asideShare { // which make up for one
			well(50 * time.Millisecond)
		}
		ours, pausing := ts.begin(ts.watches(t.Context()), time.Now(), -1, false)
		pausing.waiting(true, time.Now())
		pausing.waiting(false, time.Now())
		alive, dripping := ts.begin(ts.watches(t.Context()), time.Now(), -1, false)
		costly, large := ts.begin(ts.watches(t.Context()), time.Now(), asideBody, false)
		large.waiting(true, time.Now())
		large.waiting(false, time.Now())
		large.waiting(true, time.Now())
		silent, hung := ts.begin(ts.watches(t.Context()), time.Now(), -1, false)
		hung.waiting(true, time.Now())
		for range 6 {
			dripping.waiting(false, time.Now())
			dripping.waiting(true, time.Now())
			<-time.After(100 * time.Millisecond)
			ts.setAside(1)
		}
		if off(ours) || off(alive) || off(costly) || !off(silent) {
			t.Errorf("set aside: one in a pause of ours %v, one that moves %v, a large one in its midst %v, one that hangs %v",
				off(ours), off(alive), off(costly), off(silent))
		}
		ts.end(pausing, time.Now(), nil)
		ts.end(dripping, time.Now(), nil)
		ts.end(large, time.Now(), context.Canceled)
		ts.end(hung, time.Now(), errAside)
		for range asideShare - 2 - 1 { // with the two above, one too few
			well(50 * time.Millisecond)
		}
		again := func() bool {
			ctx, u := ts.begin(next, time.Now(), -1, false)
			u.waiting(true, time.Now())
			<-time.After(time.Second)
			ts.setAside(1)
			ts.end(u, time.Now(), errAside)
			return off(ctx)
		}
		if again() {
			t.Error("more than one in so many was set aside")
		}
		well(50 * time.Millisecond)
		if !again() {
			t.Error("not set aside although so many went well")
		}
		before := ts.usual
		_, u := ts.begin(ts.watches(t.Context()), time.Now(), -1, true)
		u.waiting(true, time.Now())
		<-time.After(time.Minute)
		ts.setAside(16)
		if ts.end(u, time.Now(), nil); ts.usual <= before {
			t.Error("one that was waited for teaches nothing")
		}
	})
}

// TestBusy: a Source that answers at once keeps its places busy with a worker each, and one more for each that waits to ask again,
// as far as there are more; of one that takes its time all workers ask.
func TestBusy(t *testing.T) {
	t.Parallel()
	r := &Reconciler{s: &Site{Means: Means{Concurrency: 8}}, workers: Workers(8)}
	c := conductor{r: r}
	next := r.under.watches(t.Context())
	answer := func(after time.Duration, times int) {
		for range times {
			_, u := r.under.begin(next, time.Now(), -1, false)
			u.waiting(true, u.began)
			u.waiting(false, u.began.Add(after))
			r.under.end(u, u.began.Add(after), nil)
		}
	}
	is := func(when string, want int) {
		t.Helper()
		if n := c.busy(); n != want {
			t.Errorf("%s: %d are busy, want %d", when, n, want)
		}
	}
	is("nothing is known", 10)
	answer(brisk/4, 1)
	is("brisk", 8)
	for _, want := range []int{9, 10, 10} {
		r.under.resting(true)
		is("with some that rest", want)
	}
	for range 3 {
		r.under.resting(false)
	}
	answer(20*brisk, usualOf)
	is("slow by now", 10)
	answer(brisk/4, 8*usualOf)
	is("brisk again", 8)
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
			j, ok := c.next()
			if !ok || !j.patient {
				return c.slowActive
			}
			c.begun(j)
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
