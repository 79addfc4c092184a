package subscribe

import (
	"testing"
	"testing/synctest"
	"time"

	"resyncd/destination/fetch"
	"resyncd/store"
)

// TestCancel: off until renewed, over discoveries and restarts (S-90 to S-92).
func TestCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		ab(w)
		topic := w.source(1, hubA)
		stop := w.run()
		wait(time.Hour)
		first := w.wantState(store.SubActive)
		if n, err := w.k.Cancel(t.Context(), 1, "https://elsewhere.example/"); n != 0 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if n, err := w.k.Cancel(t.Context(), 1, topic); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		wait(time.Minute)
		w.wantAlive(topic)
		off := func() store.Subscription {
			t.Helper()
			all, _ := w.st.Subscriptions(t.Context(), 1, false)
			if len(all) != 1 || all[0].State != store.SubOff {
				t.Fatalf("%+v", all)
			}
			return all[0]
		}
		off()
		w.offer(1, topic, hubA)
		w.offer(1, topic, hubB)
		stop()
		w.k = w.newKeeper(w.st)
		w.source(1, hubB)
		stop = w.run()
		w.asks()
		wait(40 * day)
		off()
		if n := len(w.asks()); n != 0 {
			t.Errorf("%d requests for a channel that is off", n)
		}
		if n, err := w.k.Renew(t.Context(), 1, ""); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		wait(5 * time.Minute)
		w.wantAlive(topic, "b.example")
		if s := w.wantState(store.SubActive); s.Token == first.Token || s.Secret == first.Secret {
			t.Error("the old callback is back")
		}
		stop()
		wait(time.Minute)
		w.report()
	})
}

// TestRequests: commands beside which no daemon runs.
func TestRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		w := newWorld(t, 1)
		ab(w)
		topic := w.source(1, hubA)
		stop := w.run()
		wait(time.Hour)
		stop()
		if n, err := New(Options{Store: w.st}).Cancel(ctx, 1, topic); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		wait(time.Hour)
		w.wantAlive(topic, "a.example")
		stop = w.run()
		wait(time.Minute)
		w.wantAlive(topic)
		stop()
		if n, err := New(Options{Store: w.st}).Renew(ctx, 1, ""); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		stop = w.run()
		wait(time.Minute)
		w.wantAlive(topic, "a.example")
		// Beside a daemon: it looks when it is woken.
		if n, err := New(Options{Store: w.st}).Cancel(ctx, 1, ""); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		w.k.Wake()
		wait(time.Minute)
		w.wantAlive(topic)
		stop()
		if err := New(Options{Store: w.st}).DropSource(ctx, 1); err != nil {
			t.Error(err)
		}
		if all, _ := w.st.Subscriptions(ctx, 1, false); len(all) != 0 {
			t.Errorf("%+v", all)
		}
		wait(time.Minute)
		w.report()
	})
}

// TestLeaving: S-91, each way in which an unsubscription ends, and a hub that never lets go.
func TestLeaving(t *testing.T) {
	for name, tc := range map[string]struct {
		act   behaviour
		after time.Duration
	}{
		"verified": {good, time.Minute}, "inline": {inline, time.Minute},
		"204":            {func(*world, request) *fetch.Answer { return answer(204) }, time.Minute},
		"not subscribed": {func(*world, request) *fetch.Answer { return answer(400) }, time.Minute},
		"unheard":        {nil, 10 * day}, "silent": {silent, 10 * day},
		"failing": {func(*world, request) *fetch.Answer { return answer(500) }, 10 * day},
	} {
		t.Run(name, func(t *testing.T) {
			one(t, []string{hubA}, ab, func(w *world, topic string) {
				wait(time.Hour)
				s := w.wantState(store.SubActive)
				w.asks()
				w.mu.Lock()
				w.behave["a.example"] = tc.act
				w.mu.Unlock()
				if err := w.k.DropSource(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
				if tc.after > day {
					wait(9 * day)
					if got := w.subs(1)[0].State; got != store.SubUnsubscribing {
						t.Errorf("state %s", got)
					}
				}
				wait(tc.after)
				if got := w.subs(1)[0]; got.State != store.SubGone || got.Token != s.Token {
					t.Errorf("%+v", got)
				}
				rs := w.asks()
				if len(rs) == 0 || len(rs) > 10*24+20 {
					t.Errorf("%d requests", len(rs))
				}
				for _, r := range rs {
					if r.form.Get("hub.mode") != "unsubscribe" || r.form.Has("hub.lease_seconds") || r.form.Get("hub.topic") != topic {
						t.Errorf("sent %v", r.form)
					}
				}
			})
		})
	}
}
