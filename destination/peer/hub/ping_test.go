package hub

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestPing: a topic is read after the answer, conditionally, and unchanged content is not delivered (H-16).
func TestPing(t *testing.T) {
	t.Parallel()
	var asked []http.Header
	page, tag := "one", `"1"`
	requests := make(chan int, 10)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/moved" {
			http.Redirect(w, q, "/topic", http.StatusFound)
			return
		}
		asked = append(asked, q.Header)
		defer func() { requests <- 1 }()
		w.Header().Set("ETag", tag)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Link", `</caps>; rel=resourcesync, </topic>; rel=self, <http://x/>; rel=hub`)
		if q.Header.Get("If-None-Match") == tag {
			w.WriteHeader(304)
			return
		}
		io.WriteString(w, page)
	}))
	defer origin.Close()
	r := newRig(t, nil)
	s := newSubscriber(t)
	topic := origin.URL + "/moved"
	r.subscribed(s, "/cb", topic, "hub.secret", "x")

	r.form(202, "hub.mode", "publish", "hub.topic", topic, "hub.topic", "http://nobody.example/")
	h := next(t, s.got)
	if want := fmt.Sprintf(`<%s/hub>; rel="hub", <%s>; rel="self", <%s/caps>; rel="resourcesync"`, r.http.URL, topic, origin.URL); h.body != "one" ||
		h.header.Get("Content-Type") != "text/html; charset=utf-8" || h.header.Get("Link") != want {
		t.Errorf("%+v\nwant Link %s", h, want)
	}
	r.event(eventDelivered)
	r.form(204, "hub.mode", "publish", "hub.url", topic)
	r.event(eventUnchanged)
	if last := asked[len(asked)-1]; last.Get("If-None-Match") != `"1"` {
		t.Errorf("asked with %v", last)
	}
	tag = `"2"` // but the same bytes
	r.form(204, "hub.mode", "publish", "hub.url", topic)
	r.event(eventUnchanged)
	r.restart()
	r.form(204, "hub.mode", "publish", "hub.url", topic)
	r.event(eventUnchanged)
	if last := asked[len(asked)-1]; last.Get("If-None-Match") != `"2"` {
		t.Errorf("after a restart asked with %v", last)
	}
	page, tag = "two", `"3"`
	r.form(202, "hub.mode", "publish", "hub.url", topic, "hub.topic", topic)
	if h := next(t, s.got); h.body != "two" {
		t.Errorf("%+v", h)
	}
	// Content that came in full is the topic's content too.
	r.push(202, topic, "three")
	if h := next(t, s.got); h.body != "three" {
		t.Errorf("%+v", h)
	}
	page, tag = "three", `"4"`
	r.form(202, "hub.mode", "publish", "hub.topic", topic)
	r.event(eventUnchanged)
	if last := asked[len(asked)-1]; last.Get("If-None-Match") != "" {
		t.Errorf("after a push asked with %v", last)
	}
	if len(s.got) != 0 {
		t.Errorf("%d deliveries of unchanged content", len(s.got))
	}
}

// TestPingWithoutSubscribers: nothing is fetched for nobody.
func TestPingWithoutSubscribers(t *testing.T) {
	t.Parallel()
	origin := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("asked") }))
	defer origin.Close()
	r := newRig(t, nil)
	r.form(204, "hub.mode", "publish", "hub.url", origin.URL)
	r.form(202, "hub.mode", "publish", "hub.topic", origin.URL)
}
