package hub

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"resyncd/destination/websub"
)

const aTopic = "http://source.example/topic"

// TestRequests: what is accepted, and what is refused with which reason (H-01, H-02, H-03, H-16, H-17).
func TestRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.maxBody = 1000 })
	s := newSubscriber(t)
	good := url.Values{"hub.mode": {"subscribe"}, "hub.callback": {s.URL + "/cb"}, "hub.topic": {aTopic}}
	with := func(pairs ...string) string {
		v := url.Values{}
		for name, values := range good {
			v[name] = values
		}
		for i := 0; i < len(pairs); i += 2 {
			if v.Del(pairs[i]); pairs[i+1] != "" {
				v.Set(pairs[i], pairs[i+1])
			}
		}
		return v.Encode()
	}
	link := func(v ...string) http.Header { return http.Header{"Link": v} }
	for name, c := range map[string]struct {
		method, kind, body string
		header             http.Header
		status             int
		says               string
	}{
		"subscribe":          {"POST", websub.FormType, with(), nil, 202, ""},
		"with secret":        {"POST", websub.FormType, with("hub.secret", strings.Repeat("s", 199)), nil, 202, ""},
		"with charset":       {"POST", websub.FormType + "; charset=UTF-8", with(), nil, 202, ""},
		"unknown parameters": {"POST", websub.FormType, with("hub.new", "1", "x", "y"), nil, 202, ""},
		"long lease":         {"POST", websub.FormType, with("hub.lease_seconds", "99999999999999999999"), nil, 202, ""},
		"short lease":        {"POST", websub.FormType, with("hub.lease_seconds", "1"), nil, 202, ""},
		"unsubscribe":        {"POST", websub.FormType, with("hub.mode", "unsubscribe"), nil, 202, ""},
		"unreachable":        {"POST", websub.FormType, with("hub.callback", "http://127.0.0.1:1/"), nil, 202, ""},

		"get":               {"GET", "", "", nil, 405, "POST"},
		"put":               {"PUT", websub.FormType, with(), nil, 405, "POST"},
		"json":              {"POST", "application/json", "{}", nil, 415, "Content-Type"},
		"no type":           {"POST", "", with(), nil, 415, "Content-Type"},
		"no mode":           {"POST", websub.FormType, with("hub.mode", ""), nil, 400, "hub.mode"},
		"odd mode":          {"POST", websub.FormType, with("hub.mode", "denied"), nil, 400, "hub.mode"},
		"no callback":       {"POST", websub.FormType, with("hub.callback", ""), nil, 400, "hub.callback"},
		"ftp callback":      {"POST", websub.FormType, with("hub.callback", "ftp://h/"), nil, 400, "hub.callback"},
		"callback fragment": {"POST", websub.FormType, with("hub.callback", s.URL+"/#a"), nil, 400, "hub.callback"},
		"callback user":     {"POST", websub.FormType, with("hub.callback", "http://u:p@h/"), nil, 400, "hub.callback"},
		"no topic":          {"POST", websub.FormType, with("hub.topic", ""), nil, 400, "hub.topic"},
		"odd topic":         {"POST", websub.FormType, with("hub.topic", "topic"), nil, 400, "hub.topic"},
		"topic fragment":    {"POST", websub.FormType, with("hub.topic", aTopic+"#x"), nil, 400, "hub.topic"},
		"secret too long":   {"POST", websub.FormType, with("hub.secret", strings.Repeat("s", 200)), nil, 400, "hub.secret"},
		"lease word":        {"POST", websub.FormType, with("hub.lease_seconds", "abc"), nil, 400, "hub.lease_seconds"},
		"lease 0":           {"POST", websub.FormType, with("hub.lease_seconds", "0"), nil, 400, "hub.lease_seconds"},
		"lease below 0":     {"POST", websub.FormType, with("hub.lease_seconds", "-5"), nil, 400, "hub.lease_seconds"},
		"lease fraction":    {"POST", websub.FormType, with("hub.lease_seconds", "1.5"), nil, 400, "hub.lease_seconds"},
		"form too large":    {"POST", websub.FormType, with("x", strings.Repeat("x", 70_000)), nil, 413, "large"},

		"ping by url":    {"POST", websub.FormType, "hub.mode=publish&hub.url=http%3A%2F%2Fa%2F&hub.url=http%3A%2F%2Fb%2F", nil, 204, ""},
		"ping by topic":  {"POST", websub.FormType, "hub.mode=publish&hub.topic=http%3A%2F%2Fa%2F", nil, 202, ""},
		"ping by both":   {"POST", websub.FormType, "hub.mode=publish&hub.url=http%3A%2F%2Fa%2F&hub.topic=http%3A%2F%2Fa%2F", nil, 202, ""},
		"ping nothing":   {"POST", websub.FormType, "hub.mode=publish", nil, 400, "hub.url"},
		"ping of no URL": {"POST", websub.FormType, "hub.mode=publish&hub.url=a", nil, 400, "hub.url"},

		"content":            {"POST", "application/xml", "<urlset/>", link(`<` + aTopic + `>; rel="self"`), 202, ""},
		"content, no type":   {"POST", "", "<urlset/>", link(`<` + aTopic + `>; rel="self"`), 202, ""},
		"content, no topic":  {"POST", "application/xml", "<urlset/>", link(`<http://h/>; rel="hub"`), 415, "rel=\"self\""},
		"content, odd topic": {"POST", "application/xml", "<urlset/>", link(`<ftp://h/>; rel="self"`), 400, "rel=\"self\""},
		"content, 2 topics":  {"POST", "application/xml", "<urlset/>", link(`<http://h/>; rel=self, <http://i/>; rel=self`), 400, "more than one"},
		"content too large":  {"POST", "application/xml", strings.Repeat("x", 1001), link(`<` + aTopic + `>; rel="self"`), 413, "large"},
		"coded content": {"POST", "application/xml", "x", http.Header{"Link": {`<` + aTopic + `>; rel="self"`}, "Content-Encoding": {"gzip"}},
			415, "Content-Encoding"},
		"content through a proxy": {"POST", "application/xml", "x", http.Header{"Link": {`<` + aTopic + `>; rel="self"`},
			"X-Forwarded-For": {"1.2.3.4"}}, 403, "proxy"},
		"content from a page": {"POST", "application/xml", "x", http.Header{"Link": {`<` + aTopic + `>; rel="self"`},
			"Origin": {"http://evil.example"}}, 403, "browser"},
	} {
		resp, text := r.say(c.method, c.kind, c.body, c.header)
		if resp.StatusCode != c.status || !strings.Contains(text, c.says) || c.says == "" && text != "" {
			t.Errorf("%s: answered %d %q, want %d and %q", name, resp.StatusCode, text, c.status, c.says)
		}
		if c.status >= 400 && resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s: reason as %s", name, resp.Header.Get("Content-Type"))
		}
		if c.status == 405 && resp.Header.Get("Allow") != "POST" {
			t.Errorf("%s: allows %q", name, resp.Header.Get("Allow"))
		}
	}
	for path, want := range map[string]int{"/hub": 202, "/hub/": 202, "/": 202, "/other": 404, "/hub/x": 404} {
		if resp, text := r.sayTo(r.http.URL+path, "POST", websub.FormType, with("hub.callback", s.URL+"/cb?"+path), nil); resp.StatusCode != want {
			t.Errorf("%s: %d %q, want %d", path, resp.StatusCode, text, want)
		}
	}
}

