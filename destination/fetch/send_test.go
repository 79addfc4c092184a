package fetch

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// heard is what a peer was told.
type heard struct {
	Method, URI, Body string
	Length            int64
	Header            http.Header
}

// listener notes every request before h answers it.
type listener struct {
	mu  sync.Mutex
	all []heard
}

func (l *listener) note(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		l.mu.Lock()
		l.all = append(l.all, heard{r.Method, r.RequestURI, string(body), r.ContentLength, r.Header})
		l.mu.Unlock()
		h(w, r)
	}
}

func (l *listener) take() []heard {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

func TestSendIsHeardAsItIs(t *testing.T) {
	t.Parallel()
	var l listener
	c, base := serve(t, Options{UserAgent: "resyncd/test"}, l.note(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Set-Cookie", "a=b")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "later")
	}))
	theirs := http.Header{
		"Content-Type": {"application/x-www-form-urlencoded"}, "X-Hub-Signature": {"sha256=00"}, "Link": {`<a>; rel="hub"`, "<b>"},
		"User-Agent": {"other"}, "Expect": {"100-continue"}, "Referer": {base}, "Content-Length": {"7"}, "Transfer-Encoding": {"chunked"},
		"Connection": {"close"}, "Host": {"evil.example"}, "Accept-Encoding": {"br"}, "Te": {"trailers"}, "Upgrade": {"h2c"},
	}
	for range 2 { // the second on the same connection, without a cookie
		a, err := c.Send(t.Context(), Message{URL: base + "/a%2Fb?x=1;y#part", Header: theirs, Body: []byte("a=b")})
		if err != nil {
			t.Fatal(err)
		}
		if a.Status != http.StatusAccepted || string(a.Body) != "later" || a.Cut || a.URL != base+"/a%2Fb?x=1;y" || a.RetryAfter != 0 {
			t.Errorf("%+v", a)
		}
	}
	want := heard{http.MethodPost, "/a%2Fb?x=1;y", "a=b", 3, http.Header{
		"User-Agent": {"resyncd/test"}, "Accept-Encoding": {"identity"}, "Content-Length": {"3"},
		"Content-Type": {"application/x-www-form-urlencoded"}, "X-Hub-Signature": {"sha256=00"}, "Link": {`<a>; rel="hub"`, "<b>"},
	}}
	if d := cmp.Diff([]heard{want, want}, l.take()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for method, length := range map[string]string{"GET": "", "POST": "0", "DELETE": ""} {
		if _, err := c.Send(t.Context(), Message{Method: method, URL: base}); err != nil {
			t.Fatal(err)
		}
		if got := l.take()[0]; got.Method != method || got.Header.Get("Content-Length") != length || got.Body != "" {
			t.Errorf("%s: %+v", method, got)
		}
	}
}

func TestAnyStatusIsAnAnswer(t *testing.T) {
	t.Parallel()
	c, base := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.URL.Query().Get("s"))
		if status >= 300 && status < 400 {
			w.Header().Set("Location", "/else")
		}
		if v := r.URL.Query().Get("after"); v != "" {
			w.Header().Set("Retry-After", v)
		}
		w.WriteHeader(status)
	})
	for _, s := range []int{200, 201, 202, 204, 301, 302, 303, 304, 307, 308, 400, 401, 404, 409, 410, 429, 500, 503, 599, 799} {
		a, err := c.Send(t.Context(), Message{URL: fmt.Sprintf("%s/?s=%d", base, s), Body: []byte("x")})
		if err != nil || a.Status != s || a.Cut {
			t.Errorf("%d: %+v, %v", s, a, err)
		}
	}
	// 301, 302, 303 would come back as a GET with most clients, whose 200 looks like success.
	for _, s := range []int{301, 302, 303, 300, 305} {
		a, err := c.Send(t.Context(), Message{URL: fmt.Sprintf("%s/?s=%d", base, s), Body: []byte("x"), Repeat: 5})
		if err != nil || a.Status != s || a.Header.Get("Location") != "/else" {
			t.Errorf("%d: %+v, %v", s, a, err)
		}
	}
	for v, want := range map[string]time.Duration{
		"120": 2 * time.Minute, "0": 0, "-1": 0, "soon": 0, "9223372036854775807": time.Hour, "1e3": 0,
		"Fri, 31 Dec 9999 23:59:59 GMT": time.Hour, "Thu, 01 Jan 1970 00:00:00 GMT": 0,
	} {
		for _, status := range []string{"503", "429", "202"} {
			a, err := c.Send(t.Context(), Message{URL: base + "/?s=" + status + "&after=" + url.QueryEscape(v)})
			if err != nil || a.RetryAfter != want {
				t.Errorf("%q: %+v, %v", v, a, err)
			}
		}
	}
	// No pace, no circuit: a host that only fails is asked all the same.
	for range 50 {
		if _, err := c.Send(t.Context(), Message{URL: base + "/?s=503&after=3600"}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRepeats(t *testing.T) {
	t.Parallel()
	var l listener
	var base string
	c, base := serve(t, Options{}, l.note(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		status, _ := strconv.Atoi(q.Get("s"))
		var n int
		switch _, _ = fmt.Sscanf(r.URL.Path, "/chain/%d", &n); {
		case n > 0:
			w.Header().Set("Location", fmt.Sprintf("%d?s=%d", n-1, status))
			w.WriteHeader(status)
		case r.URL.Path == "/loop":
			w.Header().Set("Location", base+"/loop?s=307")
			w.WriteHeader(http.StatusTemporaryRedirect)
		case q.Has("to"):
			w.Header()["Location"] = []string{q.Get("to")}
			w.WriteHeader(status)
			_, _ = w.Write(make([]byte, 100<<10))
		case r.URL.Path == "/nowhere":
			w.WriteHeader(http.StatusTemporaryRedirect)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	type result struct {
		Status, Requests int
		Path             string
		Kind             Kind
	}
	for in, want := range map[string]result{
		"/chain/0":                         {Status: 202, Requests: 1, Path: "/chain/0"},
		"/chain/5?s=307":                   {Status: 202, Requests: 6, Path: "/chain/0?s=307"},
		"/chain/5?s=308":                   {Status: 202, Requests: 6, Path: "/chain/0?s=308"},
		"/chain/6?s=308":                   {Requests: 6, Kind: Refused},
		"/chain/2?s=303":                   {Status: 303, Requests: 1, Path: "/chain/2?s=303"},
		"/loop":                            {Requests: 2, Kind: Refused},
		"/loop?s=307":                      {Requests: 1, Kind: Refused},
		"/nowhere":                         {Status: 307, Requests: 1, Path: "/nowhere"},
		"/?s=308&to=/chain/1%3Fs=307":      {Status: 202, Requests: 3, Path: "/chain/0?s=307"},
		"/?s=308&to=/b%2520c%23f":          {Status: 202, Requests: 2, Path: "/b%20c"},
		"/?s=307&to=/x%3Fs=302%26to=/y":    {Status: 302, Requests: 2, Path: "/x?s=302&to=/y"},
		"/?s=307&to=http://10.0.0.1/TOKEN": {Requests: 1, Kind: Refused},
		"/?s=307&to=ftp://h/TOKEN":         {Requests: 1, Kind: Refused},
		"/?s=307&to=//u:TOKEN@h/":          {Requests: 1, Kind: Refused},
		"/?s=307&to=//h:TOKEN/":            {Requests: 1, Kind: Broken},
	} {
		a, err := c.Send(t.Context(), Message{URL: base + in, Body: []byte("hub.mode=subscribe"), Header: http.Header{"Content-Type": {"a/b"}}, Repeat: 5})
		told := l.take()
		got := result{Requests: len(told)}
		if err != nil {
			e := wantKind(t, err, want.Kind)
			got.Kind = e.Kind
			if e.Requests != len(told) || strings.Contains(e.Error(), "TOKEN") || !strings.HasPrefix(e.Error(), "post http://") {
				t.Errorf("%s: %v", in, e)
			}
		} else {
			got.Status, got.Path = a.Status, strings.TrimPrefix(a.URL, base)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", in, d)
		}
		for _, h := range told {
			if h.Method != http.MethodPost || h.Body != "hub.mode=subscribe" || h.Header.Get("Content-Type") != "a/b" || h.Length != 18 {
				t.Errorf("%s: another message: %+v", in, h)
			}
		}
	}
}

func TestSendIsUnderThePolicy(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", plain.URL)
		w.WriteHeader(http.StatusPermanentRedirect)
	}))
	defer secure.Close()
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	send := func(c *Client, m Message) *Error {
		t.Helper()
		a, err := c.Send(t.Context(), m)
		var e *Error
		if !errors.As(err, &e) {
			t.Fatalf("%s: %+v, %v", m.URL, a, err)
		}
		if strings.Contains(e.Error(), "TOKEN") {
			t.Errorf("a callback's token in %v", e)
		}
		return e
	}
	public := New(Options{})
	defer public.Close()
	for raw, kind := range map[string]Kind{
		plain.URL + "/TOKEN": Refused, "http://169.254.169.254/TOKEN": Refused, "http://[::ffff:10.0.0.1]/TOKEN": Refused,
		"file:///TOKEN": Refused, "/TOKEN": Refused, "http://u:TOKEN@h/": Refused, "http://[/TOKEN": Refused, "": Refused,
	} {
		if e := send(public, Message{URL: raw}); e.Kind != kind || e.Requests != 0 {
			t.Errorf("%s: %v (%s)", raw, e, e.Kind)
		}
	}
	u, _ := url.Parse(plain.URL)
	trusting := &Policy{Trusted: []string{u.Host}}
	for range 2 {
		if a, err := public.Send(t.Context(), Message{URL: plain.URL, Policy: trusting}); err != nil || a.Status != http.StatusNotFound {
			t.Errorf("%+v, %v", a, err)
		}
		if e := send(public, Message{URL: plain.URL}); e.Kind != Refused { // nor by the other's connection
			t.Error(e)
		}
	}
	local := New(Options{Allow: loopback()})
	defer local.Close()
	if e := send(local, Message{URL: secure.URL + "/TOKEN"}); e.Kind != TLS || e.Requests != 1 {
		t.Errorf("%v (%s)", e, e.Kind)
	}
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	c := newClient(Options{Allow: loopback()}, environment{tls: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
	defer c.Close()
	if e := send(c, Message{URL: secure.URL + "/TOKEN", Repeat: 1}); e.Kind != Refused || !strings.Contains(e.Error(), "https") {
		t.Error(e)
	}
	if e := send(local, Message{URL: plain.URL, Header: http.Header{"X": {"a\r\nb"}}}); e.Kind != Refused || e.Requests != 0 {
		t.Error(e)
	}
	for _, method := range []string{"GET /", "CONNECT", "connect", "a\r\n"} {
		if e := send(local, Message{Method: method, URL: plain.URL}); e.Kind != Refused || e.Requests != 0 {
			t.Error(e)
		}
	}
	local.Close()
	if e := send(local, Message{URL: plain.URL}); e.Kind != Canceled || !errors.Is(e, ErrClosed) {
		t.Error(e)
	}
}

func TestSentCredentialsStayAtTheirOrigin(t *testing.T) {
	t.Parallel()
	var l listener
	hop := l.note(func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
	})
	other := httptest.NewServer(hop)
	defer other.Close()
	c, base := serve(t, Options{}, hop)
	way := "/?to=" + url.QueryEscape(other.URL+"/?to="+url.QueryEscape(base+"/end"))
	own := http.Header{"Authorization": {"Bearer mine"}, "Cookie": {"a=b"}, "Proxy-Authorization": {"c"}, "X-Hub-Signature": {"s"}}
	auth := &Policy{AuthOrigin: base, Auth: &Auth{Bearer: "theirs", Headers: map[string]string{"X-Key": "k", "Expect": "100-continue"}}}
	for name, tc := range map[string]struct {
		m        Message
		at, away http.Header
	}{
		"of the message": {Message{Header: own}, own, http.Header{"X-Hub-Signature": {"s"}}},
		"of the policy":  {Message{Policy: auth}, http.Header{"Authorization": {"Bearer theirs"}, "X-Key": {"k"}}, http.Header{}},
		"of nobody":      {Message{Policy: &Policy{Auth: auth.Auth}}, http.Header{}, http.Header{}},
	} {
		tc.m.URL, tc.m.Repeat = base+way, 3
		if _, err := c.Send(t.Context(), tc.m); err != nil {
			t.Fatal(err)
		}
		var got []http.Header
		for _, h := range l.take() {
			for _, n := range []string{"User-Agent", "Accept-Encoding", "Content-Length"} {
				h.Header.Del(n)
			}
			got = append(got, h.Header)
		}
		if d := cmp.Diff([]http.Header{tc.at, tc.away, tc.at}, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}
