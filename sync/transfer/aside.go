package transfer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"resyncd/destination/fetch"
	"resyncd/store"
)

// A resource that hangs holds one of the Source's places until its time is out, half a minute or more, and a few percent of
// such ones would hold them all. There are no further places to be had: so many requests at once are what the Source was
// promised. So while others wait for a place, a transfer of which nothing has been heard for far longer than is usual at this
// Source is broken off, set aside, and tried again after the others, then for as long as it takes. That, and whatever the
// ledger knows to hang, never holds more than a part of the places (P11). Nothing of it is a failure, so the ledger hears
// nothing of it.
const (
	// asideTimes is how many times as long as usual a transfer must be silent, asideLeast how long at least, asideFirst
	// where nothing is known of the Source yet.
	asideTimes = 10
	asideLeast = 250 * time.Millisecond
	asideFirst = 2 * time.Second
	// asideShare: of so many transfers one may be set aside, beside one for each place at first. If more are slow that is how
	// the Source is now, and asking twice would only make it slower.
	asideShare = 16
	// asideLook is how often the silent ones are looked for while others wait.
	asideLook = 50 * time.Millisecond
	// usualOf is over about how many transfers the usual silence is averaged.
	usualOf = 16
	// brisk is a Source whose usual silence is shorter: there are more workers than it takes to keep its places busy.
	brisk = time.Millisecond
	// asideBody is from what listed length on a body that has begun to come is not broken off: it would begin anew.
	asideBody = 1 << 20
)

// errAside breaks a transfer off.
var errAside = errors.New("set aside for others: nothing came for too long")

// classSilent is the class of what was waited for in vain.
var classSilent = fetch.Stalled.String()

// job is a resource to be worked on.
type job struct {
	res *store.Resource
	// patient: it was set aside once, or the ledger knows that it hangs, and is waited for now.
	patient bool
}

// transfers are those under way that may be set aside. The zero value is ready.
type transfers struct {
	mu     sync.Mutex
	silent map[*transfer]struct{} // or not
	usual  time.Duration          // longest silence of a transfer, on average
	known  bool                   // usual is
	spent  float64                // how many were set aside, less those that went well since have made up for
	brisk  atomic.Bool            // usual is that short
	rests  atomic.Int32           // how many wait to ask again
}

// transfer is one download under way.
type transfer struct {
	cancel  context.CancelCauseFunc
	waiting func(begins bool, at time.Time) // waits
	resting func(begins bool)               // of transfers
	began   time.Time
	since   atomic.Int64 // how long after that a wait for the peer began, in ns; 0: there is none
	most    time.Duration
	dear    bool        // once it has begun to come
	comes   atomic.Bool // it has
}

// watch returns the transfer that a worker begins next, and the context to run it under.
type watch func() (context.Context, *transfer)

// watches is the watch of one worker. A transfer that went well leaves its context as it was, for the worker's next: to make
// and to cancel one for each was a twentieth of what a small download allocated. All end with ctx.
func (ts *transfers) watches(ctx context.Context) watch {
	var watched context.Context
	var t *transfer
	resting := ts.resting
	return func() (context.Context, *transfer) {
		if t == nil || watched.Err() != nil {
			t = new(transfer)
			t.waiting, t.resting = t.waits, resting
			watched, t.cancel = context.WithCancelCause(ctx)
		}
		return watched, t
	}
}

// begin watches a download of a listed length (-1: none) from began until end is called. The transfer's waiting is the
// Waiting of its requests. One that is patient only teaches what is usual.
func (ts *transfers) begin(next watch, began time.Time, length int64, patient bool) (watched context.Context, t *transfer) {
	watched, t = next()
	ts.mu.Lock() // already for what follows: one that ended in a panic is still among the silent
	defer ts.mu.Unlock()
	t.began, t.most, t.dear = began, 0, length >= asideBody
	t.since.Store(0)
	t.comes.Store(false)
	if ts.silent == nil {
		ts.silent = map[*transfer]struct{}{}
	}
	if !patient {
		ts.silent[t] = struct{}{}
	}
	return watched, t
}

// waits is told of each wait for the peer. Only the download's goroutine calls it.
func (t *transfer) waits(begins bool, at time.Time) {
	now := at.Sub(t.began)
	if begins {
		t.since.Store(max(int64(now), 1))
	} else if since := t.since.Swap(0); since > 0 {
		t.most = max(t.most, now-time.Duration(since))
		t.comes.Store(true)
	}
}

// resting is told of each pause before something is asked again. Any goroutine may call it.
func (ts *transfers) resting(begins bool) {
	if begins {
		ts.rests.Add(1)
	} else {
		ts.rests.Add(-1)
	}
}

