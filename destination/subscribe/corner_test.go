package subscribe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/destination"
	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/store"
)

// TestGap: whoever pushes, and whatever the clock does, a subscription asks once in five seconds (F23, F15). The world
// looks at each request.
func TestGap(t *testing.T) {
	one(t, []string{hubA}, ab, func(w *world, _ string) {
		wait(time.Minute)
		for i := range 300 {
			if i%50 == 25 {
				w.jump(-day)
			}
			if n, err := w.k.Renew(t.Context(), 1, ""); n != 1 || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
			wait(100 * time.Millisecond)
		}
		if n := len(w.asks()); n < 4 || n > 9 {
			t.Errorf("%d requests in half a minute", n)
		}
	})
}

// TestCrashWhileAsking: a request of which nobody knows the outcome is sent again soon.
func TestCrashWhileAsking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.behave["a.example"] = func(*world, request) *fetch.Answer { <-time.After(20 * time.Second); return answer(202) }
		c := &crashed{memory: w.st}
		w.k = w.newKeeper(c)
		topic := w.source(1, hubA)
		stop := w.run()
		wait(10 * time.Second)
		w.wantState(store.SubRequesting)
		w.restart(c, stop, 0)
		w.setHub("a.example", good)
		w.source(1, hubA)
		stop = w.run()
		wait(answerWait)
		w.wantAlive(topic, "a.example")
		stop()
		wait(time.Minute)
		w.report()
	})
}

// TestStopWhileAnswered: an answer that came is recorded, even if the daemon is told to stop at that moment.
func TestStopWhileAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.source(1, hubA)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w.k.o.Send = func(context.Context, fetch.Message) (*fetch.Answer, error) {
			cancel()
			return refusal(500, "oops"), nil
		}
		if err := w.k.Run(ctx); err != nil {
			t.Error(err)
		}
		if s := w.wantState(store.SubFailed); !strings.Contains(s.Reason, "oops") || !strings.HasPrefix(s.Cause, "http-") {
			t.Errorf("%+v", s)
		}
	})
}

// TestFailuresDoNotCountAsSilence: a hub that was down for a day has five minutes to verify, not an hour.
func TestFailuresDoNotCountAsSilence(t *testing.T) {
	one(t, []string{hubA}, nil, func(w *world, _ string) {
		wait(day)
		w.setHub("a.example", silent)
		w.asks()
		wait(11 * time.Minute) // five for the last back-off, five and a half for the verification
		if n := len(w.asks()); n < 2 {
			t.Errorf("%d requests", n)
		}
	})
}

// TestQuarterOfTheRest: failures while renewing (S-30, F20), for a lease so short that the plain back-off would lose it.
func TestQuarterOfTheRest(t *testing.T) {
	var down atomic.Bool
	one(t, []string{hubA}, func(w *world) {
		w.behave["a.example"] = func(w *world, r request) *fetch.Answer {
			if down.Load() {
				return answer(500)
			}
			w.serve(r, "300", 5*time.Minute)
			return answer(202)
		}
	}, func(w *world, _ string) {
		wait(time.Second)
		s := w.wantState(store.SubActive)
		down.Store(true)
		w.asks()
		wait(time.Until(s.Expires.Time()))
		rs := w.asks()
		for i, g := range gaps(rs) {
			between(t, "gap", g, gap, max(s.Expires.Time().Sub(rs[i].at)/4, gap))
		}
		if len(rs) < 5 {
			t.Errorf("%d requests", len(rs))
		}
	})
}

// TestChain: a pair that moves on and on before the hub verifies leaves nothing behind when it does.
func TestChain(t *testing.T) {
	one(t, []string{hubA}, ab, func(w *world, topic string) {
		wait(time.Hour)
		w.setHub("a.example", silent)
		for i := range 5 {
			w.offer(1, fmt.Sprint(topic, i), hubA)
			wait(time.Minute)
			w.wantAlive(topic, "a.example")
		}
		w.setHub("a.example", good)
		wait(2 * time.Hour)
		w.wantAlive(topic)
		w.wantAlive(topic+"4", "a.example")
		w.wantState(store.SubActive)
		if n := len(w.leases); n != 1 {
			t.Errorf("%d leases", n)
		}
	})
}

