package fetch

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestDownloadHeld: what an earlier process left is continued where it is surely of the same version, and is in no way
// worse than nothing.
func TestDownloadHeld(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
	size := int64(len(content))
	type result struct {
		Kind     Kind
		Requests int
		Resets   int
		Ranges   []string
		Begins   []string // the ETags
	}
	const part = `bytes=69999- "a"`
	resume := DownloadOptions{Resume: true, DeclaredLength: size, Held: 70_000, HeldETag: `"a"`}
	with := func(change func(o *DownloadOptions)) DownloadOptions {
		o := resume
		change(&o)
		return o
	}
	status := func(code int, header ...string) func(int, http.ResponseWriter, *http.Request) bool {
		return func(n int, w http.ResponseWriter, _ *http.Request) bool {
			if n > 0 {
				return false
			}
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			if code == http.StatusPartialContent {
				_, _ = w.Write(content[69_999:])
			}
			return true
		}
	}
	rest := fmt.Sprintf("bytes 69999-%d/%d", size-1, size)
	over := []string{part, ""} // asked to go on, then for all
	for name, tc := range map[string]struct {
		src  *flaky
		opt  DownloadOptions
		once bool
		want result
	}{
		"goes on":       {&flaky{etag: `"a"`}, resume, true, result{0, 1, 0, []string{part}, nil}},
		"of any length": {&flaky{etag: `"a"`}, with(func(o *DownloadOptions) { o.DeclaredLength = -1 }), true, result{0, 1, 0, []string{part}, nil}},
		"all of it was held": {&flaky{etag: `"a"`}, with(func(o *DownloadOptions) { o.Held = size }), true,
			result{0, 1, 0, []string{fmt.Sprintf(`bytes=%d- "a"`, size-1)}, nil}},
		"one byte was held": {&flaky{etag: `"a"`}, with(func(o *DownloadOptions) { o.Held = 1 }), true, result{0, 1, 1, []string{""}, []string{`"a"`}}},
		"cut again": {&flaky{etag: `"a"`, cuts: []int{70_001}}, resume, false,
			result{0, 2, 0, []string{part, `bytes=140000- "a"`}, nil}},
		"cut after the repeated byte": {&flaky{etag: `"a"`, cuts: []int{1}}, resume, false, result{0, 2, 0, []string{part, part}, nil}},
		"cut, then changed": {&flaky{etag: `"a"`, cuts: []int{70_001}, odd: func(n int, w http.ResponseWriter, r *http.Request) bool {
			if n == 1 {
				w.Header().Set("ETag", `"b"`)
				_, _ = w.Write(content)
			}
			return n == 1
		}}, resume, false, result{0, 2, 1, []string{part, `bytes=140000- "a"`}, []string{`"b"`}}},
		"cut too often":       {&flaky{etag: `"a"`, cuts: []int{2, 2, 2}}, resume, false, result{Transient, 3, 0, nil, nil}},
		"another version":     {&flaky{etag: `"b"`}, resume, true, result{0, 1, 1, []string{part}, []string{`"b"`}}},
		"no version any more": {&flaky{}, resume, true, result{0, 1, 1, []string{part}, []string{""}}},
		"no ranges":           {&flaky{etag: `"a"`, plain: true}, resume, true, result{0, 1, 1, []string{part}, []string{`"a"`}}},
		"weak":                {&flaky{etag: `W/"a"`}, with(func(o *DownloadOptions) { o.HeldETag = `W/"a"` }), true, result{0, 1, 1, []string{""}, []string{""}}},
		"of an unknown version": {&flaky{etag: `"a"`}, with(func(o *DownloadOptions) { o.HeldETag = "" }), true,
			result{0, 1, 1, []string{""}, []string{`"a"`}}},
		"not to be continued": {&flaky{etag: `"a"`}, with(func(o *DownloadOptions) { o.Resume = false }), true, result{0, 1, 1, []string{""}, []string{""}}},
		"more was held than there is": {&flaky{etag: `"a"`, odd: status(http.StatusRequestedRangeNotSatisfiable)}, with(func(o *DownloadOptions) { o.Held = size + 2 }), true,
			result{0, 2, 1, []string{fmt.Sprintf(`bytes=%d- "a"`, size+1), ""}, []string{`"a"`}}},
		"If-Range is not known": {&flaky{etag: `"b"`, odd: status(http.StatusPartialContent, "ETag", `"b"`, "Content-Range", rest)}, resume, true,
			result{0, 2, 1, over, []string{`"b"`}}},
		"a range without its version": {&flaky{etag: `"a"`, odd: status(http.StatusPartialContent, "Content-Range", rest)}, resume, true,
			result{0, 2, 1, over, []string{`"a"`}}},
		"the wrong range": {&flaky{etag: `"a"`, odd: status(http.StatusPartialContent, "ETag", `"a"`, "Content-Range", "bytes 0-3/4")}, resume, true,
			result{0, 2, 1, over, []string{`"a"`}}},
		"a range of a coding": {&flaky{etag: `"a"`, odd: status(http.StatusPartialContent, "ETag", `"a"`, "Content-Range", rest, "Content-Encoding", "gzip")}, resume, true,
			result{0, 2, 1, over, []string{`"a"`}}},
		"two totals": {&flaky{etag: `"a"`, odd: func(n int, w http.ResponseWriter, _ *http.Request) bool {
			if n > 0 {
				return false
			}
			w.Header().Set("ETag", `"a"`)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 69999-%d/%d", size, size+1))
			w.Header().Set("Content-Length", strconv.Itoa(int(size)-69_998))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(content[69_999:140_000])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}}, with(func(o *DownloadOptions) { o.DeclaredLength = -1 }), false,
			result{0, 3, 1, []string{part, `bytes=140000- "a"`, ""}, []string{`"a"`}}},
		"gzip": {&flaky{odd: func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("ETag", `"a"`)
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(content)
			_ = z.Close()
			return true
		}}, resume, true, result{0, 1, 1, []string{part}, []string{""}}},
		"declared with another length": {&flaky{etag: `"a"`}, with(func(o *DownloadOptions) { o.DeclaredLength = size + 1 }), false, result{Broken, 1, 0, nil, nil}},
		"gone":                         {&flaky{odd: status(http.StatusGone)}, resume, false, result{Gone, 1, 0, nil, nil}},
		"fails":                        {&flaky{odd: status(http.StatusNotImplemented)}, resume, false, result{Transient, 1, 0, nil, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := tc.src
				f.content = content
				c, _ := bubble(t, Options{Concurrency: 1}, func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("If-None-Match") != "" {
						t.Error("half a file might be answered by a 304")
					}
					f.ServeHTTP(w, r)
				})
				var s sink
				s.Write(slices.Concat(content, []byte("more"))[:tc.opt.Held])
				var got result
				opt, began := tc.opt, time.Now()
				opt.Begins = func(i Info) error {
					got.Begins = append(got.Begins, i.ETag)
					if s.Len() > 0 || i.Status != http.StatusOK {
						t.Errorf("%d bytes are written when %+v begins", s.Len(), i)
					}
					return nil
				}
				res, err := c.Download(t.Context(), Request{URL: source, ETag: `"a"`, Once: tc.once}, &s, opt)
				got.Kind, got.Requests, got.Resets = KindOf(err), res.Requests, s.resets
				if tc.want.Ranges != nil {
					got.Ranges = f.ranges
				}
				if d := cmp.Diff(tc.want, got); d != "" {
					t.Errorf("%v (-want +got):\n%s", err, d)
				}
				if whole := bytes.Equal(s.Bytes(), content); whole != (err == nil) || res.Bytes != int64(s.Len()) ||
					int64(res.Requests) != f.count.Load() {
					t.Errorf("%d bytes, %d of them in the sink, whole: %v, %d requests", res.Bytes, s.Len(), whole, f.count.Load())
				}
				if took := time.Since(began); tc.once && took > 0 {
					t.Errorf("waited %v for what costs no try", took)
				}
			})
		})
	}
}

