package hub

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTopics: what is not served is denied (H-09), also what was served before, and cannot be published (H-17).
func TestTopics(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := newSubscriber(t)
	r.subscribed(s, "/old", aTopic)
	r.subscribed(s, "/good", "http://good.example/t")
	r.stop()
	r.o.TopicPrefixes = []string{"http://good.example/"}
	r.start()
	old := next(t, s.asked)
	if q, _ := url.ParseQuery(strings.TrimPrefix(old.target, "/old?")); q.Get("hub.mode") != "denied" || q.Get("hub.topic") != aTopic || q.Get("hub.reason") == "" {
		t.Errorf("%v", old)
	}
	r.form(202, "hub.mode", "subscribe", "hub.callback", s.URL+"/new", "hub.topic", aTopic)
	if d := next(t, s.asked); !strings.Contains(d.target, "hub.mode=denied") || strings.Contains(d.target, "challenge") {
		t.Errorf("%v", d)
	}
	r.push(403, aTopic, "x")
	r.form(403, "hub.mode", "publish", "hub.url", aTopic)
	r.form(409, "hub.mode", "subscribe", "hub.callback", s.URL+"/new", "hub.topic", aTopic, "hub.verify", "sync")
	r.push(202, "http://good.example/t", "x")
	if h := next(t, s.got); h.target != "/good" {
		t.Errorf("%v", h)
	}
	subs, err := r.hub.o.State.Subscriptions(t.Context())
	if err != nil || len(subs) != 1 {
		t.Errorf("%+v, %v", subs, err)
	}
}

// TestOldSubscribers: PubSubHubbub 0.3 (H-21).
func TestOldSubscribers(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := newSubscriber(t)
	ask := func(want int, params ...string) url.Values {
		t.Helper()
		r.form(want, append([]string{"hub.callback", s.URL + "/cb", "hub.topic", aTopic, "hub.verify_token", "tok&en"}, params...)...)
		q, _ := url.ParseQuery(strings.TrimPrefix(next(t, s.asked).target, "/cb?"))
		if q.Get("hub.verify_token") != "tok&en" {
			t.Errorf("%v", q)
		}
		return q
	}
	ask(204, "hub.mode", "subscribe", "hub.verify", "sync", "hub.verify", "async", "hub.lease_seconds", "")
	if subs, _ := r.hub.o.State.Subscriptions(t.Context()); len(subs) != 1 {
		t.Errorf("after 204: %+v", subs)
	}
	ask(202, "hub.mode", "subscribe", "hub.verify", "unheard-of", "hub.verify", "async")
	r.event(eventVerified)
	ask(202, "hub.mode", "subscribe")
	r.event(eventVerified)
	ask(204, "hub.mode", "unsubscribe", "hub.verify", "sync")
	if subs, _ := r.hub.o.State.Subscriptions(t.Context()); len(subs) != 0 {
		t.Errorf("after 204: %+v", subs)
	}
	s.on(func(w http.ResponseWriter, _ url.Values) { w.WriteHeader(404) }, nil)
	ask(409, "hub.mode", "subscribe", "hub.verify", "sync")
	s.on(func(w http.ResponseWriter, _ url.Values) { w.WriteHeader(503) }, nil)
	ask(409, "hub.mode", "subscribe", "hub.verify", "sync")
	if len(s.asked) != 0 {
		t.Error("asked again although somebody waits")
	}
}

// TestGuard: callbacks and topics on private addresses are not reached unless allowed (H-19).
func TestGuard(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for _, host := range []string{"10.0.0.1", "169.254.169.254", "[::1]", "192.168.1.1"} {
		r.form(202, "hub.mode", "subscribe", "hub.callback", "http://"+host+"/", "hub.topic", aTopic)
		if e := r.event(eventUnverified); !strings.Contains(e.Why, "not public") {
			t.Errorf("%s: %+v", host, e)
		}
	}
	s := newSubscriber(t)
	r.subscribed(s, "/cb", "http://10.0.0.1/topic")
	r.form(202, "hub.mode", "publish", "hub.topic", "http://10.0.0.1/topic")
	if e := r.event(eventUnreadable); !strings.Contains(e.Why, "not public") {
		t.Errorf("%+v", e)
	}
}

// TestAnswers: what a delivery's answer does (H-13, H-14).
func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		statuses []int
		bodies   string // that arrive, in order
		kinds    []eventKind
	}{
		"any 2xx":   {[]int{200, 204, 299}, "abc", []eventKind{eventDelivered, eventDelivered, eventDelivered}},
		"redirect":  {[]int{302, 307, 200}, "aaabc", []eventKind{eventFailed, eventFailed, eventDelivered, eventDelivered, eventDelivered}},
		"errors":    {[]int{500, 404, 400, 200}, "aaaabc", []eventKind{eventFailed, eventFailed, eventFailed, eventDelivered, eventDelivered, eventDelivered}},
		"too large": {[]int{413, 200}, "abc", []eventKind{eventDropped, eventDelivered, eventDelivered}},
		"for ever":  {[]int{500, 500, 500, 500, 500, 500, 200}, "aaaaaabc", []eventKind{eventFailed, eventFailed, eventFailed, eventFailed, eventFailed, eventDropped, eventDelivered, eventDelivered}},
		"gone":      {[]int{200, 410}, "ab", []eventKind{eventDelivered, eventEnded}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(o *Options) { o.RetryBase = time.Millisecond })
			s := newSubscriber(t)
			r.subscribed(s, "/cb", aTopic)
			s.on(nil, func(w http.ResponseWriter, n int) int {
				w.Header().Set("Location", "/elsewhere")
				if n < len(c.statuses) {
					return c.statuses[n]
				}
				return 200
			})
			var kinds []eventKind
			for _, body := range []string{"a", "b", "c"} {
				r.push(202, aTopic, body)
			}
			for len(kinds) < len(c.kinds) {
				if e := <-r.events; e.Kind != eventPublished {
					kinds = append(kinds, e.Kind)
				}
			}
			got := ""
			for len(s.got) > 0 {
				h := <-s.got
				if got += h.body; h.target != "/cb" {
					t.Errorf("posted to %s", h.target)
				}
			}
			if got != c.bodies || !slices.Equal(kinds, c.kinds) {
				t.Errorf("got %q, %v\nwant %q, %v", got, kinds, c.bodies, c.kinds)
			}
		})
	}
}

// TestNewcomer: what is published the moment after a subscriber confirmed reaches it, and one that hangs holds nobody up.
func TestNewcomer(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.leisure = 60 })
	hang := make(chan struct{})
	tarpit := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer tarpit.Close()
	defer close(hang)
	s := newSubscriber(t)
	for i := range 20 {
		topic := fmt.Sprintf("%s/%d", aTopic, i)
		answered := make(chan struct{})
		s.on(func(w http.ResponseWriter, q url.Values) {
			io.WriteString(w, q.Get("hub.challenge"))
			w.(http.Flusher).Flush()
			close(answered)
		}, nil)
		r.form(202, "hub.mode", "subscribe", "hub.callback", s.URL+"/cb", "hub.topic", topic)
		<-answered
		r.push(202, topic, topic)
		if h := next(t, s.got); h.body != topic {
			t.Errorf("got %s, want %s", h.body, topic)
		}
	}
	r = newRig(t, nil)
	r.form(202, "hub.mode", "subscribe", "hub.callback", tarpit.URL, "hub.topic", aTopic)
	began := time.Now()
	r.push(202, aTopic, "x")
	if took := time.Since(began); took > verifyTimeout {
		t.Errorf("a publisher was held up for %v", took)
	}
}
