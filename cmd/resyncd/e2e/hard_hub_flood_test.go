package e2e_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"resyncd/destination/peer/hub/hubstate"
	"resyncd/destination/rsdoc"
	"resyncd/destination/websub"
)

// flood is thousands of posts of one kind, as fast as they go, and what they may cost the Source.
type flood struct {
	name string
	// post makes the n-th post of a hub that knows the secret or, with an answer of 4xx, of a stranger who does not.
	post     func(m *meddler, secret string, n int) parcel
	stranger bool
	pulls    int // a minute that it may cause
}

func floods() []flood {
	signed := func(tell func(m *meddler, n int) string) func(*meddler, string, int) parcel {
		return func(m *meddler, secret string, n int) parcel {
			body := []byte(tell(m, n))
			return parcel{header: http.Header{websub.SignatureHeader: {websub.Sign(websub.SHA256, secret, body)}}, body: body}
		}
	}
	large := []byte("<urlset>" + strings.Repeat("<x/>", 1<<19))
	now := func() rsdoc.Micros { return rsdoc.MicrosOf(time.Now()) }
	return []flood{
		// Once a minute a notification with a bad signature makes the daemon look whether a hub lost the secret.
		{name: "forgeries of strangers", stranger: true, pulls: 1, post: func(m *meddler, secret string, n int) parcel {
			p, _ := m.earlier()
			p.header = p.header.Clone()
			all := forgeries()
			all[n%(len(all)-1)].forge(m, &p, secret) // but for the one that is large
			return p
		}},
		{name: "large bodies of strangers", stranger: true, pulls: 1, post: func(_ *meddler, _ string, n int) parcel {
			return parcel{header: http.Header{websub.SignatureHeader: {websub.Sign(websub.SHA256, "guess", large)}}, body: large[:len(large)-n]}
		}},
		{name: "hints without content", pulls: pullsByHints, post: signed(func(_ *meddler, n int) string { return strings.Repeat(" ", n) })},
		{name: "intervals that reach into the future", pulls: pullsByHints, post: signed(func(_ *meddler, n int) string {
			return notification(now(), now()+century+rsdoc.Micros(n))
		})},
		{name: "intervals with gaps between", pulls: pullsByGaps, post: signed(func(_ *meddler, n int) string {
			at := now() + rsdoc.Micros(n)
			return notification(at, at)
		})},
		// What the secret vouches for is asked for, once for each time that it is named. None is dated ahead: such a one stands
		// until the documents have got beyond it and a minute more.
		{name: "changes that are none", pulls: pullsByHints, post: signed(func(m *meddler, _ int) string {
			return notification(now()-second, now(), told(m.resource(), "updated", now(), ""))
		})},
		{name: "deletions that are none", pulls: pullsByHints, post: signed(func(m *meddler, _ int) string {
			return notification(now()-second, now(), told(m.resource(), "deleted", now(), ""))
		})},
	}
}

// TestHardHubFloods pours thousands of posts over the callback while the Source changes (F29, F40, F45, P8, P9): they cost the
// Source no more than a stated number of requests, what is pushed meanwhile arrives, and soon after calm the mirror is the
// Source.
func TestHardHubFloods(t *testing.T) {
	t.Parallel()
	posts, lasts, end := 300, time.Second, time.Minute
	if soak {
		posts, lasts, end = 200_000, 12*time.Second, 30*time.Second
	}
	o := newOrdeal(t, 40, "", "")
	o.configure("@every 10s")
	d := newDice(hardSeed(t), 1)
	o.roll = d.roll
	o.annals.late.Store(true)
	saw := o.annals.watchOver(o.mirror, 5*time.Millisecond)
	o.serveDaemon()
	o.converged(30 * time.Second)
	s := o.known()
	m := &meddler{o: o, dice: d, did: map[string]int{}, taken: map[string]int{}}
	o.gate.let(m.listen)
	o.until("something came that can be forged", 30*time.Second, func() bool {
		o.put("first.txt")
		_, ok := m.earlier()
		return ok
	})
	for _, f := range floods() {
		m.pour(&f, &s, posts, lasts, end)
	}
	o.settled(end)
	const most = 100 // lines that say the same, in ten seconds
	lines := strings.Count(o.daemon.err.String(), `msg="the interval of a notification reaches into the future; cut"`)
	if taken := m.taken["intervals that reach into the future"]; taken > most && (lines == 0 || lines >= taken || lines > 3*most) ||
		taken > 2*most && !strings.Contains(o.daemon.err.String(), "lines that say the same are left out for a while") {
		t.Errorf("%d lines in the log of %d notifications", lines, taken)
	}
	reads := saw.quit(t)
	t.Logf("%d reads by the witness, %d of what was never published or older than before", reads, len(saw.wrong))
}

// listen remembers what comes from the hub and hands it on.
func (m *meddler) listen(_ http.ResponseWriter, r *http.Request, body []byte) bool {
	if r.Method == http.MethodPost {
		m.remember(parcel{r.URL.RequestURI(), r.Header.Clone(), slices.Clone(body)})
	}
	return false
}

// pour sends a flood of about so many posts in so long a time, eight at once, beside ten changes a second, and holds what the
// Source is asked until the mirror is that again against what it may be.
func (m *meddler) pour(f *flood, s *hubstate.Subscription, most int, lasts, end time.Duration) {
	o := m.o
	o.t.Helper()
	toll, named := o.toll(), m.entries()
	over := time.After(lasts)
	changes := o.churn(10)
	posts, taken := m.post(f, s, lasts/time.Duration(most), over)
	poured := time.Since(toll.began)
	o.calm()
	o.lastWord()
	took := o.converged(end)
	due := toll.due(f.name, pullsBySchedule+f.pulls, changes.Load(), m.entries()-named)
	o.t.Logf("%s: %d in %s, %d taken, beside %d changes: %s; in step %s after the end",
		f.name, posts, poured.Round(time.Millisecond), taken, changes.Load(), due, took.Round(time.Millisecond))
}

// post sends posts until it is over, one each so long or as soon as one of the eight is free.
func (m *meddler) post(f *flood, s *hubstate.Subscription, every time.Duration, over <-chan time.Time) (posts, taken int) {
	m.o.t.Helper()
	next := make(chan int)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for n := range next {
				p := f.post(m, s.Secret, n)
				if p.path == "" {
					p.path = pathOf(s.Callback)
				}
				if status := m.send(f.name, p); f.stranger && status/100 == 2 {
					m.o.t.Errorf("%s: one was answered %d", f.name, status)
				}
			}
		})
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ended := false; !ended; {
		select {
		case <-tick.C:
			next <- posts
			posts++
		case <-over:
			ended = true
		}
	}
	close(next)
	all.Wait()
	return posts, m.taken[f.name]
}
