package subscribe

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/destination/fetch"
	"resyncd/store"
)

// TestClockJumps: whatever happens to the wall clock, hubs count real time, and there is no storm (F15, F16).
func TestClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{-20 * 365 * day, -365 * day, -5 * day, -time.Hour, time.Hour, 5 * day, 365 * day} {
		t.Run(jump.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				ab(w)
				const n = 50
				topics := make([]string, n)
				for i := range topics {
					topics[i] = w.source(int64(i+1), hubA)
				}
				stop := w.run()
				wait(2 * day)
				w.asks()
				w.jump(jump)
				wait(10 * time.Minute)
				rs := w.asks()
				switch {
				case jump < 0 && len(rs) > 0:
					t.Errorf("%d requests because the clock went back", len(rs))
				case jump > 12*day:
					if len(rs) < n || len(rs) > 4*n { // renewed once each, and rotated
						t.Errorf("%d requests", len(rs))
					}
				}
				for range 60 {
					wait(day)
					for _, topic := range topics {
						if w.live(topic) == 0 {
							t.Fatalf("%s lapsed", topic)
						}
					}
				}
				if got := len(w.asks()); got > 25*n {
					t.Errorf("%d requests in two months", got)
				}
				stop()
				wait(time.Minute)
				w.report()
			})
		})
	}
}

// TestClockJumpAfterVerification: the clock goes back before the next look at the timetable (F15).
func TestClockJumpAfterVerification(t *testing.T) {
	one(t, []string{hubA}, func(w *world) {
		w.behave["a.example"] = func(w *world, r request) *fetch.Answer {
			time.AfterFunc(2*time.Second, func() {
				w.verify(r, "600")
				w.jump(-3 * time.Minute)
			})
			return answer(202)
		}
	}, func(w *world, _ string) {
		wait(time.Minute)
		w.wantState(store.SubActive)
		w.asks()
		wait(480*time.Second - time.Minute + 3*time.Second)
		if n := len(w.asks()); n != 1 {
			t.Errorf("%d requests in eight of ten minutes", n)
		}
	})
}

// TestClockJumpWhileDown: after a restart only the records tell, and a clock that went back must not make them wait (F15).
func TestClockJumpWhileDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		ab(w)
		topic := w.source(1, hubA)
		stop := w.run()
		wait(time.Minute)
		stop()
		w.jump(-365 * day)
		w.k = w.newKeeper(w.st)
		w.source(1, hubA)
		stop = w.run()
		w.asks()
		wait(time.Hour)
		if n := len(w.asks()); n != 1 {
			t.Errorf("%d requests", n)
		}
		for range 30 {
			wait(day)
			if w.live(topic) != 1 {
				t.Fatal("lapsed")
			}
		}
		stop()
		wait(time.Minute)
		w.report()
	})
}

// TestSuspended: timers stand still while a machine sleeps; the wall clock is looked at every 30 s (F16).
func TestSuspended(t *testing.T) {
	one(t, []string{hubA}, ab, func(w *world, _ string) {
		wait(time.Minute)
		s := w.wantState(store.SubActive)
		w.asks()
		w.jump(time.Until(s.Renew.Time()) + time.Hour)
		wait(31 * time.Second)
		if n := len(w.asks()); n != 1 {
			t.Errorf("%d requests after waking up", n)
		}
	})
}

// TestSilentHubsDelayNobody: twenty hubs that hang for 30 s have many subscriptions each; those at others are on time.
func TestSilentHubsDelayNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.keepLog = false
		id := int64(0)
		for h := range 20 {
			host := fmt.Sprintf("hang%d.example", h)
			w.behave[host] = func(*world, request) *fetch.Answer { <-time.After(time.Minute); return nil }
			for range 20 {
				id++
				w.source(id, "https://"+host+"/hub")
			}
		}
		var atOnce, most atomic.Int32
		w.behave["short.example"] = func(w *world, r request) *fetch.Answer {
			if n := atOnce.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer atOnce.Add(-1)
			<-time.After(time.Second)
			w.serve(r, "300", 5*time.Minute)
			return answer(202)
		}
		var topics []string
		for range 40 {
			id++
			topics = append(topics, w.source(id, "https://short.example/hub"))
		}
		stop := w.run()
		wait(20 * time.Minute) // the first round, in which nobody knows the hosts
		for range 200 {
			wait(time.Minute)
			for _, topic := range topics {
				if w.live(topic) != 1 {
					t.Fatalf("%s lapsed", topic)
				}
			}
		}
		if most.Load() != workersPerHub {
			t.Errorf("%d requests at once at one hub", most.Load())
		}
		stop()
		wait(2 * time.Minute)
		w.report()
	})
}

