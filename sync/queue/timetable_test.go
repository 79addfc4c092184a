package queue

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// every counts from the run before, as "@every 15m" does.
type every time.Duration

func (e every) Next(t time.Time) time.Time {
	return t.Add(time.Duration(e) - time.Duration(t.Nanosecond()))
}

// each is at every full interval of the day, as "0 * * * *" is.
type each time.Duration

func (e each) Next(t time.Time) time.Time {
	return t.Truncate(time.Duration(e)).Add(time.Duration(e))
}

type never struct{}

func (never) Next(time.Time) time.Time { return time.Time{} }

type stuck struct{}

func (stuck) Next(t time.Time) time.Time { return t }

// near is the name of a Source that keeps next to no distance from the grid, far that of one that keeps nearly all.
var near, far = names()

func names() (near, far string) {
	least, most := 1.0, 0.0
	for i := range 5000 {
		name := fmt.Sprint("source-", i)
		if p := partOf(name); p < least {
			least, near = p, name
		} else if p > most {
			most, far = p, name
		}
	}
	return near, far
}

// table is a running Local whose planned pulls are noted.
type table struct {
	*Local
	t     *testing.T
	clock wallClock
	begin time.Time

	mu   sync.Mutex
	puts []put1
}

type put1 struct {
	Source int64
	At     time.Duration // since the start, by the wall clock
	Due    time.Duration
}

func newTable(t *testing.T) *table {
	x := &table{t: t}
	x.begin = x.clock.now()
	x.Local = NewLocal(LocalOptions{Now: x.clock.now})
	return x
}

func (x *table) run() {
	start(x.t, x.Local, func(_ context.Context, j Job) error {
		x.mu.Lock()
		defer x.mu.Unlock()
		if j.Kind != KindPull || j.Due.Location() != time.UTC {
			x.t.Errorf("put %v", j)
		}
		x.puts = append(x.puts, put1{j.Source, x.clock.now().Sub(x.begin), j.Due.Sub(x.begin)})
		return nil
	})
	synctest.Wait()
}

// pass lets time pass and returns when the pulls of a Source were put meanwhile, rounded to seconds.
func (x *table) pass(d time.Duration, source int64) []string {
	x.t.Helper()
	<-time.After(d)
	synctest.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	out := []string{}
	for _, p := range x.puts {
		if p.Source == source {
			out = append(out, p.At.Round(time.Second).String())
			if p.At < p.Due {
				x.t.Errorf("put before it was due: %v", p)
			}
		}
	}
	x.puts = nil
	return out
}

