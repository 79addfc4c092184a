package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestGetTellsWhatItGot(t *testing.T) {
	t.Parallel()
	var got http.Header
	c, base := serve(t, Options{UserAgent: "resyncd/test (+mailto:x)"}, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		w.Header().Set("ETag", `"v1"`)
		w.Header().Set("Last-Modified", "Tue, 01 Sep 2026 10:00:00 GMT")
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Date", "Wed, 02 Sep 2026 10:00:00 GMT")
		fmt.Fprint(w, "hello")
	})
	resp, err := c.Get(t.Context(), Request{URL: base + "/a%2Fb?x=1#frag"})
	if err != nil {
		t.Fatal(err)
	}
	if b := readAll(t, resp); b != "hello" {
		t.Errorf("body %q", b)
	}
	want := Info{
		Status: 200, URL: base + "/a%2Fb?x=1", ETag: `"v1"`, LastModified: "Tue, 01 Sep 2026 10:00:00 GMT",
		Type: "text/plain; charset=utf-8", Length: 5, Total: 5, Requests: 1,
		Date: time.Date(2026, 9, 2, 10, 0, 0, 0, time.UTC),
	}
	if d := cmp.Diff(want, resp.Info, cmpopts.IgnoreFields(Info{}, "Header")); d != "" {
		t.Errorf("info (-want +got):\n%s", d)
	}
	wantHeader := http.Header{"User-Agent": {"resyncd/test (+mailto:x)"}, "Accept-Encoding": {"identity"}}
	if d := cmp.Diff(wantHeader, got); d != "" {
		t.Errorf("request header (-want +got):\n%s", d)
	}
	if c.Requests() != 1 || c.Bytes() != 5 {
		t.Errorf("counted %d requests, %d bytes", c.Requests(), c.Bytes())
	}
}

func TestURLIsSentAsWritten(t *testing.T) {
	t.Parallel()
	var got string
	c, base := serve(t, Options{}, func(_ http.ResponseWriter, r *http.Request) { got = r.RequestURI })
	for in, want := range map[string]string{ // F80, F81
		"/a%2Fb|c":         "/a%2Fb%7Cc",
		"/%41/A/%7E/~":     "/%41/A/%7E/~",
		"/100%":            "/100%25",
		"/%zz%4":           "/%25zz%254",
		"/é/\xff/%C3%A9":   "/%C3%A9/%FF/%C3%A9",
		"/a b\t\"<>\\^`{}": "/a%20b%09%22%3C%3E%5C%5E%60%7B%7D",
		"//x/./y/../z//":   "//x/./y/../z//",
		"?q=a b&é=%2f+":    "/?q=a%20b&%C3%A9=%2f+",
		"/p;v=1,2?#f?":     "/p;v=1,2?",
		"/[x]@:!$&'()*+,=": "/[x]@:!$&'()*+,=",
		"":                 "/",
	} {
		resp, err := c.Get(t.Context(), Request{URL: base + in})
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		readAll(t, resp)
		if got != want {
			t.Errorf("%q was sent as %q, want %q", in, got, want)
		}
	}
}

func TestRefusedWithoutARequest(t *testing.T) {
	t.Parallel()
	c, base := serve(t, Options{}, func(http.ResponseWriter, *http.Request) {})
	for _, u := range []string{
		"", "/relative", "ftp://h/x", "file:///etc/passwd", "http:opaque", "http://", "http:///path", "https://:443/",
		"javascript:alert(1)", "http://user:secret@127.0.0.1/", "http://h\x00st/", "http://[::1/", "http://h:port/",
	} {
		_, err := c.Get(t.Context(), Request{URL: u})
		if e := wantKind(t, err, Refused); e.Requests != 0 || strings.Contains(e.Error(), "secret") {
			t.Errorf("%q: %+v", u, e)
		}
	}
	out := func(string) bool { return false }
	_, err := c.Get(t.Context(), Request{URL: base + "/x", InScope: out})
	if e := wantKind(t, err, Refused); e.Hop != 0 || !strings.Contains(e.Error(), "scope") {
		t.Errorf("out of scope: %v", e)
	}
	if c.Requests() != 0 {
		t.Errorf("%d requests were sent", c.Requests())
	}
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	c, base := serve(t, Options{Retries: -1}, func(w http.ResponseWriter, r *http.Request) {
		var code int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &code)
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(code)
		if code != 204 && code != 304 {
			fmt.Fprintf(w, "no\nway\x1b[31m %s token-in-query", r.URL.RawQuery)
		}
	})
	for code, kind := range map[int]Kind{
		401: Denied, 403: Denied, 407: Denied, 404: Gone, 410: Gone, 400: Rejected, 405: Rejected, 451: Rejected,
		416: Rejected, 429: Throttled, 408: Transient, 425: Transient, 500: Transient, 501: Transient, 503: Transient,
		599: Transient, 204: Broken, 201: Broken, 300: Broken, 301: Broken, 305: Broken, 304: Broken, 206: Broken,
		600: Broken,
	} {
		_, err := c.Get(t.Context(), Request{URL: fmt.Sprintf("%s/%d?key=sesame", base, code)})
		e := wantKind(t, err, kind)
		if want := code; code != 304 && code != 206 && e.Status != want {
			t.Errorf("%d: status %d", code, e.Status)
		}
		if s := e.Error(); strings.Contains(s, "sesame") || strings.ContainsAny(s, "\n\x1b") {
			t.Errorf("%d: the message is not fit to print: %q", code, s)
		}
	}
}

