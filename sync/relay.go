package sync

import (
	"sync"
	"time"

	"resyncd/store"
)

const (
	// relayed is how many jobs a conductor leaves to be taken while it waits, and relayLow how few of them are left when it is
	// woken for more.
	relayed  = 64
	relayLow = 16
	// relayLull is for how long at most it does not look at what ended meanwhile.
	relayLull = 5 * time.Millisecond
)

// relay is where a worker that is done leaves its outcome and takes its next job, without the conductor. From a Source that
// answers within a moment each small resource is a few hundred microseconds of work, and to wake the conductor for its outcome and
// the worker for another job was some 2 % of a first catch-up.
type relay struct {
	mu   sync.Mutex
	rows []*store.Resource // to be taken
	done []*outcome        // one for each that was
	low  chan struct{}     // told when few are left

	spare []*outcome // the conductor's, for done
}

func newRelay() *relay { return &relay{low: make(chan struct{}, 1)} }

// next trades an outcome for a job, as long as there are any. What tells of a disk that failed ends that for all.
func (l *relay) next(o *outcome) (job, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.disk != nil {
		l.rows = nil
	}
	if len(l.rows) == 0 {
		return job{}, false
	}
	j := job{res: l.rows[0]}
	l.rows = l.rows[1:]
	l.done = append(l.done, o)
	if len(l.rows) == relayLow {
		select {
		case l.low <- struct{}{}:
		default:
		}
	}
	return j, true
}

// offer leaves jobs to be taken until recall. Only workers that are busy take any, so all that may be are.
func (c *conductor) offer() {
	if !c.r.under.brisk.Load() || len(c.queue) <= relayLow || c.active < c.busy() || c.choked() ||
		len(c.slow) > 0 && c.slowActive < c.slowPlaces() {
		return
	}
	l := c.relay
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows = c.queue[:min(len(c.queue), relayed)]
	c.lull.Reset(relayLull)
}

// recall takes back what was left, and what came of the rest. Afterwards all is as if the conductor had handed out each of them.
func (c *conductor) recall() {
	l := c.relay
	l.mu.Lock()
	done := l.done
	l.rows, l.done = nil, l.spare
	l.mu.Unlock()
	c.queue = c.queue[len(done):]
	c.active += len(done)
	for _, o := range done {
		c.ended(o)
	}
	clear(done)
	l.spare = done[:0]
}