// TestPolicyOfDroppedSource: a Source's hub may be on an address that only its policy allows, also for leaving.
func TestPolicyOfDroppedSource(t *testing.T) {
	one(t, nil, ab, func(w *world, topic string) {
		p := &fetch.Policy{}
		w.k.SetSource(1, Plan{Push: true, Policy: p})
		w.offer(1, topic, hubA)
		wait(time.Minute)
		if err := w.k.DropSource(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		wait(time.Minute)
		rs := w.asks()
		if len(rs) != 2 || rs[0].policy != p || rs[1].policy != p {
			t.Errorf("%+v", rs)
		}
		if err := w.k.SetChannels(t.Context(), 1, 1, nil); err == nil {
			t.Error("channels of a Source that was dropped")
		}
	})
}

// TestTwoKinds: the change and the framework channel of a set have nothing to do with each other, and a set's
// override of the topic is for changes alone.
func TestTwoKinds(t *testing.T) {
	one(t, nil, ab, func(w *world, topic string) {
		offer := func(chs ...destination.Channel) {
			t.Helper()
			if err := w.k.SetChannels(t.Context(), 1, 1, chs); err != nil {
				t.Fatal(err)
			}
			wait(5 * time.Minute)
		}
		news := destination.Channel{Kind: rsdoc.KindChangeNotification, Topic: topic, Hubs: []string{hubA}}
		frame := destination.Channel{Kind: rsdoc.KindFrameworkNotification, Topic: topic + "/framework", Hubs: []string{hubA}}
		offer(news, frame)
		w.wantAlive(topic, "a.example")
		w.wantAlive(topic+"/framework", "a.example")
		w.k.SetSource(1, Plan{Push: true, Secret: true, TopicOverride: topic + "/own"})
		offer(news, frame)
		w.wantAlive(topic)
		w.wantAlive(topic+"/own", "a.example")
		w.wantAlive(topic+"/framework", "a.example")
		if n, err := w.k.Cancel(t.Context(), 1, topic+"/own"); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		offer(news)
		w.wantAlive(topic + "/own")
		w.wantAlive(topic + "/framework")
		offer(news, frame)
		w.wantAlive(topic + "/own")
		w.wantAlive(topic+"/framework", "a.example")
	})
}

// TestOverridesWithoutChannel: hub and topic are configured and the Source offers nothing (Q-08, S-12).
func TestOverridesWithoutChannel(t *testing.T) {
	one(t, nil, ab, func(w *world, topic string) {
		w.k.SetSource(1, Plan{Push: true, Secret: true, TopicOverride: topic, HubOverride: hubB})
		w.offer(1, "")
		wait(time.Minute)
		w.wantAlive(topic, "b.example")
	})
}

// TestWarnsAboutSecret once for each hub that is reached over http, unless it is on loopback (S-24); nothing secret is
// logged (P10).
func TestWarnsAboutSecret(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		w := newWorld(t, 1)
		w.k.o.Log = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		for _, host := range []string{"a.example", "127.0.0.1:8080", "[::1]:80", "localhost"} {
			w.behave[host] = func(w *world, r request) *fetch.Answer {
				w.verify(r, "3600")
				return refusal(400, "cannot reach "+r.form.Get("hub.callback")+" with "+r.form.Get("hub.secret"))
			}
		}
		w.source(1, "http://a.example/")
		w.source(2, "http://a.example/")
		w.source(3, "http://127.0.0.1:8080/")
		w.source(4, "http://[::1]:80/")
		w.source(5, "http://localhost/")
		w.source(6, hubA)
		stop := w.run()
		wait(time.Hour)
		stop()
		if n := strings.Count(out.String(), "learns the secret"); n != 1 {
			t.Errorf("%d warnings", n)
		}
		if n := strings.Count(out.String(), "learns the secret"); n == 1 && !strings.Contains(out.String(), "http://a.example/") {
			t.Error("the warning does not name the hub")
		}
		for i := range int64(6) {
			for _, s := range w.subs(i + 1) {
				for _, bad := range []string{s.Token, s.Secret} {
					if strings.Contains(out.String(), bad) || strings.Contains(s.Reason, bad) {
						t.Errorf("a token or secret is shown: %s", s.Reason)
					}
				}
			}
		}
	})
}

// TestClean: what hubs say is one printable line of at most 500 characters.
func TestClean(t *testing.T) {
	t.Parallel()
	s := &store.Subscription{
		Token: "T0K3N", Secret: "53CR37", Topic: "https://lib.example/t?key=t0pic%2Fkey&n=1&bare-token", Hub: "https://hub.example/?k=hubtoken",
	}
	for in, want := range map[string]string{
		"":                                    "",
		" a\r\n\tb ":                          "a b",
		"x\x1b[2J\u202ey\x00\xff":             "x\uFFFD[2J\uFFFDy\uFFFD\uFFFD",
		"cb/T0K3N?s=53CR37 and T0K3N":         "cb/…?s=… and …",
		"t?key=t0pic%2Fkey is t0pic/key, n=1": "t?key=… is …, n=1",
		"t%3Fkey%3Dt0pic%252Fkey, bare-token, hubtoken": "t%3Fkey%3D…, …, …",
		strings.Repeat("é", 501):                        strings.Repeat("é", 499) + "…",
		strings.Repeat("é", 500):                        strings.Repeat("é", 500),
	} {
		if got := clean(in, s); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestRunTwice: one Run at a time, and one after the other.
func TestRunTwice(t *testing.T) {
	one(t, []string{hubA}, ab, func(w *world, _ string) {
		wait(time.Minute)
		if err := w.k.Run(t.Context()); err == nil {
			t.Error("a second Run beside the first")
		}
	})
}

// TestAnsweredWithoutRun: the callback server may be asked before Run begins, and after it ended.
func TestAnsweredWithoutRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.behave["a.example"] = func(w *world, r request) *fetch.Answer {
			later(time.Minute, func() { w.serve(r, "86400", day) })
			return answer(202)
		}
		w.source(1, hubA)
		stop := w.run()
		wait(time.Second)
		stop()
		wait(2 * time.Minute)
		w.wantState(store.SubActive)
		w.report()
	})
}

// TestStopAtOnce: a Run that is told to end while it still reads the store ends well.
func TestStopAtOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := newWorld(t, 1)
	w.k = w.newKeeper(leavesEarly{w.st})
	if err := w.k.Run(ctx); err != nil {
		t.Error(err)
	}
	if err := w.k.Run(t.Context()); err == nil {
		t.Error("a store that cannot be read is no error")
	}
}

// leavesEarly is a store that cannot be read.
type leavesEarly struct{ *memory }

func (leavesEarly) Subscriptions(context.Context, int64, bool) ([]store.Subscription, error) {
	return nil, errors.New("cannot be read")
}