// TestHeldIsLost: the new version may be cut late as often as one that was begun with nothing.
func TestHeldIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{content: make([]byte, 5*resumeProgress), etag: `"b"`, cuts: []int{resumeProgress, resumeProgress}}
		c, _ := bubble(t, Options{}, f.ServeHTTP)
		var s sink
		s.Write(make([]byte, 4*resumeProgress))
		res, err := c.Download(t.Context(), Request{URL: source, Once: true}, &s,
			DownloadOptions{Resume: true, DeclaredLength: -1, Held: 4 * resumeProgress, HeldETag: `"a"`})
		if err != nil || s.Len() != len(f.content) || res.Requests != 3 {
			t.Errorf("%v: %d bytes in %d requests", err, s.Len(), res.Requests)
		}
	})
}

// TestNeverOneVersion: a Source that has another version whenever a download has come far does not hold it for ever.
func TestNeverOneVersion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size, part = 8 * resumeProgress, resumeProgress + 1
		f := &flaky{content: make([]byte, size)}
		f.odd = func(n int, w http.ResponseWriter, _ *http.Request) bool {
			f.etag = fmt.Sprintf(`"%d"`, n/2)
			f.cuts = append(f.cuts, part)
			if n > 50 {
				t.Error("it goes on and on")
				f.cuts = nil
			}
			return false
		}
		c, _ := bubble(t, Options{}, f.ServeHTTP)
		var s sink
		res, err := c.Download(t.Context(), Request{URL: source}, &s, DownloadOptions{Resume: true, DeclaredLength: -1})
		if KindOf(err) != Transient || res.Bytes != int64(s.Len()) || res.Requests != 7 {
			t.Errorf("%v: %d bytes in %d requests", err, res.Bytes, res.Requests)
		}
	})
}

