package fetch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/fuzztest"
)

// sink keeps what it is given; full bounds it.
type sink struct {
	bytes.Buffer
	resets, writes int
	full           int
}

func (s *sink) Reset() error { s.resets++; s.Buffer.Reset(); return nil }

func (s *sink) Write(p []byte) (int, error) {
	s.writes++
	if s.full > 0 && s.Len()+len(p) > s.full {
		return 0, syscall.ENOSPC
	}
	return s.Buffer.Write(p)
}

// flaky serves content and cuts the first answers after some bytes.
type flaky struct {
	content []byte
	etag    string // may change by attempt: etag%d
	cuts    []int  // bytes sent of the n-th answer, -1 whole
	plain   bool   // no ranges
	odd     func(attempt int, w http.ResponseWriter, r *http.Request) bool
	ranges  []string
	count   atomic.Int64
}

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := int(f.count.Add(1)) - 1
	f.ranges = append(f.ranges, strings.TrimSpace(r.Header.Get("Range")+" "+r.Header.Get("If-Range")))
	if f.odd != nil && f.odd(n, w, r) {
		return
	}
	etag := f.etag
	if strings.Contains(etag, "%d") {
		etag = fmt.Sprintf(etag, n)
	}
	h := w.Header()
	if etag != "" {
		h.Set("ETag", etag)
	}
	start := 0
	if rng := r.Header.Get("Range"); rng != "" && !f.plain && r.Header.Get("If-Range") == etag {
		_, _ = fmt.Sscanf(rng, "bytes=%d-", &start)
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", start, len(f.content)-1, len(f.content)))
	}
	rest := f.content[start:]
	h.Set("Content-Length", strconv.Itoa(len(rest)))
	if start > 0 {
		w.WriteHeader(http.StatusPartialContent)
	}
	if n < len(f.cuts) && f.cuts[n] >= 0 {
		_, _ = w.Write(rest[:f.cuts[n]])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(rest)
}

func TestDownload(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("0123456789abcdef"), 20_000) // 320,000 bytes
	size := int64(len(content))
	type result struct {
		Kind     Kind
		Bytes    int64
		Requests int
		Resets   int
		Whole    bool
	}
	whole := func(requests, resets int) result {
		return result{0, size, requests, resets, true}
	}
	resume := DownloadOptions{Resume: true, DeclaredLength: size}
	for name, tc := range map[string]struct {
		src    *flaky
		opt    DownloadOptions
		want   result
		ranges []string
	}{
		"straight": {&flaky{etag: `"a"`}, resume, whole(1, 0), []string{""}},
		"cut twice, resumed": {&flaky{etag: `"a"`, cuts: []int{70_000, 70_000}}, resume, whole(3, 0),
			[]string{"", `bytes=70000- "a"`, `bytes=140000- "a"`}},
		"cut, not allowed to resume": {&flaky{etag: `"a"`, cuts: []int{70_000}}, DownloadOptions{DeclaredLength: -1},
			whole(2, 1), []string{"", ""}},
		"cut, weak etag":         {&flaky{etag: `W/"a"`, cuts: []int{70_000}}, resume, whole(2, 1), []string{"", ""}},
		"cut, no etag":           {&flaky{cuts: []int{70_000}}, resume, whole(2, 1), []string{"", ""}},
		"cut before a byte":      {&flaky{etag: `"a"`, cuts: []int{0}}, resume, whole(2, 1), []string{"", ""}},
		"changed in between":     {&flaky{etag: `"a%d"`, cuts: []int{70_000}}, resume, whole(2, 1), []string{"", `bytes=70000- "a0"`}},
		"ranges are not served":  {&flaky{etag: `"a"`, cuts: []int{70_000}, plain: true}, resume, whole(2, 1), nil},
		"cut more than Retries":  {&flaky{etag: `"a"`, cuts: []int{9, 9, 9, 9}}, resume, result{Transient, 27, 3, 0, false}, nil},
		"declared shorter":       {&flaky{}, DownloadOptions{DeclaredLength: size - 1}, result{Broken, 0, 1, 0, false}, nil},
		"declared longer":        {&flaky{}, DownloadOptions{DeclaredLength: size + 1}, result{Broken, 0, 1, 0, false}, nil},
		"declared empty, is not": {&flaky{}, DownloadOptions{DeclaredLength: 0}, result{Broken, 0, 1, 0, false}, nil},
		"the rest of another version": {&flaky{etag: `"a"`, cuts: []int{70_000}, odd: func(n int, w http.ResponseWriter, _ *http.Request) bool {
			if n == 1 {
				w.Header().Set("ETag", `"b"`)
				w.Header().Set("Content-Range", fmt.Sprintf("bytes 70000-%d/%d", size-1, size))
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write(make([]byte, size-70_000))
			}
			return n == 1
		}}, resume, whole(3, 1), nil},
		"the wrong rest": {&flaky{etag: `"a"`, cuts: []int{70_000}, odd: func(n int, w http.ResponseWriter, _ *http.Request) bool {
			if n == 1 {
				w.Header().Set("ETag", `"a"`)
				w.Header().Set("Content-Range", fmt.Sprintf("bytes 69999-%d/%d", size-1, size))
				w.WriteHeader(http.StatusPartialContent)
			}
			return n == 1
		}}, resume, whole(3, 1), nil},
		"416": {&flaky{etag: `"a"`, cuts: []int{70_000}, odd: func(n int, w http.ResponseWriter, _ *http.Request) bool {
			if n == 1 {
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			}
			return n == 1
		}}, resume, whole(3, 1), nil},
		"gone in between": {&flaky{etag: `"a"`, cuts: []int{70_000}, odd: func(n int, w http.ResponseWriter, _ *http.Request) bool {
			if n == 1 {
				w.WriteHeader(http.StatusGone)
			}
			return n == 1
		}}, resume, result{Gone, 70_000, 2, 0, false}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := tc.src
				f.content = content
				c, _ := bubble(t, Options{}, f.ServeHTTP)
				var s sink
				res, err := c.Download(t.Context(), Request{URL: source}, &s, tc.opt)
				got := result{KindOf(err), res.Bytes, res.Requests, s.resets, bytes.Equal(s.Bytes(), content)}
				if d := cmp.Diff(tc.want, got); d != "" {
					t.Errorf("%v (-want +got):\n%s", err, d)
				}
				if int64(res.Requests) != f.count.Load() || res.Bytes != int64(s.Len()) {
					t.Errorf("%d requests, %d bytes in the sink", f.count.Load(), s.Len())
				}
				if err != nil && wantKind(t, err, tc.want.Kind).Requests != res.Requests {
					t.Errorf("error and result count differently: %+v", err)
				}
				if d := cmp.Diff(tc.ranges, f.ranges); tc.ranges != nil && d != "" {
					t.Errorf("ranges (-want +got):\n%s", d)
				}
			})
		})
	}
}