// TestBusyHubsDelayNobody: hubs that answer in time but have more subscriptions than can be renewed leave workers to others.
func TestBusyHubsDelayNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.keepLog, w.mayLapse = false, true
		serve := func(w *world, r request) *fetch.Answer {
			<-time.After(4 * time.Second)
			w.serve(r, "300", 5*time.Minute)
			return answer(202)
		}
		id := int64(0)
		for h := range 20 {
			host := fmt.Sprintf("busy%d.example", h)
			w.behave[host] = serve
			for range 50 {
				id++
				w.source(id, "https://"+host+"/hub")
			}
		}
		w.behave["other.example"] = serve
		stop := w.run()
		wait(10 * time.Minute)
		topic := w.source(id+1, "https://other.example/hub")
		wait(2 * time.Minute)
		for range 30 {
			if wait(time.Minute); w.live(topic) == 0 {
				t.Fatalf("%s is not subscribed to", topic)
			}
		}
		stop()
		wait(2 * time.Minute)
	})
}

// TestRediscovery: before each renewal, and nothing depends on it (S-13).
func TestRediscovery(t *testing.T) {
	for name, act := range map[string]func(ctx context.Context, w *world) error{
		"same":   func(context.Context, *world) error { return nil },
		"fails":  func(context.Context, *world) error { return fmt.Errorf("gone") },
		"hangs":  func(ctx context.Context, _ *world) error { <-ctx.Done(); return ctx.Err() },
		"panics": func(context.Context, *world) error { panic("bug") },
		"changes": func(_ context.Context, w *world) error {
			w.offer(1, "https://source.example/1/changes", hubB)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			var n, asked atomic.Int32
			one(t, []string{hubA}, func(w *world) {
				ab(w)
				w.k.o.Rediscover = func(ctx context.Context, source, set int64) error {
					if n.Add(1); source != 1 || set != 1 {
						t.Errorf("asked for %d, %d", source, set)
					}
					w.mu.Lock()
					asked.Store(int32(len(w.log)))
					w.mu.Unlock()
					return act(ctx, w)
				}
			}, func(w *world, topic string) {
				wait(time.Minute)
				s := w.wantState(store.SubActive)
				if n.Load() != 0 {
					t.Error("before the first request")
				}
				wait(time.Until(s.Renew.Time()) + 2*time.Minute)
				if n.Load() != 1 || asked.Load() != 1 {
					t.Errorf("%d discoveries, the last after %d requests", n.Load(), asked.Load())
				}
				now := w.wantState(store.SubActive)
				if moved := now.Hub == hubB; moved != (name == "changes") {
					t.Errorf("now at %s", now.Hub)
				}
				if now.Verified <= s.Verified {
					t.Error("not renewed")
				}
			})
		})
	}
}

// TestRediscoveryOfShortLeases is no load for the Source, and costs no lease when it hangs.
func TestRediscoveryOfShortLeases(t *testing.T) {
	var n atomic.Int32
	one(t, []string{hubA}, func(w *world) {
		w.behave["a.example"] = func(w *world, r request) *fetch.Answer { w.serve(r, "60", time.Minute); return answer(202) }
		w.k.o.Rediscover = func(ctx context.Context, _, _ int64) error { n.Add(1); <-ctx.Done(); return ctx.Err() }
	}, func(w *world, topic string) {
		wait(time.Second)
		for range 3600 {
			wait(time.Second)
			if w.live(topic) != 1 {
				t.Fatal("lapsed")
			}
		}
		if n.Load() < 5 || n.Load() > 13 {
			t.Errorf("%d discoveries in an hour", n.Load())
		}
	})
}

// TestRestartIsSpread: S-56, a thousand overdue leases are not renewed in one second, and none of those that can be kept lapses.
func TestRestartIsSpread(t *testing.T) {
	t.Run("plans before Run", func(t *testing.T) { restartIsSpread(t, true) })
	t.Run("plans after Run", func(t *testing.T) { restartIsSpread(t, false) })
}

func restartIsSpread(t *testing.T, before bool) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		for h := range 50 {
			w.behave[fmt.Sprintf("h%d.example", h)] = good
		}
		var topics []string
		sources := func() {
			topics = topics[:0]
			for i := range 1000 {
				topics = append(topics, w.source(int64(i+1), fmt.Sprintf("https://h%d.example/hub", i%50)))
			}
		}
		sources()
		stop := w.run()
		wait(time.Hour)
		stop()
		wait(9 * day) // every lease is beyond its time for renewal and none has ended
		w.k = w.newKeeper(w.st)
		w.asks()
		if before {
			sources()
		}
		stop = w.run()
		if !before {
			wait(time.Second)
			sources()
		}
		wait(2 * time.Minute)
		perSecond := map[int64]int{}
		rs := w.asks()
		for _, r := range rs {
			perSecond[r.at.Unix()]++
		}
		for at, n := range perSecond {
			if n > 60 {
				t.Errorf("%d requests in second %d", n, at)
			}
		}
		if len(rs) != 1000 {
			t.Errorf("%d requests", len(rs))
		}
		for _, topic := range topics {
			if w.live(topic) != 1 {
				t.Errorf("%s lapsed", topic)
			}
		}
		stop()
		wait(time.Minute)
		w.report()
	})
}