// TestHeldByARealServer: http.ServeContent as the judge of what is asked.
func TestHeldByARealServer(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("0123456789abcdef"), 5_000)
	c, base := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"`+r.URL.Path+`"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	})
	for held := range 4 {
		for _, held := range []int{held, len(content)/4*held - 1, len(content) - held, len(content) + held} {
			for path, extra := range map[string]int{"/a": 0, "/b": 1} { // of /b another version was held
				if held < 0 || extra == 0 && held > len(content) {
					continue
				}
				var s sink
				s.Write(append(content[:len(content):len(content)], "more"...)[:held])
				res, err := c.Download(t.Context(), Request{URL: base + path}, &s,
					DownloadOptions{Resume: true, DeclaredLength: -1, Held: int64(held), HeldETag: `"/a"`})
				if err != nil || !bytes.Equal(s.Bytes(), content) || res.Requests != 1 || res.ETag != `"`+path+`"` {
					t.Errorf("%s, %d held: %v, %d bytes in %d requests", path, held, err, s.Len(), res.Requests)
				}
				if (s.resets == 0) != (held == 0 || held > 1 && extra == 0) {
					t.Errorf("%s, %d held: %d resets", path, held, s.resets)
				}
			}
		}
	}
}

// TestBeginsFails: a version that could not be recorded is not written.
func TestBeginsFails(t *testing.T) {
	t.Parallel()
	c, base := serve(t, Options{}, (&flaky{content: []byte("new"), etag: `"b"`}).ServeHTTP)
	lost := errors.New("the record was lost")
	var s sink
	s.Write([]byte("old"))
	res, err := c.Download(t.Context(), Request{URL: base}, &s, DownloadOptions{Resume: true, DeclaredLength: -1, Held: 3, HeldETag: `"a"`,
		Begins: func(Info) error { return lost }})
	if !errors.Is(err, lost) || KindOf(err) != KindUnknown || s.Len() != 0 || res.Bytes != 0 || res.Requests != 1 {
		t.Errorf("%v, %q, %+v", err, s.String(), res)
	}
}
