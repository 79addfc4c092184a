package subscribe

import (
	"testing"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/websub"
	"resyncd/store"
)

// TestForgedDenials: whoever learnt a callback denies and verifies by turns, and does not have us sleep through the end of the
// lease that the hub really gave (S-38, S-40, F25).
func TestForgedDenials(t *testing.T) {
	for _, pause := range []time.Duration{20 * time.Minute, 50 * time.Minute, 3 * time.Hour} {
		t.Run(pause.String(), func(t *testing.T) {
			const real = 10 * time.Hour
			one(t, []string{hubA}, func(w *world) {
				w.behave["a.example"] = func(w *world, r request) *fetch.Answer {
					w.serve(r, seconds(real), real)
					return answer(202)
				}
			}, func(w *world, topic string) {
				wait(time.Second)
				w.wantState(store.SubActive)
				w.asks()
				forged := websub.Verification{Mode: websub.ModeSubscribe, Topic: topic, Lease: 30 * 86400}
				for end := time.Now().Add(3 * day); time.Now().Before(end); wait(pause) {
					if err := w.k.Denied(t.Context(), w.the(), "go"); err != nil {
						t.Fatal(err)
					}
					wait(time.Second)
					if ok, err := w.k.Verify(t.Context(), w.the(), forged); !ok || err != nil {
						t.Fatal(ok, err)
					}
					wait(time.Second)
					if n := w.live(topic); n != 1 {
						t.Fatalf("%v before the end %d leases live, and we say: %+v", time.Until(end), n, w.the())
					}
				}
				if n := len(w.asks()); n > 80 {
					t.Errorf("%d requests in three days", n)
				}
			})
		})
	}
}

// TestLateDenial: a denial shortly before a renewal, which anybody can send who learnt the callback, does not put it off beyond the
// lease (S-40, F25).
func TestLateDenial(t *testing.T) {
	const lease = time.Hour
	one(t, []string{hubA}, func(w *world) {
		w.behave["a.example"] = func(w *world, r request) *fetch.Answer {
			w.serve(r, seconds(lease), lease)
			return answer(202)
		}
	}, func(w *world, topic string) {
		wait(time.Second)
		w.wantState(store.SubActive)
		for range 5 {
			wait(time.Until(time.UnixMicro(int64(w.the().Renew))) - time.Second)
			if err := w.k.Denied(t.Context(), w.the(), "go"); err != nil {
				t.Fatal(err)
			}
			wait(time.Minute)
			w.wantState(store.SubActive)
			if n := w.live(topic); n != 1 {
				t.Fatalf("%d leases live, and we say: %+v", n, w.the())
			}
		}
	})
}
