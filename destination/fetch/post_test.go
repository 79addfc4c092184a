package fetch

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPost: a message of JSON is what the peer hears, and its answer comes as that to a GET does.
func TestPost(t *testing.T) {
	t.Parallel()
	var l listener
	c, base := serve(t, Options{UserAgent: "resyncd/test"}, l.note(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"a"`)
		_, _ = io.WriteString(w, "PK…")
	}))
	p := &Policy{AuthOrigin: base, Meter: new(Meter),
		Auth: &Auth{Bearer: "t", Headers: map[string]string{"Content-Type": "text/plain", "Content-Length": "1"}}}
	message := []byte(`["http://h/a"]`)
	var s sink
	s.WriteString("of an earlier process")
	res, err := c.Download(t.Context(), Request{URL: base + "/batch", Policy: p, JSON: message}, &s,
		DownloadOptions{Resume: true, DeclaredLength: -1, Held: 21, HeldETag: `"a"`})
	if err != nil || s.String() != "PK…" || res.Bytes != 5 || res.Status != http.StatusOK || s.resets != 1 {
		t.Errorf("%v, %q, %+v", err, s.String(), res)
	}
	want := []heard{{http.MethodPost, "/batch", string(message), int64(len(message)), http.Header{
		"User-Agent": {"resyncd/test"}, "Accept-Encoding": {"identity"}, "Content-Length": {strconv.Itoa(len(message))},
		"Content-Type": {"application/json"}, "Authorization": {"Bearer t"},
	}}}
	if d := cmp.Diff(want, l.take()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if p.Meter.Requests() != 1 || p.Meter.Bytes() != 5 {
		t.Errorf("%d requests, %d bytes counted", p.Meter.Requests(), p.Meter.Bytes())
	}
	_, err = c.Download(t.Context(), Request{URL: base, JSON: message, MaxBytes: 4}, &s, DownloadOptions{DeclaredLength: -1})
	wantKind(t, err, TooLarge)
}

// TestPostIsSentOnce: whatever comes of it, the caller has a better second try.
func TestPostIsSentOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		kind   Kind
	}{
		"fails":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, Transient},
		"too many":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, Throttled},
		"not here":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, Gone},
		"not by POST": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) }, Rejected},
		"later":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }, Broken},
		"no answer":   {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, Transient},
		"cut late": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", `"a"`)
			w.Header().Set("Content-Length", strconv.Itoa(2*resumeProgress))
			_, _ = w.Write(make([]byte, resumeProgress+1))
			panic(http.ErrAbortHandler)
		}, Transient},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var count atomic.Int64
			c, base := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				count.Add(1)
				tc.answer(w, r)
			})
			for n := range int64(5) { // also at a host that throttles all requests
				kept, err := c.Get(t.Context(), Request{URL: base}) // its connection, which may end while it is used again
				if err != nil {
					t.Fatal(err)
				}
				_ = readAll(t, kept)
				var s sink
				_, err = c.Download(t.Context(), Request{URL: base, JSON: []byte("[]")}, &s, DownloadOptions{Resume: true, DeclaredLength: -1})
				if e := wantKind(t, err, tc.kind); e.Requests != 1 || count.Load() != n+1 || e.Op != "post" && s.Len() == 0 {
					t.Errorf("%v: %d requests, %d counted", e, e.Requests, count.Load())
				}
			}
		})
	}
}

// TestPostRedirected: repeated where the redirect says so, within the policy; never a GET in its place.
func TestPostRedirected(t *testing.T) {
	t.Parallel()
	var l listener
	hop := l.note(func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			w.Header().Set("Location", to)
			status, _ := strconv.Atoi(r.URL.Query().Get("s"))
			w.WriteHeader(status)
		}
	})
	other := httptest.NewServer(hop)
	defer other.Close()
	c, base := serve(t, Options{}, hop)
	p := &Policy{AuthOrigin: base, Auth: &Auth{Bearer: "t"}}
	for in, want := range map[string]struct {
		requests int
		kind     Kind
	}{
		"/?s=307&to=/b": {2, 0}, "/?s=308&to=/b": {2, 0},
		"/?s=301&to=/b": {1, Broken}, "/?s=302&to=/b": {1, Broken}, "/?s=303&to=/b": {1, Broken},
		"/?s=307&to=" + url.QueryEscape(other.URL+"/b"): {2, 0},
		"/?s=307&to=/secret":                            {1, Refused}, "/?s=308&to=http://10.0.0.1/": {1, Refused}, "/?s=307&to=ftp://h/": {1, Refused},
	} {
		resp, err := c.Get(t.Context(), Request{URL: base + in, Policy: p, JSON: []byte(`["a"]`),
			InScope: func(uri string) bool { return !strings.Contains(strings.TrimPrefix(uri, base+in), "secret") }})
		if KindOf(err) != want.kind {
			t.Errorf("%s: %v", in, err)
		}
		if err == nil {
			_ = readAll(t, resp)
		}
		told := l.take()
		if len(told) != want.requests {
			t.Errorf("%s: %d requests", in, len(told))
		}
		for n, h := range told {
			away := n > 0 && strings.Contains(in, "%3A")
			if h.Method != http.MethodPost || h.Body != `["a"]` || h.Header.Get("Content-Type") != "application/json" ||
				(h.Header.Get("Authorization") == "") != away {
				t.Errorf("%s: message %d: %s", in, n, fmt.Sprint(h))
			}
		}
	}
	public := New(Options{})
	defer public.Close()
	_, err := public.Get(t.Context(), Request{URL: base, JSON: []byte("[]")})
	wantKind(t, err, Refused)
	_, err = c.Get(t.Context(), Request{URL: base, JSON: []byte("[]"), InScope: func(string) bool { return false }})
	wantKind(t, err, Refused)
}