func TestConditional(t *testing.T) {
	t.Parallel()
	var got http.Header
	c, base := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		w.Header().Set("ETag", `"v1"`)
		w.WriteHeader(http.StatusNotModified)
	})
	resp, err := c.Get(t.Context(), Request{URL: base, ETag: `"v1"`, LastModified: "Tue", NoCache: true, Gzip: true})
	if err != nil {
		t.Fatal(err)
	}
	if b := readAll(t, resp); b != "" || !resp.NotModified || resp.Length != 0 {
		t.Errorf("%+v with body %q", resp.Info, b)
	}
	want := http.Header{
		"User-Agent": {"resyncd"}, "Accept-Encoding": {"gzip"}, "If-None-Match": {`"v1"`}, "If-Modified-Since": {"Tue"},
		"Cache-Control": {"no-cache"}, "Pragma": {"no-cache"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("request header (-want +got):\n%s", d)
	}
	_, err = c.Get(t.Context(), Request{URL: base, ETag: "bad\nvalue"}) // cannot be sent, so 304 is unasked for
	wantKind(t, err, Broken)
}

func zipped(s string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(s))
	_ = z.Close()
	return b.Bytes()
}

func TestContentCodings(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a line of text\n", 100)
	coded := zipped(text)
	c, base := serve(t, Options{Retries: -1}, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Encoding"] = []string{r.URL.Query().Get("ce")}
		switch r.URL.Path {
		case "/bomb":
			_, _ = w.Write(zipped(strings.Repeat("\x00", 8<<20)))
		case "/torn":
			_, _ = w.Write(coded[:len(coded)-5])
		case "/junk":
			fmt.Fprint(w, "no gzip at all")
		case "/none":
		default:
			_, _ = w.Write(coded)
		}
	})
	get := func(path string, req Request) (*Response, string, error) {
		req.URL = base + path
		resp, err := c.Get(t.Context(), req)
		if err != nil {
			return nil, "", err
		}
		defer resp.Body.Close()
		var b bytes.Buffer
		_, err = b.ReadFrom(resp.Body)
		return resp, b.String(), err
	}
	type result struct {
		Body     string
		Encoding string
		Kind     Kind
	}
	for name, tc := range map[string]struct {
		path string
		req  Request
		want result
	}{
		"document keeps its coding":    {"/?ce=gzip", Request{Gzip: true}, result{string(coded), "gzip", 0}},
		"resource is decoded":          {"/?ce=X-GZIP", Request{}, result{text, "gzip", 0}},
		"declared length of the coded": {"/?ce=gzip", Request{wireLength: int64(len(coded))}, result{string(coded), "gzip", 0}},
		"declared length of the text":  {"/?ce=gzip", Request{wireLength: int64(len(text))}, result{text, "gzip", 0}},
		"identity said aloud":          {"/?ce=identity", Request{}, result{string(coded), "", 0}},
		"an empty body":                {"/none?ce=gzip", Request{}, result{"", "gzip", 0}},
		"brotli":                       {"/?ce=br", Request{}, result{Kind: Broken}},
		"brotli document":              {"/?ce=br", Request{Gzip: true}, result{Kind: Broken}},
		"twice":                        {"/?ce=gzip,gzip", Request{}, result{Kind: Broken}},
		"bomb":                         {"/bomb?ce=gzip", Request{}, result{Kind: Broken}},
		"torn":                         {"/torn?ce=gzip", Request{}, result{Kind: Broken}},
		"junk":                         {"/junk?ce=gzip", Request{}, result{Kind: Broken}},
		"too large when decoded":       {"/?ce=gzip", Request{MaxBytes: int64(len(coded)) + 1}, result{Kind: TooLarge}},
	} {
		resp, b, err := get(tc.path, tc.req)
		got := result{Kind: KindOf(err)}
		if err == nil {
			got = result{b, resp.Encoding, 0}
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestMaxBytes(t *testing.T) {
	t.Parallel()
	c, base := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/said" {
			w.Header().Set("Content-Length", "1000000")
		}
		for {
			if _, err := w.Write(make([]byte, 1000)); err != nil {
				return
			}
		}
	})
	_, err := c.Get(t.Context(), Request{URL: base + "/said", MaxBytes: 1500})
	wantKind(t, err, TooLarge)
	resp, err := c.Get(t.Context(), Request{URL: base + "/endless", MaxBytes: 1500})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	_, err = b.ReadFrom(resp.Body)
	wantKind(t, err, TooLarge)
	if b.Len() != 1500 {
		t.Errorf("handed out %d bytes", b.Len())
	}
	_ = resp.Body.Close()
}

func TestCanceledIsNotTransient(t *testing.T) {
	t.Parallel()
	c, base := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := c.Get(ctx, Request{URL: base})
	if err != nil {
		t.Fatal(err)
	}
	if !resp.CloseDelimited && resp.Length >= 0 {
		t.Errorf("%+v", resp.Info)
	}
	cancel()
	_, err = resp.Body.Read(make([]byte, 10))
	wantKind(t, err, Canceled)
	_ = resp.Body.Close()
	_, err = c.Get(ctx, Request{URL: base})
	wantKind(t, err, Canceled)
	c.Close()
	_, err = c.Get(t.Context(), Request{URL: base})
	wantKind(t, err, Canceled)
}
