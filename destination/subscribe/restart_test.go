package subscribe

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/store"

	"pgregory.net/rapid"
)

// restart kills the Keeper as a crash does, what it writes afterwards is lost, and starts another over the same store.
func (w *world) restart(c *crashed, stop func(), down time.Duration) *crashed {
	c.crash()
	stop()
	w.mu.Lock()
	w.k = nil
	w.mu.Unlock()
	wait(down)
	next := &crashed{memory: w.st}
	w.mu.Lock()
	w.k = w.newKeeper(next)
	w.mu.Unlock()
	return next
}

// TestRestarts crashes at arbitrary points, also with requests under way: no lease is lost, nobody is asked too often, and
// nothing is left over (S-56).
func TestRestarts(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed)
				w.keepLog = false
				w.behave["a.example"], w.behave["b.example"], w.behave["c.example"] = good, slowly, inline
				const n = 30
				c := &crashed{memory: w.st}
				w.k = w.newKeeper(c)
				sources := func(round int) {
					for i := range int64(n) {
						host := "abc"[(int(i)+round/20)%3] // now and then the hub moves
						w.source(i+1, fmt.Sprintf("https://%c.example/hub", host))
					}
				}
				dice := rand.New(rand.NewPCG(seed, 2))
				sources(0)
				stop := w.run()
				wait(10 * time.Minute)
				for round := range 200 {
					// Short lives, then long ones; the daemon is never away for as long as a lease has left.
					life := time.Duration(dice.Int64N(int64(time.Minute)))
					if round%3 == 0 {
						life = time.Duration(dice.Int64N(int64(2 * day)))
					}
					wait(life)
					c = w.restart(c, stop, time.Duration(dice.Int64N(int64(10*time.Minute))))
					sources(round)
					stop = w.run()
					for i := range int64(n) {
						if w.live(fmt.Sprintf("https://source.example/%d/changes", i+1)) == 0 {
							t.Fatalf("round %d: source %d has no lease", round, i+1)
						}
					}
				}
				wait(2 * time.Hour)
				for i := range int64(n) {
					var counting int
					for _, s := range w.subs(i + 1) {
						if counts(&s) {
							counting++
						}
					}
					if counting != 1 {
						t.Errorf("source %d: %d subscriptions", i+1, counting)
					}
				}
				total := 0
				for _, k := range w.total {
					total += k
				}
				if total > n*200*3 {
					t.Errorf("%d requests in 200 lives of %d subscriptions", total, n)
				}
				stop()
				wait(time.Minute)
				w.report()
			})
		})
	}
}

// op is a step of TestAnything.
type op struct {
	What int
	Wait time.Duration
	Arg  int
}

// TestAnything does whatever operators, Sources and hubs may do, in any order. In the end, with good hubs and time, there is
// exactly what is wanted: one live subscription at a hub on offer, or none.
func TestAnything(t *testing.T) {
	t.Parallel()
	waits := []time.Duration{0, 0, time.Second, 4 * time.Second, time.Minute, time.Minute, 6 * time.Minute, 6 * time.Minute, time.Hour, 3 * time.Hour, day, 31 * day}
	gen := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) op {
		return op{What: rapid.IntRange(0, 12).Draw(rt, "what"), Wait: rapid.SampledFrom(waits).Draw(rt, "wait"), Arg: rapid.IntRange(0, 11).Draw(rt, "arg")}
	}), 1, 25)
	histories, failed := 0, false
	rapid.Check(t, func(rt *rapid.T) {
		if histories++; raced && histories > 40 && !failed {
			return // what is left of the checks passes unseen; a failure is shrunk without a limit of ours
		}
		ops := gen.Draw(rt, "ops")
		var wrong []string
		synctest.Test(t, func(*testing.T) { wrong = anything(t, ops) })
		if len(wrong) > 0 {
			failed = true
			rt.Fatalf("%q", wrong)
		}
	})
}

func anything(t testing.TB, ops []op) []string {
	w := newWorld(t, 3)
	w.keepLog, w.mayLapse = false, true
	hubs := [][]string{{hubA}, {hubB}, {hubA, hubB}, {hubB, hubA}, {}}
	acts := []behaviour{good, inline, silent, denying, slowly, strict, old03, skipping, nil, liar}
	topics := []string{"https://s.example/x", "https://s.example/y"}
	offer, topic, cancelled := 0, 0, false
	c := &crashed{memory: w.st}
	w.k = w.newKeeper(c)
	plan := Plan{Push: true, Secret: true}
	tell := func() {
		w.k.SetSource(1, plan)
		w.offer(1, topics[topic], hubs[offer]...)
	}
	ab(w)
	tell()
	stop := w.run()
	for _, o := range ops {
		ctx := t.Context()
		subs := w.subs(1)
		some := subs[o.Arg%len(subs)]
		var err error
		switch o.What {
		case 0:
			offer = o.Arg % len(hubs)
			tell()
		case 1:
			topic = 1 - topic
			tell()
		case 2:
			w.setHub("a.example", acts[o.Arg%len(acts)])
		case 3:
			w.setHub("b.example", acts[o.Arg%len(acts)])
		case 4:
			var n int
			n, err = w.k.Cancel(ctx, 1, "")
			cancelled = cancelled || n > 0
		case 5:
			_, err = w.k.Renew(ctx, 1, "")
			cancelled = false
		case 6:
			if some.State != store.SubGone {
				err = w.k.Denied(ctx, some, "no")
			}
		case 7:
			err = w.k.Suspect(ctx, some.ID)
		case 8:
			c = w.restart(c, stop, o.Wait/4)
			tell()
			stop = w.run()
		case 9:
			plan.Secret = !plan.Secret
			tell()
		case 10:
			plan.Push = !plan.Push
			tell()
		case 11:
			w.forge(some, o.Arg)
		case 12:
			err = w.k.DropSource(ctx, 1)
			cancelled = false
			wait(o.Wait)
			tell()
		}
		if err != nil {
			w.mu.Lock()
			w.breach("%+v: %v", o, err)
			w.mu.Unlock()
		}
		wait(o.Wait)
	}
	w.setHub("a.example", good)
	w.setHub("b.example", good)
	wait(3 * day) // longer than a refusal lasts
	if plan.Push && !cancelled && len(hubs[offer]) > 0 {
		w.settled(topics[topic], hubs[offer], plan.Secret)
	} else {
		w.settled("", nil, false)
	}
	stop()
	wait(time.Minute)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.breaches
}

func (w *world) setHub(host string, act behaviour) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.behave[host] = act
}

// settled looks for exactly one live subscription, to a topic at one of hubs; none for no hubs.
func (w *world) settled(topic string, hubs []string, secret bool) {
	var left []store.Subscription
	for _, s := range w.subs(1) {
		grace := s.Live() && !s.Renew.Known() // of a rotation
		if counts(&s) && !grace {
			left = append(left, s)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(hubs) == 0 {
		if len(left) != 0 {
			w.breach("nothing is wanted, and there are %+v", left)
		}
		return
	}
	t := target{kind: store.ChannelChange, topic: topic, hubs: hubs}
	if len(left) != 1 || !left[0].Live() || !t.fits(&left[0], secret) {
		w.breach("want one live at %v, there are %+v", hubs, left)
	}
}