func (x *table) want(what string, got []string, want ...string) {
	x.t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
		x.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (x *table) next(want time.Duration) {
	x.t.Helper()
	if got := x.Next(1).Sub(x.begin).Round(time.Second); got != want {
		x.t.Errorf("next is after %v, want %v", got, want)
	}
}

// In a bubble all begins at midnight UTC.
func TestTimetable(t *testing.T) {
	t.Parallel()
	const quarter = 15 * time.Minute
	for _, tc := range []struct {
		name string
		run  func(*table)
	}{
		{"never pulled", func(x *table) {
			x.Plan(1, far, each(time.Hour), time.Time{})
			x.next(0)
			x.want("at once, then on the hour and the distance", x.pass(2*time.Hour+2*time.Minute, 1), "0s", "1h1m0s", "2h1m0s")
			x.next(3*time.Hour + time.Minute)
		}},
		{"pulled lately", func(x *table) {
			x.Plan(1, near, every(quarter), x.begin.Add(-5*time.Minute))
			x.next(10 * time.Minute)
			x.want("from the last pull", x.pass(time.Hour, 1), "10m0s", "25m0s", "40m0s", "55m0s")
		}},
		{"missed", func(x *table) {
			x.Plan(1, far, each(time.Hour), x.begin.Add(-100*time.Hour))
			x.next(10 * time.Second)
			x.want("caught up once", x.pass(90*time.Minute, 1), "10s", "1h1m0s")
		}},
		{"missed, and set again and again", func(x *table) {
			for range 100 {
				x.Plan(1, far, each(time.Hour), x.begin.Add(-100*time.Hour))
				<-time.After(time.Second)
			}
			x.want("not postponed", x.pass(0, 1), "10s")
		}},
		{"pulled in the future", func(x *table) {
			x.Plan(1, far, each(time.Hour), x.begin.Add(1000*time.Hour))
			x.want("as if never", x.pass(90*time.Minute, 1), "0s", "1h1m0s")
		}},
		{"no next run", func(x *table) {
			x.Plan(1, near, never{}, x.begin)
			x.Plan(2, near, stuck{}, x.begin)
			x.want("nothing", x.pass(1000*time.Hour, 1))
			if !x.Next(1).IsZero() || !x.Next(2).IsZero() || !x.Next(3).IsZero() {
				x.t.Error("there is a next run")
			}
		}},
		{"same schedule", func(x *table) {
			x.Plan(1, far, every(quarter), x.begin)
			for range 120 { // SIGHUP every minute, and pulls by push
				x.Plan(1, far, every(quarter), x.clock.now())
				<-time.After(time.Minute)
			}
			x.want("goes on", x.pass(0, 1), "16m0s", "31m0s", "46m0s", "1h1m0s", "1h16m0s", "1h31m0s", "1h46m0s")
		}},
		{"other schedule", func(x *table) {
			x.Plan(1, near, each(24*time.Hour), x.begin)
			x.want("not yet", x.pass(90*time.Minute, 1))
			x.Plan(1, near, each(time.Hour), x.begin)
			x.want("missed by the new one", x.pass(40*time.Minute, 1), "1h30m0s", "2h0m0s")
			x.Plan(1, near, each(24*time.Hour), x.begin)
			x.want("the old one again", x.pass(24*time.Hour, 1), "24h0m0s")
		}},
		{"remove", func(x *table) {
			x.Plan(1, near, every(quarter), x.begin)
			x.Plan(2, near, every(quarter), x.begin)
			x.Drop(1)
			x.want("removed", x.pass(10*time.Minute, 1))
			x.want("the other", x.pass(10*time.Minute, 2), "15m0s")
		}},
		{"shorten", func(x *table) {
			x.Plan(1, near, each(time.Hour), x.begin)
			x.Shorten(9, time.Minute) // unknown
			x.want("regular", x.pass(10*time.Minute, 1))
			x.Shorten(1, 25*time.Minute)
			x.next(25 * time.Minute)
			x.want("shorter, the grid stays", x.pass(80*time.Minute, 1), "25m0s", "50m0s", "1h0m0s", "1h25m0s")
			x.Plan(1, near, each(time.Hour), x.begin)
			x.want("kept", x.pass(31*time.Minute, 1), "1h50m0s", "2h0m0s")
			x.Shorten(1, 0)
			x.want("back", x.pass(time.Hour, 1), "3h0m0s")
			x.Shorten(1, time.Nanosecond)
			if n := len(x.pass(10*time.Second, 1)); n < 9 || n > 11 {
				x.t.Errorf("%d pulls in 10 s", n)
			}
			x.Shorten(1, 2*time.Hour)
			x.want("longer than the schedule", x.pass(2*time.Hour, 1), "4h0m0s", "5h0m0s")
		}},
		{"suspended", func(x *table) {
			x.Plan(1, near, each(time.Hour), x.begin)
			x.pass(10*time.Minute+10*time.Second, 1)
			x.clock.ahead.Add(int64(5*time.Hour + 30*time.Minute))
			x.want("one for all, within half a minute", x.pass(40*time.Minute, 1), "5h40m30s", "6h0m0s")
		}},
		{"suspended for less than a run", func(x *table) {
			x.Plan(1, near, each(time.Hour), x.begin)
			x.pass(10*time.Minute+10*time.Second, 1)
			x.clock.ahead.Add(int64(40 * time.Minute))
			x.want("by the wall clock", x.pass(15*time.Minute, 1), "1h0m0s")
		}},
		{"suspended while it was about to catch up", func(x *table) {
			x.Plan(1, far, each(time.Hour), x.begin.Add(-10*time.Hour))
			x.pass(time.Second, 1)
			x.clock.ahead.Add(int64(20 * time.Minute))
			x.want("once", x.pass(30*time.Minute, 1), "20m10s")
		}},
		{"clock set back", func(x *table) {
			x.clock.ahead.Add(int64(1000 * time.Hour))
			x.Plan(1, near, every(quarter), x.clock.now())
			x.Plan(2, near, each(time.Hour), x.clock.now())
			x.pass(time.Minute, 1)
			x.clock.ahead.Add(-int64(1000 * time.Hour))
			x.want("an interval after that", x.pass(31*time.Minute, 1), "16m30s", "31m30s")
			x.next(46*time.Minute + 30*time.Second)
			x.want("on the hour", x.pass(30*time.Minute, 2), "1h0m0s")
		}},
		{"clock set back while it was about to catch up", func(x *table) {
			x.clock.ahead.Add(int64(1000 * time.Hour))
			x.Plan(1, far, each(time.Hour), x.clock.now().Add(-10*time.Hour))
			x.pass(time.Second, 1)
			x.clock.ahead.Add(-int64(1000 * time.Hour))
			x.want("caught up, then on the hour", x.pass(2*time.Hour, 1), "20s", "1h1m0s")
			x.Plan(1, far, each(time.Hour), x.begin)
			x.next(2*time.Hour + time.Minute)
		}},
		{"clock set back while shortened", func(x *table) {
			x.clock.ahead.Add(int64(1000 * time.Hour))
			x.Plan(1, near, each(24*time.Hour), x.clock.now())
			x.Shorten(1, 10*time.Minute)
			x.pass(time.Minute, 1)
			x.clock.ahead.Add(-int64(1000 * time.Hour))
			x.want("goes on", x.pass(30*time.Minute, 1), "11m30s", "21m30s")
		}},
		{"clock set back a little", func(x *table) {
			x.Plan(1, near, each(time.Hour), x.begin)
			x.want("on the hour", x.pass(time.Hour+5*time.Second, 1), "1h0m0s")
			x.clock.ahead.Add(-int64(10 * time.Second))
			x.Shorten(1, 0) // has it look at the clock now
			x.want("no double", x.pass(30*time.Minute, 1))
		}},
		{"many missed within a moment", func(x *table) {
			x.Plan(1, near, every(time.Second), x.begin)
			x.pass(5*time.Second+500*time.Millisecond, 1)
			x.clock.ahead.Add(int64(20 * time.Second))
			x.want("once", x.pass(2*time.Second, 1), "26s", "27s")
			x.clock.ahead.Add(int64(20 * time.Second))
			x.pass(700*time.Millisecond, 1)
			x.Plan(1, near, every(time.Second), x.begin)
			x.want("and not made up for", x.pass(0, 1))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				x := newTable(t)
				x.run()
				tc.run(x)
			})
		})
	}
}

// TestSetBackBeforeTheFirst: clocks go back between Set and Run too.
func TestSetBackBeforeTheFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newTable(t)
		x.clock.ahead.Add(int64(1000 * time.Hour))
		x.Plan(1, near, each(time.Hour), time.Time{})                        // never pulled
		x.Plan(2, far, each(time.Hour), x.clock.now().Add(-5*time.Hour))     // to be caught up
		x.Plan(3, near, each(time.Hour), x.clock.now().Add(-10*time.Second)) // just before the hour
		x.seen = x.clock.now()                                               // it sees the clock
		x.Plan(4, far, each(24*time.Hour), x.clock.now().Add(-48*time.Hour)) // to be caught up
		x.Plan(5, near, each(24*time.Hour), time.Time{})                     // never pulled
		x.clock.ahead.Add(-int64(1000 * time.Hour))
		x.run()
		x.want("caught up", x.pass(time.Minute, 4), "10s")
		x.Plan(5, near, each(time.Hour), time.Time{})
		x.want("no more", x.pass(10*time.Minute, 5))
	})
}
