package transfer

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"resyncd/store"
	"resyncd/sync/parsed"
)

// page fills the queue. At the end of the rows in the store it begins anew if wants came in meanwhile.
func (c *conductor) page(ctx context.Context) error {
	w := c.r.s
	if c.r.IsHalted() {
		w.drop()
		w.end(c.queue...)
		w.end(c.slow...)
		c.slow, c.queue, c.dry, c.again = nil, nil, true, false
		return nil
	}
	if err := c.hear(ctx); err != nil {
		return err
	}
	if c.takeReady(); !c.wants() {
		return nil
	}
	if len(c.queue) == 0 {
		w.Rows.Lock()
	} else if !w.Rows.TryLock() {
		return nil // Rows is held for as long as the disk takes, and the workers still have work
	}
	defer w.Rows.Unlock()
	c.takeReady()
	for had := len(c.queue); c.wants() && len(c.queue) <= had; {
		if c.dry {
			c.dry, c.again, c.after = false, false, 0
		}
		rs, err := w.Store.Due(ctx, store.DueQuery{
			SourceID: w.SourceID, Action: store.ActionFetch, Now: w.LocalNow(), After: c.after, Limit: duePage,
		})
		if err != nil {
			return err
		}
		if len(rs) == 0 {
			c.dry, c.again = true, c.again && c.after > 0
			continue
		}
		c.after = rs[len(rs)-1].ID
		c.queue = append(c.queue, c.apart(w.Begin(rs))...)
	}
	return nil
}

// wants tells whether to page. Rows in flight still look due, and a run that ends would page in circles.
func (c *conductor) wants() bool {
	return len(c.queue) <= queueLow && (!c.dry || c.again && (c.r.s.Follows || c.idle())) && !c.r.s.isHeld()
}

// hear takes what was announced, as far as the queue has room: a fast hub must not fill it without bound.
func (c *conductor) hear(ctx context.Context) error {
	for len(c.queue) < queueMost {
		urgent, ids, all := c.r.s.Hear()
		if len(urgent) > 0 {
			c.queue = append(c.apart(urgent), c.queue...)
		}
		if all {
			c.dry, c.again = false, true // new rows have new ids: the paging goes on
		}
		if len(ids) == 0 {
			return nil
		}
		if err := c.pageNamed(ctx, ids); err != nil || len(c.queue) > 0 {
			return err
		}
	}
	return nil
}

func (c *conductor) pageNamed(ctx context.Context, ids []int64) error {
	slices.Sort(ids)
	w := c.r.s
	w.Rows.Lock()
	defer w.Rows.Unlock()
	rs, err := w.Store.ByIDs(ctx, slices.Compact(ids))
	if err != nil {
		return err
	}
	now := w.LocalNow()
	fetches := slices.DeleteFunc(rs, func(r *store.Resource) bool {
		switch r.Work.Action {
		case store.ActionRemove:
			w.Removals()
		case store.ActionNone:
			w.landed(r.ID, false)
		}
		return r.Work.Action != store.ActionFetch || !r.Work.IsDue(now)
	})
	c.queue = append(c.apart(w.Begin(fetches)), c.queue...)
	return nil
}

func (c *conductor) takeReady() {
	if len(c.queue) > queueLow {
		return
	}
	rows, again := c.r.s.TakeReady(duePage)
	if c.queue = append(c.queue, rows...); again {
		c.dry, c.again = false, true
	}
}

// arm plans the next look. Rows in flight count as due, so looks have a least distance.
func (c *conductor) arm(ctx context.Context) error {
	if c.look.armed || !c.dry {
		return nil
	}
	wait := forEver
	if c.r.IsHalted() {
		c.look.relax = min(max(2*c.look.relax, relaxFirst), relaxMost)
		wait = c.look.relax
	} else if next, err := c.r.s.Store.NextDue(ctx, c.r.s.SourceID); err != nil {
		return err
	} else if next.Known() {
		now, first := c.r.s.LocalNow(), store.Work{Due: next}
		// A clock that is set back must not hold work up for ever (F15).
		wait = min(time.Duration(next-now)*time.Microsecond, 30*time.Second)
		if first.IsDue(now) {
			wait = 0
		}
		// Counted from the last look, or pushes would put off owed work.
		wait = max(wait, time.Until(c.look.last.Add(lookAtLeast)))
	}
	c.look.timer.Reset(wait)
	c.look.armed = true
	return nil
}

// lookAgain pages through due rows, and probes a failed disk. A full disk may wait for removals.
func (c *conductor) lookAgain(ctx context.Context) {
	c.r.s.Removals()
	if c.r.IsHalted() {
		if err := c.r.probe(ctx); err != nil {
			c.r.s.Log.Warn("the mirror still cannot take files; it is tried again", "err", err)
			return
		}
		c.r.resume()
	}
	c.look.relax = 0
	c.look.last = time.Now()
	c.dry, c.again, c.after = false, false, 0
}

// While others wait, a transfer that stays silent far longer than usual is broken off and tried again later. Those that
// hang get only a part of the places (P11).
const (
	asideTimes = 10 // the usual silence
	asideLeast = 250 * time.Millisecond
	asideFirst = 2 * time.Second // while the usual is unknown
	// asideShare: a Source that is slow as a whole must not be asked twice.
	asideShare = 16
	asideLook  = 50 * time.Millisecond
	usualOf    = 16
	asideBody  = 1 << 20
)

