package subscribe

import (
	"fmt"
	"testing"
	"time"

	"resyncd/destination/fetch"
	"resyncd/store"
)

// TestAnyAcceptance: hubs say with any 2xx that they took a request (F27), and with whatever else that they did not.
func TestAnyAcceptance(t *testing.T) {
	for status, state := range map[int]store.SubscriptionState{
		200: store.SubActive, 201: store.SubActive, 202: store.SubActive, 203: store.SubActive, 204: store.SubActive, 206: store.SubActive,
		226: store.SubActive, 299: store.SubActive, 304: store.SubFailed, 402: store.SubFailed, 418: store.SubFailed, 501: store.SubFailed,
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			one(t, []string{hubA}, func(w *world) {
				w.behave["a.example"] = func(w *world, r request) *fetch.Answer {
					if state == store.SubActive {
						w.serve(r, "3600", time.Hour)
					}
					return answer(status)
				}
			}, func(w *world, _ string) {
				wait(time.Minute)
				s := w.wantState(state)
				if n := len(w.asks()); state == store.SubActive && n != 1 {
					t.Errorf("asked %d times", n)
				}
				if (s.Reason == "") != (state == store.SubActive) {
					t.Errorf("the reason is %q", s.Reason)
				}
			})
		})
	}
}
