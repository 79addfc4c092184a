package subscribe

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/store"
)

// TestYear keeps a thousand subscriptions for a year at hubs of every sort: no lease lapses that could have been kept, no
// subscription asks more than once in five seconds, and nobody is asked more than the back-off allows. Two hundred do under
// the race detector.
func TestYear(t *testing.T) {
	if testing.Short() {
		t.Skip("a virtual year")
	}
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 7)
		w.keepLog = false
		sorts := []struct {
			name   string
			n      int // subscriptions
			each   int // of them at one host
			act    behaviour
			yearly int  // requests that one subscription may need in a year
			kept   bool // has a lease at the end
		}{
			// 365 days at 10 days, renewed after 2/3: 55, and 12 rotations with their unsubscriptions.
			{"good", 415, 100, good, 100, true},
			{"inline", 150, 50, inline, 100, true},
			{"twice", 50, 25, twice, 100, true},
			{"slow", 100, 50, slowly, 100, true},
			{"forgetful", 50, 50, forgetful, 100, true},
			{"flaky", 100, 25, flaky, 3000, true},
			{"liar", 50, 25, liar, 1500, true},
			{"strict", 25, 25, strict, 150, true},
			{"old", 25, 25, old03, 700, true},
			{"skipping", 10, 10, skipping, 700, false},
			{"silent", 4, 2, silent, 9000, false},
			{"denying", 20, 10, denying, 400, false},
			{"dead", 1, 1, nil, 30*24*60/4 + 100, false},
		}
		if raced {
			for i := range sorts {
				sorts[i].n = (sorts[i].n + 4) / 5
			}
		}
		id := int64(0)
		topics := map[string][]string{}
		for _, s := range sorts {
			for i := range s.n {
				host := fmt.Sprintf("%s%d.example", s.name, i/s.each)
				if s.act != nil {
					w.behave[host] = s.act
				}
				id++
				topics[s.name] = append(topics[s.name], w.source(id, "https://"+host+"/hub"))
			}
		}
		w.k.o.Rediscover = func(ctx context.Context, sourceID, _ int64) error {
			switch sourceID % 10 {
			case 3:
				return fmt.Errorf("no answer")
			case 7:
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		if id != 1000 && !raced {
			t.Fatalf("%d subscriptions", id)
		}
		stop := w.run()
		wait(30 * 24 * time.Hour)
		if err := w.k.DropSource(t.Context(), id); err != nil { // the dead one
			t.Error(err)
		}
		wait(335 * 24 * time.Hour)
		stop()
		wait(time.Minute)
		w.report()
		for _, s := range sorts {
			total := 0
			for host, n := range w.total {
				if len(host) > len(s.name) && host[:len(s.name)] == s.name {
					total += n
				}
			}
			t.Logf("%-10s %8d requests, %.1f for each subscription", s.name, total, float64(total)/float64(s.n))
			if total > s.n*s.yearly {
				t.Errorf("%s: %d requests for %d subscriptions", s.name, total, s.n)
			}
			for _, topic := range topics[s.name] {
				if s.kept && s.name != "forgetful" && s.name != "flaky" && s.name != "liar" && w.live(topic) == 0 {
					t.Errorf("%s: %s has no lease at the end", s.name, topic)
				}
			}
		}
		states := map[store.SubscriptionState]int{}
		for i := range id {
			for _, s := range w.subs(i + 1) {
				states[s.State]++
			}
		}
		t.Log(states)
	})
}
