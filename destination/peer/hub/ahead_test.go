package hub

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
)

// pushing publishes content and returns the status to come.
func (r *rig) pushing(topic, body string) chan int {
	status := make(chan int, 1)
	go func() {
		resp, _ := r.say(http.MethodPost, "application/xml", body, http.Header{"Link": {fmt.Sprintf(`<%s>; rel="self"`, topic)}})
		status <- resp.StatusCode
	}()
	return status
}

// TestDeliverAhead delivers what is being recorded, and answers its publisher when it is.
func TestDeliverAhead(t *testing.T) {
	t.Parallel()
	r, f := newFailing(t)
	s := newSubscriber(t)
	r.subscribed(s, "/cb", aTopic)
	fate := make(chan error)
	ask := func() error { return <-fate }
	f.before.Store(&ask)
	for i, body := range []string{"a", "b", "c"} {
		status := r.pushing(aTopic, body)
		if h := next(t, s.got); h.body != body {
			t.Errorf("got %q, want %q", h.body, body)
		}
		select {
		case got := <-status:
			t.Errorf("answered %d before it was recorded", got)
		default:
		}
		fate <- nil
		if got := <-status; got != http.StatusAccepted {
			t.Errorf("answered %d", got)
		}
		if e := r.event(eventDelivered); e.Number != int64(i+1) {
			t.Errorf("delivered number %d, want %d", e.Number, i+1)
		}
	}
}

// TestDeliverAheadInVain has what was delivered ahead not be recorded: the next notification gets its number, and is delivered
// all the same, whether the subscriber answers before the failure, before the next one is recorded, or after that.
func TestDeliverAheadInVain(t *testing.T) {
	t.Parallel()
	for _, answered := range []string{"before", "between", "after"} {
		t.Run(answered, func(t *testing.T) {
			t.Parallel()
			r, f := newFailing(t)
			s := newSubscriber(t)
			arrived, answer := make(chan struct{}, 10), make(chan struct{}, 10)
			s.on(nil, func(http.ResponseWriter, int) int {
				arrived <- struct{}{}
				<-answer
				return http.StatusOK
			})
			r.subscribed(s, "/cb", aTopic)
			fate := make(chan error)
			ask := func() error { return <-fate }
			f.before.Store(&ask)
			heard := func(want string) {
				t.Helper()
				if h := next(t, s.got); h.body != want {
					t.Errorf("got %q, want %q", h.body, want)
				}
			}
			status := r.pushing(aTopic, "a")
			<-arrived
			if answered == "before" {
				answer <- struct{}{}
				heard("a")
			}
			fate <- errors.New("input/output error")
			if got := <-status; got != http.StatusServiceUnavailable {
				t.Errorf("answered %d", got)
			}
			if answered == "between" {
				answer <- struct{}{}
				heard("a")
			}
			status = r.pushing(aTopic, "b")
			fate <- nil
			if got := <-status; got != http.StatusAccepted {
				t.Errorf("answered %d", got)
			}
			if answered == "after" {
				answer <- struct{}{}
				heard("a")
			}
			answer <- struct{}{}
			heard("b")
			if e := r.event(eventDelivered); e.Number != 1 {
				t.Errorf("delivered number %d, want 1", e.Number)
			}
		})
	}
}