// end learns from a download that ended.
func (ts *transfers) end(t *transfer, ended time.Time, err error) {
	t.waits(false, ended)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	delete(ts.silent, t)
	if err != nil {
		t.cancel(nil)
		return
	}
	if !ts.known {
		ts.known, ts.usual = true, t.most
	}
	ts.usual += (t.most - ts.usual) / usualOf
	if b := ts.usual < brisk; b != ts.brisk.Load() {
		ts.brisk.Store(b)
	}
	ts.spent = max(ts.spent-1.0/asideShare, 0)
}

// setAside breaks off those that were silent for too long, at so many places.
func (ts *transfers) setAside(places int) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	limit := asideFirst
	if ts.known {
		limit = max(asideTimes*ts.usual, asideLeast)
	}
	for t := range ts.silent {
		if ts.spent+1 > float64(places) {
			return
		}
		if since := t.since.Load(); since > 0 && !(t.dear && t.comes.Load()) && time.Since(t.began)-time.Duration(since) >= limit {
			t.cancel(errAside)
			delete(ts.silent, t)
			ts.spent++
		}
	}
}

// waitingGroups is how many groups' worth of outcomes may wait for the disk while one is being placed; then nothing more is
// begun. A group that may grow costs a slow disk fewer syncs, but each outcome about 2 KiB of memory and its bytes in the
// stage (P8). Where each sync took 1 s, 60,000 small resources took 23 s and 108 MiB without a bound, 29 and 92 with four
// groups, 37 and 72 with two, 65 and 72 with one; without a bound 150,000 took 410 MiB where it took 8 s.
const waitingGroups = 2

// choked: the disk is that far behind.
func (c *conductor) choked() bool {
	return c.placing && (len(c.batch.outcomes) >= waitingGroups*groupFiles || c.batch.bytes >= waitingGroups*groupBytes)
}

// next is what is worked on next, false for nothing.
func (c *conductor) next() (job, bool) {
	switch {
	case c.choked():
	case len(c.slow) > 0 && c.slowActive < c.slowPlaces():
		return job{c.slow[0], true}, true
	case len(c.queue) > 0:
		return job{c.queue[0], false}, true
	}
	return job{}, false
}

// slowPlaces is how many places those that hang may hold. In a run that ends: none as long as others wait, all once there are
// no others. In a Follower, where others may always wait, and may come at any moment: one in sixteen, and a quarter.
func (c *conductor) slowPlaces() int {
	n, follows := c.r.workers, c.r.s.Follows
	switch crowded := len(c.queue) > 0; {
	case crowded && follows:
		return min(max(n/16, 1), n/8)
	case crowded:
		return 0
	case !follows && !c.r.reading.Load():
		return n
	}
	return max(n/4, 1)
}

// busy is how many workers have something to do at once. One more than there are places checks and hands over what came while
// another asks; but where the Source answers within a moment it only waits for its place, and each of those waits cost as much as
// a hash. So there each place has one, and who waits to ask again, without a place, is replaced.
func (c *conductor) busy() int {
	r := c.r
	if !r.under.brisk.Load() {
		return r.workers
	}
	return min(r.workers, max(r.s.Means.Concurrency, 1)+int(r.under.rests.Load()))
}

// begun: a worker has taken a job.
func (c *conductor) begun(j job) {
	c.active++
	if j.patient {
		c.slow = c.slow[1:]
		c.slowActive++
	} else {
		c.queue = c.queue[1:]
	}
}

// ended: a worker is done with a job.
func (c *conductor) ended(o *outcome) {
	c.active--
	if o.patient {
		c.slowActive--
	}
	if o.aside {
		c.putAside(o.res)
	} else {
		c.collect(o)
	}
}

// putAside has a resource tried after the others, or at once if something else is wanted of it by now.
func (c *conductor) putAside(res *store.Resource) {
	w := c.r.s
	w.Rows.Lock()
	defer w.Rows.Unlock()
	switch {
	case !w.is(res.ID, touched):
		c.slow = append(c.slow, res)
		return
	case w.Follows:
		c.named = append(c.named, res.ID)
	default:
		c.dry, c.again = false, true
	}
	w.end(res)
}

// apart leaves those that are known to hang for later, as far as there is room to remember them.
func (c *conductor) apart(rs []*store.Resource) []*store.Resource {
	out := rs[:0]
	for _, r := range rs {
		if r.Work.Class == classSilent && len(c.slow) < duePage {
			c.slow = append(c.slow, r)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// crowded: all places are taken, and others wait for one.
func (c *conductor) crowded() bool { return len(c.queue) > 0 && c.active >= c.busy() }