func TestRangeIsHeldToTheQuestion(t *testing.T) {
	t.Parallel()
	c, base := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Range") + r.Header.Get("If-Range"); got != `bytes=3-"a"` {
			t.Errorf("asked for %q", got)
		}
		w.Header().Set("Content-Range", strings.TrimPrefix(r.URL.Path, "/"))
		w.WriteHeader(http.StatusPartialContent)
		fmt.Fprint(w, "defgh")
	})
	for path, kind := range map[string]Kind{
		"bytes%203-7/8": 0, "BYTES%203-7/8": 0, "bytes%203-7/9": Broken, "bytes%202-6/7": Broken, "bytes%204-8/9": Broken,
		"bytes%203-6/7": Broken, "bytes%203-7/*": Broken, "bytes%20*/8": Broken, "": Broken, "items%203-7/8": Broken,
	} {
		resp, err := c.Get(t.Context(), Request{URL: base + "/" + path, RangeFrom: 3, IfRange: `"a"`})
		if KindOf(err) != kind {
			t.Errorf("%s: %v", path, err)
		}
		if err == nil {
			if b := readAll(t, resp); b != "defgh" || resp.Total != 8 || resp.Length != 5 {
				t.Errorf("%q, %+v", b, resp.Info)
			}
		}
	}
}

func TestDownloadOverABadLineArrives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{content: make([]byte, 10<<20), etag: `"a"`}
		for range 7 {
			f.cuts = append(f.cuts, 5<<18) // 1.25 MiB each: far more cuts than Retries
		}
		c, _ := bubble(t, Options{}, f.ServeHTTP)
		var s sink
		res, err := c.Download(t.Context(), Request{URL: source}, &s, DownloadOptions{Resume: true, DeclaredLength: -1})
		if err != nil || s.Len() != len(f.content) || res.Requests != 8 {
			t.Errorf("%v: %d bytes in %d requests", err, s.Len(), res.Requests)
		}
	})
}

func TestDownloadSmallIsOneWrite(t *testing.T) {
	t.Parallel()
	c, base := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/304":
			w.WriteHeader(http.StatusNotModified)
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(zipped(strings.Repeat("x", 4096)))
		default:
			fmt.Fprint(w, strings.Repeat("x", 4096))
		}
	})
	for _, path := range []string{"/", "/gzip"} {
		var s sink
		res, err := c.Download(t.Context(), Request{URL: base + path}, &s, DownloadOptions{DeclaredLength: 4096})
		if err != nil || s.Len() != 4096 || s.writes != 1 || s.resets != 0 || res.Bytes != 4096 {
			t.Errorf("%s: %v, %d bytes in %d writes", path, err, s.Len(), s.writes)
		}
	}
	var s sink
	res, err := c.Download(t.Context(), Request{URL: base + "/304", ETag: `"x"`}, &s, DownloadOptions{DeclaredLength: 4096})
	if err != nil || !res.NotModified || s.writes != 0 {
		t.Errorf("%v, %+v", err, res)
	}
	full := sink{full: 10}
	res, err = c.Download(t.Context(), Request{URL: base}, &full, DownloadOptions{DeclaredLength: -1})
	if !errors.Is(err, syscall.ENOSPC) || KindOf(err) != KindUnknown || res.Requests != 1 {
		t.Errorf("a full disk: %v after %d requests", err, res.Requests)
	}
}