// TestPublisherToken: with a token, nothing else counts.
func TestPublisherToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.PublisherToken = "let me in" })
	for auth, want := range map[string]int{"": 401, "Bearer let me": 401, "Basic let me in": 401, "Bearer": 401, "Bearer let me in": 202, "bearer let me in": 202} {
		h := http.Header{"Link": {`<` + aTopic + `>; rel="self"`}, "Authorization": {auth}, "X-Forwarded-For": {"1.2.3.4"}}
		if resp, _ := r.say("POST", "application/xml", "x", h); resp.StatusCode != want {
			t.Errorf("%q: %d, want %d", auth, resp.StatusCode, want)
		}
	}
	o := Options{}
	for addr, want := range map[string]bool{"127.0.0.1:5": true, "[::1]:5": true, "[::ffff:127.0.0.1]:5": true, "10.0.0.1:5": false, "1.2.3.4:5": false, "pipe": false} {
		if err := o.isPublisher(&http.Request{RemoteAddr: addr}); (err == nil) != want {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

// TestVerification: the request of websub.md 2.2 and what counts as consent (H-04, H-05, H-06).
func TestVerification(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.defaultLease = 1234 * time.Second })
	s := newSubscriber(t)
	const callback = "/cb?hub.topic=mine&k=a%20b;c"
	e := r.subscribed(s, callback, aTopic+"?a=1&b=%2F", "hub.secret", "x")
	if e.Subscription == 0 {
		t.Errorf("%+v", e)
	}
	r.form(202, "hub.mode", "subscribe", "hub.callback", s.URL+callback, "hub.topic", aTopic+"?a=1&b=%2F")
	v := next(t, s.asked)
	if !strings.HasPrefix(v.target, callback+"&hub.") {
		t.Errorf("asked for %s", v.target)
	}
	q, err := url.ParseQuery(strings.TrimPrefix(v.target, callback+"&"))
	if err != nil || q.Get("hub.mode") != "subscribe" || q.Get("hub.topic") != aTopic+"?a=1&b=%2F" || q.Get("hub.lease_seconds") != "1234" ||
		!websub.ValidChallenge(q.Get("hub.challenge")) || len(q.Get("hub.challenge")) < 22 || q.Has("hub.verify_token") {
		t.Errorf("asked %v, %v", q, err)
	}
	r.form(202, "hub.mode", "unsubscribe", "hub.callback", s.URL+callback, "hub.topic", aTopic+"?a=1&b=%2F")
	u := next(t, s.asked)
	q2, _ := url.ParseQuery(strings.TrimPrefix(u.target, callback+"&"))
	if q2.Get("hub.mode") != "unsubscribe" || q2.Get("hub.challenge") == q.Get("hub.challenge") {
		t.Errorf("asked %v", q2)
	}
	if e := r.event(eventEnded); e.Why != "unsubscribed" {
		t.Errorf("%+v", e)
	}

	for name, answer := range map[string]func(http.ResponseWriter, url.Values){
		"404":     func(w http.ResponseWriter, _ url.Values) { w.WriteHeader(404) },
		"other":   func(w http.ResponseWriter, _ url.Values) { io.WriteString(w, "something") },
		"newline": func(w http.ResponseWriter, q url.Values) { io.WriteString(w, q.Get("hub.challenge")+"\n") },
		"empty":   func(w http.ResponseWriter, q url.Values) {},
		"in json": func(w http.ResponseWriter, q url.Values) { fmt.Fprintf(w, "%q", q.Get("hub.challenge")) },
		"with more": func(w http.ResponseWriter, q url.Values) {
			io.WriteString(w, q.Get("hub.challenge")+strings.Repeat(" ", 9000))
		},
		"404 with the challenge": func(w http.ResponseWriter, q url.Values) {
			w.WriteHeader(404)
			io.WriteString(w, q.Get("hub.challenge"))
		},
		"redirect": func(w http.ResponseWriter, q url.Values) {
			w.Header().Set("Location", "/cb?hub.challenge="+q.Get("hub.challenge"))
			w.WriteHeader(302)
			io.WriteString(w, q.Get("hub.challenge"))
		},
	} {
		s.on(answer, nil)
		r.form(202, "hub.mode", "subscribe", "hub.callback", s.URL+"/cb", "hub.topic", aTopic)
		next(t, s.asked)
		if e := r.event(eventUnverified); e.Topic != aTopic {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if subs, err := r.hub.o.State.Subscriptions(t.Context()); err != nil || len(subs) != 0 {
		t.Errorf("subscriptions that nobody confirmed: %+v, %v", subs, err)
	}
	if len(s.asked) != 0 {
		t.Errorf("%d were asked again", len(s.asked))
	}
	// Any 2xx will do.
	s.on(func(w http.ResponseWriter, q url.Values) {
		w.WriteHeader(201)
		io.WriteString(w, q.Get("hub.challenge"))
	}, nil)
	r.subscribed(s, "/cb", aTopic)
}

// TestContent: what a subscriber gets (H-06, H-11, H-12, R-05).
func TestContent(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := newSubscriber(t)
	r.subscribed(s, "/plain?x=1", aTopic)
	r.subscribed(s, "/signed", aTopic, "hub.secret", "the secret")
	const body = "<?xml version='1.0'?>\r\n<urlset>\x00\xff</urlset>\n"
	for _, kind := range []string{"application/xml", "text/x;charset=ISO-8859-1 ; q=\"a b\""} {
		resp, text := r.say("POST", kind, body, http.Header{"Link": {`<` + aTopic + `> ; rel="self", <http://another.hub/> ; rel="hub"`, `<http://source.example/capabilitylist.xml> ; rel="resourcesync up"; type="a,b"`}})
		if resp.StatusCode != 202 {
			t.Fatalf("%d %s", resp.StatusCode, text)
		}
		for range 2 {
			h := next(t, s.got)
			if h.body != body || h.header.Get("Content-Type") != kind {
				t.Errorf("%q as %q", h.body, h.header.Get("Content-Type"))
			}
			links := h.header.Values("Link")
			if want := fmt.Sprintf(`<%s/hub>; rel="hub", <%s>; rel="self", <http://source.example/capabilitylist.xml>; rel="resourcesync up"; type="a,b"`,
				r.http.URL, aTopic); len(links) != 1 || links[0] != want {
				t.Errorf("Link %q, want %q", links, want)
			}
			signature := h.header.Get("X-Hub-Signature")
			switch h.target {
			case "/plain?x=1":
				if signature != "" {
					t.Errorf("signed without a secret: %s", signature)
				}
			case "/signed":
				if err := websub.VerifySignature(signature, "the secret", []byte(body), websub.SHA256); err != nil {
					t.Error(err)
				}
			default:
				t.Errorf("posted to %s", h.target)
			}
		}
	}
	r.push(202, "http://source.example/other", "nobody wants it")
	r.push(202, aTopic, "")
	if h := next(t, s.got); h.body != "" {
		t.Errorf("%q", h.body)
	}
}

// TestRenewal: it takes effect once it is verified, and there is one subscription for a pair (H-07).
func TestRenewal(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.Signature = websub.SHA512 })
	s := newSubscriber(t)
	first := r.subscribed(s, "/cb", aTopic, "hub.secret", "one", "hub.lease_seconds", "1000")
	signed := func(secret string) {
		t.Helper()
		r.push(202, aTopic, "x")
		h := next(t, s.got)
		err := websub.VerifySignature(h.header.Get("X-Hub-Signature"), secret, []byte("x"), websub.SHA512)
		if secret == "" && h.header.Get("X-Hub-Signature") == "" {
			err = nil
		}
		if err != nil {
			t.Errorf("secret %q: %v", secret, err)
		}
	}
	signed("one")
	s.on(func(w http.ResponseWriter, _ url.Values) { w.WriteHeader(404) }, nil)
	r.form(202, "hub.mode", "subscribe", "hub.callback", s.URL+"/cb", "hub.topic", aTopic, "hub.secret", "two", "hub.lease_seconds", "2000")
	r.event(eventUnverified)
	next(t, s.asked)
	signed("one")
	s.on(nil, nil)
	second := r.subscribed(s, "/cb", aTopic, "hub.secret", "two", "hub.lease_seconds", "2000")
	signed("two")
	third := r.subscribed(s, "/cb", aTopic, "hub.lease_seconds", "3000")
	signed("")
	if first.Subscription != second.Subscription || second.Subscription != third.Subscription {
		t.Errorf("subscriptions %d, %d, %d", first.Subscription, second.Subscription, third.Subscription)
	}
	subs, err := r.hub.o.State.Subscriptions(t.Context())
	if err != nil || len(subs) != 1 || subs[0].Expires.Time().Sub(subs[0].Verified.Time()) != 3000*time.Second {
		t.Errorf("%+v, %v", subs, err)
	}
}

