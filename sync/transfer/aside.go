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

// While others wait for a place, a transfer that stays silent far longer than usual is broken off and tried again
// later: a few that hang would hold all places of the Source. Those that hang get only a part of the places (P11).
const (
	// A transfer is set aside after asideTimes the usual silence, asideLeast at least, asideFirst while the usual is
	// unknown.
	asideTimes = 10
	asideLeast = 250 * time.Millisecond
	asideFirst = 2 * time.Second
	// asideShare bounds the transfers set aside, to one of so many: a Source that is slow as a whole must not be asked
	// twice.
	asideShare = 16
	asideLook  = 50 * time.Millisecond
	usualOf    = 16
	brisk      = time.Millisecond
	asideBody  = 1 << 20
)

var errAside = errors.New("set aside for others: nothing came for too long")

var classSilent = fetch.Stalled.String()

type job struct {
	res *store.Resource
	// patient: set aside once, or known to hang.
	patient bool
}

type transfers struct {
	mu     sync.Mutex
	silent map[*transfer]struct{} // those that may be set aside
	usual  time.Duration
	known  bool
	spent  float64 // transfers set aside, less successes since
	brisk  atomic.Bool
	rests  atomic.Int32 // pauses before a repeated request
}

type transfer struct {
	cancel  context.CancelCauseFunc
	waiting func(begins bool, at time.Time)
	resting func(begins bool)
	began   time.Time
	since   atomic.Int64 // ns from began to the current wait for the peer; 0: none
	most    time.Duration
	dear    bool
	comes   atomic.Bool
}

type watch func() (context.Context, *transfer)

// watches reuses the context after a success: a new one for each small download costs too many allocations.
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

// begin watches a download until end. A patient one only teaches the usual silence.
func (ts *transfers) begin(
	next watch, began time.Time, length int64, patient bool,
) (watched context.Context, t *transfer) {
	watched, t = next()
	ts.mu.Lock() // first: a transfer that ended in a panic is still among the silent
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

// waits records each wait for the peer, called by the download's goroutine only.
func (t *transfer) waits(begins bool, at time.Time) {
	now := at.Sub(t.began)
	if begins {
		t.since.Store(max(int64(now), 1))
	} else if since := t.since.Swap(0); since > 0 {
		t.most = max(t.most, now-time.Duration(since))
		t.comes.Store(true)
	}
}

func (ts *transfers) resting(begins bool) {
	if begins {
		ts.rests.Add(1)
	} else {
		ts.rests.Add(-1)
	}
}

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
		if since := t.since.Load(); since > 0 && !(t.dear && t.comes.Load()) &&
			time.Since(t.began)-time.Duration(since) >= limit {
			t.cancel(errAside)
			delete(ts.silent, t)
			ts.spent++
		}
	}
}

// waitingGroups bounds the outcomes that wait for a slow disk, in groups: each takes about 2 KiB, and its bytes in the
// stage (P8).
const waitingGroups = 2

func (c *conductor) choked() bool {
	return c.placing &&
		(len(c.batch.outcomes) >= waitingGroups*groupFiles || c.batch.bytes >= waitingGroups*groupBytes)
}

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

// slowPlaces is how many places resources that hang may hold. A Follower always leaves places free, because others may
// come at any moment.
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

// busy is how many workers have work at once. At a brisk Source more workers than places would only wait, except for
// those that pause.
func (c *conductor) busy() int {
	r := c.r
	if !r.under.brisk.Load() {
		return r.workers
	}
	return min(r.workers, max(r.s.Means.Concurrency, 1)+int(r.under.rests.Load()))
}

func (c *conductor) begun(j job) {
	c.active++
	if j.patient {
		c.slow = c.slow[1:]
		c.slowActive++
	} else {
		c.queue = c.queue[1:]
	}
}

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

// putAside has a resource tried after the others, or at once if its want changed meanwhile.
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

func (c *conductor) crowded() bool { return len(c.queue) > 0 && c.active >= c.busy() }