// rawServer answers every connection with fixed bytes and closes it.
func rawServer(t *testing.T, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, answer)
			_ = conn.Close()
		}
	}()
	return "http://" + l.Addr().String() + "/"
}

func TestWhereABodyEnds(t *testing.T) {
	t.Parallel()
	c := New(Options{Allow: loopback(), Retries: -1})
	t.Cleanup(c.Close)
	for name, tc := range map[string]struct {
		answer   string
		declared int64
		kind     Kind
		body     string
		open     bool // CloseDelimited
	}{
		"close-delimited":               {"HTTP/1.1 200 OK\r\n\r\nhello", -1, 0, "hello", true},
		"close-delimited, HTTP/1.0":     {"HTTP/1.0 200 OK\r\n\r\nhello", -1, 0, "hello", true},
		"close-delimited and proven":    {"HTTP/1.1 200 OK\r\n\r\nhello", 5, 0, "hello", true},
		"close-delimited and cut":       {"HTTP/1.1 200 OK\r\n\r\nhel", 5, Transient, "", true},
		"close-delimited and too long":  {"HTTP/1.1 200 OK\r\n\r\nhello, hello", 5, Broken, "", true},
		"shorter than its length":       {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", -1, Transient, "", false},
		"longer than its length":        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello, hello", -1, 0, "hello", false},
		"chunked and cut":               {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", -1, Transient, "", false},
		"chunked":                       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 5, 0, "hello", false},
		"chunked and shorter":           {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 6, Broken, "", false},
		"two lengths":                   {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", -1, Transient, "", false},
		"no HTTP":                       {"SSH-2.0-OpenSSH\r\n", -1, Transient, "", false},
		"nothing":                       {"", -1, Transient, "", false},
		"endless header":                {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", headerLimit) + "\r\n\r\n", -1, Transient, "", false},
		"206 to no range":               {"HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-4/5\r\nContent-Length: 5\r\n\r\nhello", -1, Broken, "", false},
		"unreadable target of redirect": {"HTTP/1.1 302 Found\r\nLocation: http://[::/\r\nContent-Length: 0\r\n\r\n", -1, Broken, "", false},
	} {
		var s sink
		res, err := c.Download(t.Context(), Request{URL: rawServer(t, tc.answer), Once: true}, &s,
			DownloadOptions{DeclaredLength: tc.declared})
		if KindOf(err) != tc.kind || err == nil && (s.String() != tc.body || res.CloseDelimited != tc.open) {
			t.Errorf("%s: %v, %q, %+v", name, err, s.String(), res.Info)
		}
	}
}

func TestDownloadStalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var count atomic.Int64
		c, _ := bubble(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "10")
			fmt.Fprint(w, "01234")
			_ = http.NewResponseController(w).Flush()
			if count.Add(1) == 1 {
				<-r.Context().Done()
				return
			}
			fmt.Fprint(w, "56789")
		})
		var s sink
		began := time.Now()
		res, err := c.Download(t.Context(), Request{URL: source}, &s, DownloadOptions{DeclaredLength: 10})
		if took := time.Since(began); err != nil || s.String() != "0123456789" || res.Requests != 2 || took < time.Minute {
			t.Errorf("%v, %q in %d requests and %v", err, s.String(), res.Requests, took)
		}
	})
}

func FuzzContentRange(f *testing.F) {
	for _, s := range []string{"bytes 1-2/3", "bytes */3", "bytes 1-2/*", "bytes 9-1/3", "BYTES  0-0/1", "", "bytes -1-5/6"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, v string) {
		fuzztest.Bound(t)
		if first, last, total, ok := contentRange(v); ok && !(0 <= first && first <= last && last < total) {
			t.Errorf("%q: %d-%d/%d", v, first, last, total)
		}
	})
}

func FuzzURL(f *testing.F) {
	for _, s := range []string{"http://h/%zz?%#%", "https://[::1]:8/é", "http://a@b/", "HTTP://H", "http:///", "http://h\n/", "http://h/[]\\",
		"http://h:80/a-b_c.d~/1//", "http://H/a", "http://[fe80::1%25e]/a", "http://\u00e9/a", "http://h/a?b", "http://[fe80::1%25e\xbc\xbc]/a",
		"http://[::1%25%25]:8/", "http://h%25/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		fuzztest.Bound(t)
		u, err := parseURL(raw)
		_ = RedactURL(raw)
		if err != nil {
			return
		}
		again, err := parseURL(u.String())
		if err != nil || again.String() != u.String() || strings.ContainsAny(u.RequestURI(), " \r\n\t") {
			t.Errorf("%q: %q, again %v %v", raw, u, again, err)
		}
	})
}