func TestGrant(t *testing.T) {
	t.Parallel()
	o, err := Options{Base: "http://h/"}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	for asked, want := range map[int64]time.Duration{0: 240 * time.Hour, -1: 240 * time.Hour, 1: 300 * time.Second, 299: 300 * time.Second, 301: 301 * time.Second,
		2_592_000: 720 * time.Hour, 2_592_001: 720 * time.Hour, 1<<63 - 1: 720 * time.Hour} {
		if got := o.grant(asked); got != want {
			t.Errorf("%d: %v, want %v", asked, got, want)
		}
	}
}

// TestServed: prefixes are not fooled.
func TestServed(t *testing.T) {
	t.Parallel()
	o := Options{TopicPrefixes: []string{"https://example.org", "http://h.example/data/"}}
	for topic, want := range map[string]bool{
		"https://example.org": true, "https://example.org/": true, "https://example.org/a?b": true, "https://example.org?b": true,
		"https://example.org.evil.example/": false, "https://example.org@evil.example/": false, "https://example.org:444/": false,
		"http://example.org/": false, "http://h.example/data/x": true, "http://h.example/data": false, "http://h.example/data/../x": false,
		"http://h.example/data/..": false,
	} {
		if got := o.served(topic); got != want {
			t.Errorf("%s: %v", topic, got)
		}
	}
}
