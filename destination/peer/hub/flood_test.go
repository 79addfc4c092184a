package hub

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/destination/websub"
)

// subscribeFrom asks for a subscription from an address and returns the status.
func (b *bubble) subscribeFrom(addr, callback string) int {
	v := url.Values{"hub.mode": {"subscribe"}, "hub.callback": {callback}, "hub.topic": {aTopic}}
	q := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(v.Encode()))
	q.RemoteAddr = addr
	q.Header.Set("Content-Type", websub.FormType)
	w := httptest.NewRecorder()
	b.hub.Handler().ServeHTTP(w, q)
	return w.Code
}

// TestFlood: one client that asks for subscriptions without end, with callbacks that never answer, shuts the hub for nobody:
// living leases are renewed, and others subscribe, as quickly as ever. Only whoever owns names without end, and comes from where a
// proxy stands for many, keeps new subscribers out, but takes no living lease away.
func TestFlood(t *testing.T) {
	t.Parallel()
	for name, flood := range map[string]struct {
		client, callback string
		shut             bool // for new subscribers
	}{
		"a wildcard name": {"127.0.0.1:1", "http://n%[1]d.flood.example/", false}, // from behind a proxy
		"a name service":  {"127.0.0.1:1", "http://n%[1]d-192-0-2-1.nip.io/", false},
		"one network":     {"127.0.0.1:1", "http://[2001:db8::%[1]x]/", false},
		"one client":      {"203.0.113.9:1", "http://n%[1]d.flood%[1]d.example/", false},
		"many names":      {"127.0.0.1:1", "http://n%[1]d.flood%[1]d.example/", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, Options{}, func(b *bubble) {
				b.subscribe(cb)
				before := b.subscriptions()[0].Expires
				b.net.change(func(n *still) {
					n.lags = func(to string) time.Duration {
						if strings.HasPrefix(to, cb) || strings.HasPrefix(to, "http://late.example/") {
							return 0
						}
						return verifyTimeout
					}
				})
				asked := 0
				for n := range waitingMost {
					if b.subscribeFrom(flood.client, fmt.Sprintf(flood.callback, n+1)) == http.StatusAccepted {
						asked++
					}
				}
				if asked < 1000 {
					t.Errorf("only %d were taken", asked)
				}
				pass(time.Second)
				if code := b.subscribeFrom("203.0.113.7:1", cb); code != http.StatusAccepted {
					t.Errorf("a renewal was answered %d", code)
				}
				if code := b.subscribeFrom("203.0.113.8:1", "http://late.example/"); (code != http.StatusAccepted) != flood.shut {
					t.Errorf("a new subscriber was answered %d", code)
				}
				pass(time.Second)
				synctest.Wait()
				renewed, late := false, false
				for _, s := range b.subscriptions() {
					renewed = renewed || s.Callback == cb && s.Expires > before
					late = late || s.Callback == "http://late.example/"
				}
				if !renewed || late == flood.shut {
					t.Errorf("renewed: %v, a new one subscribed: %v", renewed, late)
				}
			})
		})
	}
}