var errAside = errors.New("set aside for others: nothing came for too long")

type attempt struct {
	ctx     context.Context // of the transfer that may be broken off
	cancel  context.CancelCauseFunc
	res     *store.Resource
	batch   []*store.Resource // asked for with one request; they come back to the queue
	patient bool              // set aside once, or known to hang
	offer   *Offer
	failed  error        // why the Source itself did not bring it
	link    *parsed.Link // of the transport that is tried; nil: it needs none
	// duplicates are those not tried yet, nil before any is.
	duplicates []parsed.Link
	body       body
	silence    silence
}

// silence is how long a transfer waits for its peer. Its worker writes it; the conductor reads only since meanwhile.
type silence struct {
	began  time.Time
	since  atomic.Int64 // ns from began to the current wait, if that may be broken off; 0: none
	from   time.Time    // of the current wait
	most   time.Duration
	held   bool // never broken off
	large  bool // not broken off once something came
	worked bool
}

// waits records each wait for the peer, called by the download's goroutine only.
func (s *silence) waits(begins bool, at time.Time) {
	if begins {
		if s.from = at; !s.held {
			s.since.Store(max(int64(at.Sub(s.began)), 1))
		}
		return
	}
	if s.since.Store(0); !s.from.IsZero() {
		s.most, s.from = max(s.most, at.Sub(s.from)), time.Time{}
		s.held = s.held || s.large
	}
}

func (s *silence) end(err error) {
	s.waits(false, time.Now())
	s.worked = err == nil
}

// attempts are those under way.
type attempts struct {
	all   map[*attempt]struct{}
	slow  int // patient ones
	usual time.Duration
	known bool
	spent float64 // transfers set aside, less successes since
}

func (as *attempts) begin(ctx context.Context, res *store.Resource, patient bool) *attempt {
	a := &attempt{res: res, patient: patient, silence: silence{began: time.Now(), held: patient}}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	if as.all == nil {
		as.all = map[*attempt]struct{}{}
	}
	if as.all[a] = struct{}{}; patient {
		as.slow++
	}
	return a
}

func (as *attempts) end(a *attempt) {
	a.cancel(nil)
	if delete(as.all, a); a.patient {
		as.slow--
	}
	if s := &a.silence; s.worked {
		if !as.known {
			as.known, as.usual = true, s.most
		}
		as.usual += (s.most - as.usual) / usualOf
		as.spent = max(as.spent-1.0/asideShare, 0)
	}
}

func (as *attempts) setAside(places int) {
	limit := asideFirst
	if as.known {
		limit = max(asideTimes*as.usual, asideLeast)
	}
	for a := range as.all {
		if as.spent+1 > float64(places) {
			return
		}
		since := a.silence.since.Load()
		if since > 0 && time.Since(a.silence.began)-time.Duration(since) >= limit && a.ctx.Err() == nil {
			a.cancel(errAside)
			as.spent++
		}
	}
}

// slowPlaces is how many places resources that hang may hold. A Follower leaves some for those that may come.
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

func (r *Reconciler) triedBefore(res *store.Resource) (failed bool) {
	if res.Work.Attempts > 0 {
		r.tallied(func(t *tally) { failed = t.failing.Has(res.ID) })
	}
	return failed
}

// givesUp tells whether the time for retries is over. A new want, or a failure of the disk, keeps a resource due.
func (r *Reconciler) givesUp(res *store.Resource) bool {
	if res.Work.Class == classDisk || !r.triedBefore(res) {
		return false
	}
	var until time.Time
	r.tallied(func(t *tally) { until = t.until })
	return !until.IsZero() && r.s.Now().After(until)
}

func (c *conductor) next(ctx context.Context) *attempt {
	for !c.choked() {
		from := &c.queue
		if len(c.slow) > 0 && c.attempts.slow < c.slowPlaces() {
			from = &c.slow
		}
		if len(*from) == 0 {
			return nil
		}
		res := (*from)[0]
		if *from = (*from)[1:]; c.r.givesUp(res) {
			c.r.s.end(res)
			continue
		}
		c.active++
		a := c.attempts.begin(ctx, res, from == &c.slow)
		if c.r.s.Means.Batch != "" {
			c.gather(a)
		}
		return a
	}
	return nil
}

func (c *conductor) ended(o *outcome) {
	c.active--
	c.attempts.end(o.attempt)
	if len(o.attempt.batch) > 0 {
		c.answered(o.attempt)
		return
	}
	if o.attempt = nil; o.aside {
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
	if !w.is(res.ID, touched) {
		c.slow = append(c.slow, res)
		return
	}
	w.end(res)
	w.Name([]int64{res.ID})
}

func (c *conductor) apart(rs []*store.Resource) []*store.Resource {
	return slices.DeleteFunc(rs, func(r *store.Resource) bool {
		hangs := r.Work.Class == classSilent && len(c.slow) < duePage
		if hangs {
			c.slow = append(c.slow, r)
		}
		return hangs
	})
}

func (c *conductor) crowded() bool { return len(c.queue) > 0 && c.active >= c.r.workers }
