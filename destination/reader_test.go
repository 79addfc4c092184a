package destination

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
)

// readDocument reads a small document as discovery does; why it is none counts as an error.
func readDocument(t *testing.T, r *Reader, url string) (*Document, error) {
	t.Helper()
	fd, err := r.inspect(t.Context(), url, &retryWindow{window: r.o.RetryFor})
	if err != nil {
		return nil, err
	}
	return fd.doc, cmp.Or(fd.err, fd.why)
}

func TestDocument(t *testing.T) {
	t.Parallel()
	s := newSite(t, library())
	r := testReader(t, nil)
	url := s.URL + "/a/cap.xml"
	first, err := readDocument(t, r, url)
	if err != nil || first.NotModified || len(first.Entries) != 6 || first.ETag == "" || !first.Date.Known() {
		t.Fatalf("%+v, %v", first, err)
	}
	again, err := readDocument(t, r, url)
	if err != nil || !again.NotModified {
		t.Fatalf("%+v, %v", again, err)
	}
	again.NotModified, again.Date = false, first.Date
	if diff := gocmp.Diff(first, again); diff != "" {
		t.Errorf("remembered otherwise than read (-read +remembered):\n%s", diff)
	}
	if got, want := s.requests(), "/a/cap.xml 200, /a/cap.xml 304"; got != want {
		t.Errorf("requests %q, want %q", got, want)
	}
	fresh, err := readDocument(t, r.Uncached(), url)
	if err != nil || fresh.NotModified || s.requests() != "/a/cap.xml 200" {
		t.Errorf("uncached: %+v, %v", fresh, err)
	}
}

func isProblem(err error, p rsdoc.Problem) bool {
	d, ok := errors.AsType[*rsdoc.DocumentError](err)
	return ok && d.Problem == p
}

func TestDocumentRefused(t *testing.T) {
	t.Parallel()
	whole := library()["/a/cap.xml"].body
	s := newSite(t, map[string]page{
		"/html":    {body: html5, kind: "text/html"},
		"/text":    {body: "not found"},
		"/empty":   {},
		"/root":    xml("<list" + xmlns + "/>"),
		"/cut":     xml(whole[:len(whole)-20]),
		"/many":    xml(urlset(rootMD(`capability="capabilitylist"`) + strings.Repeat(capability("/l", "resourcelist"), 11))),
		"/gone":    {status: 410},
		"/trailer": xml(whole + "x"),
	})
	r := testReader(t, nil)
	r.limits.smallEntries = 10
	for path, want := range map[string]func(error) bool{
		"/html":    func(err error) bool { return isProblem(err, rsdoc.Forbidden) || isProblem(err, rsdoc.WrongRoot) },
		"/text":    func(err error) bool { return isProblem(err, rsdoc.NotXML) },
		"/empty":   func(err error) bool { _, ok := errors.AsType[*rsdoc.DocumentError](err); return ok },
		"/root":    func(err error) bool { return isProblem(err, rsdoc.WrongRoot) },
		"/cut":     func(err error) bool { return isProblem(err, rsdoc.Truncated) },
		"/many":    func(err error) bool { return isProblem(err, rsdoc.Limit) },
		"/gone":    func(err error) bool { return fetch.KindOf(err) == fetch.Gone },
		"/trailer": func(err error) bool { _, ok := errors.AsType[*rsdoc.DocumentError](err); return ok },
	} {
		if d, err := readDocument(t, r, s.URL+path); d != nil || !want(err) {
			t.Errorf("%s: %v, %v", path, d, err)
		}
	}
	if m := r.o.Memory.(memory); len(m) != 0 {
		t.Errorf("remembered %d documents that were not read to their end", len(m))
	}
}

// An answer of 304 to a question without validators is no answer (F59).
func TestUnaskedNotModified(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.on(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusNotModified); return true })
	r := testReader(t, nil)
	if d, err := readDocument(t, r, s.URL+"/x"); err == nil {
		t.Errorf("got %+v", d)
	}
	tour, err := r.Walk(t.Context(), Ref{URL: s.URL + "/x"}, rsdoc.KindChangeList, &log{})
	if err != nil || tour.Failed != 1 || tour.Lists != 0 {
		t.Errorf("%+v, %v", tour, err)
	}
}

func TestDocumentRetries(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		fail     int // how many times
		with     func(w http.ResponseWriter)
		retryFor time.Duration
		ok       bool
		asked    int
	}{
		{"recovers", 3, func(w http.ResponseWriter) { w.WriteHeader(502) }, 30 * time.Second, true, 4},
		{"does not wait longer than allowed", 99, func(w http.ResponseWriter) { w.WriteHeader(502) }, 10 * time.Second, false, 5}, // 0.5+1+2+4
		{"no retries wanted", 1, func(w http.ResponseWriter) { w.WriteHeader(502) }, 0, false, 1},
		{"not there", 1, func(w http.ResponseWriter) { w.WriteHeader(404) }, time.Minute, false, 1},
		{"retry-after beyond it", 1, func(w http.ResponseWriter) { w.Header().Set("Retry-After", "3600"); w.WriteHeader(503) }, 30 * time.Second, false, 1},
		{"cut, and no retries wanted", restarts, func(w http.ResponseWriter) { w.Header().Set("Content-Length", "1000"); fmt.Fprint(w, "<urlset") }, 0, true, restarts + 1},
		{"cut for ever", 99, func(w http.ResponseWriter) { w.Header().Set("Content-Length", "1000"); fmt.Fprint(w, "<urlset") }, 0, false, restarts + 1},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, library())
			asked, fail := 0, tc.fail
			s.on(func(w http.ResponseWriter, _ *http.Request) bool {
				asked++
				if fail--; fail < 0 {
					return false
				}
				tc.with(w)
				return true
			})
			r := testReader(t, func(o *ReaderOptions) { o.RetryFor = tc.retryFor })
			_, err := readDocument(t, r, s.URL+"/a/cap.xml")
			if (err == nil) != tc.ok || asked != tc.asked {
				t.Errorf("asked %d times, want %d; %v", asked, tc.asked, err)
			}
		})
	}
}

func TestRetryWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := NewReader(ReaderOptions{})
		down := &fetch.Error{Op: "get", URL: "https://lib.example/", Kind: fetch.Throttled, RetryAfter: 10 * time.Second, Err: errors.New("busy")}
		p := &retryWindow{window: 30 * time.Second}
		begun, n := time.Now(), 0
		err := r.retry(t.Context(), p, down.URL, func() error { n++; return down })
		if took := time.Since(begun); !errors.Is(err, down) || n != 4 || took != 30*time.Second {
			t.Errorf("tried %d times in %v: %v", n, took, err)
		}
		// What is left of the patience serves the next document, too, until something answers.
		n = 0
		_ = r.retry(t.Context(), p, down.URL, func() error { n++; return down })
		if n != 1 {
			t.Errorf("tried %d times without patience", n)
		}
		_ = r.retry(t.Context(), p, down.URL, func() error { return nil })
		n = 0
		_ = r.retry(t.Context(), p, down.URL, func() error { n++; return down })
		if n != 4 {
			t.Errorf("tried %d times with new patience", n)
		}
	})
}

// A page, the log and the engine may ask for the cause of one error at the same time.
func TestCauseOnlyReads(t *testing.T) {
	t.Parallel()
	all := []string{"dns", "spare"}
	e := &Error{Err: errors.New("x"), causes: all[:1]}
	if got := e.Cause(); got != "dns" || all[1] != "spare" {
		t.Errorf("cause %q, and behind the causes stands %q", got, all[1])
	}
}
