package queue

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// TestSpread: forty Sources with one schedule come one after the other, always in the same places.
func TestSpread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newTable(t)
		for i := range int64(40) {
			x.Plan(i, fmt.Sprint("source", i), each(time.Hour), x.begin.Add(-100*time.Minute))
		}
		x.run()
		<-time.After(10 * time.Minute)
		halves := [2]int{}
		for i := range int64(40) {
			d := x.Next(i).Sub(x.begin) - time.Hour
			if d < 0 || d > time.Minute {
				t.Errorf("source %d is %v from the grid", i, d)
			}
			halves[int(d/(30*time.Second))%2]++
		}
		if halves[0] < 12 || halves[1] < 12 {
			t.Errorf("halves of the minute: %v", halves)
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		if len(x.puts) != 40 || x.puts[0].At > time.Second || x.puts[39].At < 8*time.Second || x.puts[39].At > 10*time.Second {
			t.Errorf("caught up: %v", x.puts)
		}
	})
	for _, tc := range []struct {
		s    Schedule
		want time.Duration
	}{{every(10 * time.Second), time.Second}, {every(time.Minute), 6 * time.Second}, {each(24 * time.Hour), time.Minute}, {never{}, time.Minute}} {
		r := pulls{schedule: tc.s, part: math.Nextafter(1, 0)}
		base := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		if got := r.off(base, jitterMost).Sub(base).Round(time.Millisecond); got != tc.want {
			t.Errorf("%v: up to %v from the grid, want %v", tc.s, got, tc.want)
		}
	}
}

// TestPartOf: a Source keeps its place over releases, or all would be pulled at odd times after an update.
func TestPartOf(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"": "0.92", "example": "0.04", "demo": "0.95"} {
		if got := fmt.Sprintf("%.2f", partOf(name)); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
	var tenths [10]int
	for i := range 10000 {
		tenths[int(10*partOf(fmt.Sprint("source", i)))]++
	}
	for i, n := range tenths {
		if n < 800 || n > 1200 {
			t.Errorf("tenth %d: %d of 10000", i, n)
		}
	}
}

// TestTimetableHistories: whatever is set, and however the clock goes, no Source waits for longer than its interval and
// the distances it is told, and none runs hot.
func TestTimetableHistories(t *testing.T) {
	t.Parallel()
	type move struct {
		Set, Ahead, Pass time.Duration
	}
	rapid.Check(t, func(r *rapid.T) {
		moves := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) move {
			m := move{Pass: time.Duration(rapid.IntRange(1, 7200).Draw(t, "pass")) * time.Second}
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				m.Set = time.Duration(rapid.IntRange(60, 7200).Draw(t, "every")) * time.Second
			case 1:
				m.Ahead = time.Duration(rapid.IntRange(-100000, 100000).Draw(t, "ahead")) * time.Second
			}
			return m
		}), 1, 20).Draw(r, "moves")
		grid := rapid.Bool().Draw(r, "grid")
		synctest.Test(t, func(t *testing.T) {
			schedule := func(d time.Duration) Schedule {
				if grid {
					return each(d)
				}
				return every(d)
			}
			x := newTable(t)
			interval, moved := time.Hour, 0
			x.Plan(1, far, schedule(interval), time.Time{})
			x.run()
			last := time.Now() // virtual, not the wall clock
			for _, m := range moves {
				if m.Set > 0 {
					interval = m.Set
					x.Plan(1, far, schedule(interval), time.Time{})
					last = time.Now()
					moved++
				}
				if m.Ahead != 0 {
					x.clock.ahead.Add(int64(m.Ahead))
					last = time.Now()
					moved++
				}
				x.mu.Lock()
				before := len(x.puts)
				x.mu.Unlock()
				begin, wall := time.Now(), x.clock.now()
				<-time.After(m.Pass)
				synctest.Wait()
				x.mu.Lock()
				got := x.puts[before:]
				x.mu.Unlock()
				if most := int(m.Pass/interval) + 4; len(got) > most {
					r.Errorf("%d pulls in %v, every %v", len(got), m.Pass, interval)
				}
				for _, p := range got {
					last = begin.Add(x.begin.Add(p.At).Sub(wall))
				}
				if wait := time.Since(last); wait > interval+3*time.Minute {
					r.Errorf("no pull for %v, every %v", wait, interval)
				}
			}
		})
	})
}
