package subscribe

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"resyncd/destination/fetch"
)

func answer(status int) *fetch.Answer { return &fetch.Answer{Status: status, Header: http.Header{}} }

func refusal(status int, body string) *fetch.Answer {
	return &fetch.Answer{Status: status, Header: http.Header{}, Body: []byte(body)}
}

// askedLease reads the lease that a request asks for.
func askedLease(r request) time.Duration {
	n, err := strconv.Atoi(r.form.Get("hub.lease_seconds"))
	if err != nil {
		return 10 * 24 * time.Hour
	}
	return time.Duration(n) * time.Second
}

func seconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }

// later does something after a while, as hubs do.
func later(d time.Duration, f func()) {
	go func() {
		<-time.After(d)
		f()
	}()
}

// good accepts, and verifies a moment later.
func good(w *world, r request) *fetch.Answer {
	later(time.Duration(w.random()*float64(2*time.Second)), func() {
		l := askedLease(r)
		w.serve(r, seconds(l), l)
	})
	return answer(202)
}

// inline verifies inside of the request (S-23).
func inline(w *world, r request) *fetch.Answer {
	l := askedLease(r)
	if !w.serve(r, seconds(l), l) {
		return refusal(409, "you did not confirm")
	}
	return answer(202)
}

// outage tells when a flaky hub is down: eight hours every three days, and for minutes each hour.
func outage(host string, at time.Time) bool {
	if !strings.HasPrefix(host, "flaky") {
		return false
	}
	u := at.Unix()
	return u%(3*86400) < 8*3600 || u%3600 < 600
}

// flaky fails in bursts.
func flaky(w *world, r request) *fetch.Answer {
	if outage(r.host, r.at) {
		if w.random() < 0.5 {
			return nil
		}
		return answer(503)
	}
	return good(w, r)
}

var lies = []struct {
	text string
	real time.Duration
}{
	{"0", 24 * time.Hour}, {"-1", 24 * time.Hour}, {"1", time.Second}, {"10000000000", 300 * 24 * time.Hour},
	{"", 24 * time.Hour}, {"abc", 24 * time.Hour}, {"1000000000", 300 * 24 * time.Hour}, {"61", 61 * time.Second}, {"86400.5", 24 * time.Hour},
}

// liar grants strange leases.
func liar(w *world, r request) *fetch.Answer {
	later(time.Second, func() {
		lie := lies[int(w.random()*float64(len(lies)))]
		w.serve(r, lie.text, lie.real)
	})
	return answer(202)
}

// silent accepts, and that was all.
func silent(*world, request) *fetch.Answer { return answer(202) }

// denying accepts and denies.
func denying(w *world, r request) *fetch.Answer {
	later(time.Second, func() {
		ctx := context.Background()
		sub, err := w.st.SubscriptionByToken(ctx, strings.TrimPrefix(r.form.Get("hub.callback"), callbackBase))
		if err != nil {
			w.t.Errorf("denial: %v", err)
		}
		w.mu.Lock()
		k := w.k
		w.mu.Unlock()
		if k == nil { // nobody listens
			return
		}
		if err := k.Denied(ctx, sub, "not you"); err != nil && !errors.Is(err, errCrashed) {
			w.t.Errorf("denial: %v", err)
		}
	})
	return answer(202)
}

// slowly answers after 25 seconds.
func slowly(w *world, r request) *fetch.Answer {
	<-time.After(25 * time.Second)
	return good(w, r)
}

// twice verifies two times.
func twice(w *world, r request) *fetch.Answer {
	later(time.Second, func() {
		l := askedLease(r)
		if w.serve(r, seconds(l), l) {
			<-time.After(3 * time.Second)
			if r.form.Get("hub.mode") == "subscribe" && !w.verify(r, seconds(l)) {
				w.t.Errorf("second verification was not confirmed (S-35)")
			}
		}
	})
	return answer(202)
}

// strict refuses whatever it does not know, and knows little.
func strict(w *world, r request) *fetch.Answer {
	for name := range r.form {
		switch name {
		case "hub.callback", "hub.mode", "hub.topic", "hub.secret":
		default:
			return refusal(400, "what is "+name+"?")
		}
	}
	return good(w, r)
}

// old03 is the hub of resourcesync_push: it wants hub.verify, verifies inside, and cannot take a lease.
func old03(w *world, r request) *fetch.Answer {
	if r.form.Get("hub.verify") == "" {
		return refusal(400, "hub.verify is missing")
	}
	if !w.verify(r, "") {
		return answer(409)
	}
	if r.form.Has("hub.lease_seconds") {
		return refusal(409, "unsupported operand type(s)")
	}
	w.hold(r, 24*time.Hour)
	return answer(204)
}

// skipping says 204 and verifies nothing.
func skipping(w *world, r request) *fetch.Answer {
	w.hold(r, 24*time.Hour)
	return answer(204)
}

// forgetful is good and forgets all from time to time.
func forgetful(w *world, r request) *fetch.Answer {
	if w.random() < 0.05 {
		w.mu.Lock()
		for key, l := range w.leases {
			if l.host == r.host {
				delete(w.leases, key)
			}
		}
		w.mu.Unlock()
	}
	return good(w, r)
}
