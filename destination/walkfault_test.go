package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
)

// The index changes while its parts are read: what they lack proves nothing (F67, F69).
func TestWalkIndexChangesMeanwhile(t *testing.T) {
	t.Parallel()
	for _, noETag := range []bool{false, true} {
		index := func(b string) page {
			p := xml(indexOf(listMD + part("/a", "") + b))
			p.noETag = noETag
			return p
		}
		s := newSite(t, map[string]page{"/": index(""), "/a": list("/1"), "/b": list("/2")})
		r := testReader(t, nil)
		v := &log{entry: func(*rsdoc.Entry) error { s.set("/", index(part("/b", ""))); return nil }}
		tour, err := r.Walk(t.Context(), Ref{URL: s.URL + "/"}, rsdoc.KindResourceList, v)
		if err != nil || tour.Complete || tour.Failed != 0 {
			t.Errorf("without ETag %v: %+v, %v", noETag, tour, err)
		}
		// Only the time of the request differs, as some Sources write it: that is no change.
		s.set("/", index(""))
		v.entry = func(*rsdoc.Entry) error {
			p := index("")
			p.body = strings.Replace(p.body, `at="2026-01-01`, `at="2026-01-02`, 1)
			s.set("/", p)
			return nil
		}
		if tour, err = r.Walk(t.Context(), Ref{URL: s.URL + "/"}, rsdoc.KindResourceList, v); err != nil || !tour.Complete {
			t.Errorf("without ETag %v, only at differs: %+v, %v", noETag, tour, err)
		}
		v.entry = func(*rsdoc.Entry) error { s.set("/", page{status: 500}); return nil }
		s.set("/", index(""))
		if tour, err = r.Walk(t.Context(), Ref{URL: s.URL + "/"}, rsdoc.KindResourceList, v); err != nil || tour.Complete {
			t.Errorf("without ETag %v, index gone: %+v, %v", noETag, tour, err)
		}
	}
}

func TestWalkStops(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]page{"/": xml(indexOf(listMD + part("/a", "") + part("/b", ""))), "/a": list("/1", "/2"), "/b": list("/3")})
	r := testReader(t, nil)
	// Even an error that looks transient is the visitor's own, and is not retried.
	enough := fmt.Errorf("enough: %w", &fetch.Error{Kind: fetch.Transient, Err: io.ErrUnexpectedEOF})
	v := &log{entry: func(*rsdoc.Entry) error { return enough }}
	tour, err := r.Walk(t.Context(), Ref{URL: s.URL + "/"}, rsdoc.KindResourceList, v)
	if err != enough || tour.Complete || s.requests() != "/ 200, /a 200" {
		t.Errorf("%+v, %v", tour, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	v = &log{entry: func(*rsdoc.Entry) error { cancel(enough); return nil }}
	s.on(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/b" {
			return false
		}
		<-r.Context().Done()
		return true
	})
	tour, err = r.Walk(ctx, Ref{URL: s.URL + "/"}, rsdoc.KindResourceList, v)
	if !errors.Is(err, enough) || tour.Failed != 0 || tour.Complete {
		t.Errorf("cancelled: %+v, %v", tour, err)
	}
}

// A body that breaks off is read anew from its start, and its visitor told to begin again.
func TestWalkBrokenBody(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]page{"/": list("/1", "/2", "/3")})
	cuts := 1
	s.on(func(w http.ResponseWriter, r *http.Request) bool {
		if cuts--; cuts < 0 {
			return false
		}
		body := strings.ReplaceAll(s.pages["/"].body, "SITE", s.URL)
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = io.WriteString(w, body[:len(body)-40])
		return true
	})
	r := testReader(t, nil)
	v := &log{}
	tour, err := r.Walk(t.Context(), Ref{URL: s.URL + "/"}, rsdoc.KindResourceList, v)
	if err != nil || !tour.Complete {
		t.Fatalf("%+v, %v, %v", tour, err, v.failed)
	}
	want := []string{"begin / resourcelist", "entry /1", "entry /2", "begin / resourcelist", "entry /1", "entry /2", "entry /3", "end /"}
	if diff := cmp.Diff(want, v.lines); diff != "" {
		t.Error(diff)
	}
	cuts = 100
	v = &log{quiet: true}
	if tour, err = r.Walk(t.Context(), Ref{URL: s.URL + "/"}, rsdoc.KindResourceList, v); err != nil || tour.Failed != 1 {
		t.Errorf("%+v, %v", tour, err)
	}
	if cuts != 100-1-restarts {
		t.Errorf("asked %d times", 100-cuts)
	}
}

// What cannot be looked at for now is no resource: a urlset is an index or a list, not one after the other.
func TestWalkLooksAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]page{
		"/": xml(urlset(listMD + entry("/a", `at="2026-01-01T00:00:00Z"`))), "/a": list("/1"), "/empty": {},
	})
	away := 1
	s.on(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/a" || away == 0 {
			return false
		}
		away--
		w.WriteHeader(http.StatusBadGateway)
		return true
	})
	walk := func(o func(*ReaderOptions)) (Tour, []string) {
		t.Helper()
		v := &log{}
		tour, err := testReader(t, o).Walk(t.Context(), Ref{URL: s.URL + "/"}, rsdoc.KindResourceList, v)
		if err != nil {
			t.Fatal(err)
		}
		return tour, v.lines
	}
	tour, lines := walk(func(o *ReaderOptions) { o.RetryFor = time.Minute })
	if diff := cmp.Diff([]string{"begin /a resourcelist", "entry /1", "end /a"}, lines); diff != "" || !tour.Complete {
		t.Errorf("%+v: %s", tour, diff)
	}
	away = 1000
	if tour, lines = walk(nil); tour.Failed != 1 || tour.Complete || !slices.Equal(lines, []string{"failed /"}) {
		t.Errorf("%+v: %q", tour, lines)
	}
	s.set("/", xml(urlset(listMD+entry("/empty", `at="2026-01-01T00:00:00Z"`))))
	if tour, lines = walk(nil); !tour.Complete || len(lines) != 3 {
		t.Errorf("%+v: %q", tour, lines)
	}
}

// The site answers one request at a time, and the list is too long for what lies between it and us.
func TestWalkLooksWithOneConnection(t *testing.T) {
	t.Parallel()
	dated := func(loc string) string { return entry(loc, `at="2026-01-01T00:00:00Z"`) }
	long := strings.Repeat(dated("/b"+strings.Repeat("x", 1000)), 20_000)
	s := newSite(t, map[string]page{"/": xml(urlset(listMD + dated("/a") + long)), "/a": {body: "a resource"}})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	v := &log{quiet: true}
	tour, err := testReader(t, nil).Walk(ctx, Ref{URL: s.URL + "/"}, rsdoc.KindResourceList, v)
	if err != nil || !tour.Complete || v.entries != 20_001 {
		t.Errorf("%+v, %d entries, %v, %v", tour, v.entries, v.failed, err)
	}
}

// A server that is gone costs its patience once, not once for each part.
func TestWalkDeadServer(t *testing.T) {
	t.Parallel()
	var parts strings.Builder
	for i := range 1000 {
		parts.WriteString(part(fmt.Sprintf("/p%d", i), ""))
	}
	s := newSite(t, map[string]page{"/": xml(indexOf(listMD + parts.String()))})
	s.on(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/" {
			return false
		}
		s.serve(httpDiscard{http.Header{}}, r)
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
	r := testReader(t, func(o *ReaderOptions) { o.RetryFor = 30 * time.Second })
	begun := r.now()
	v := &log{quiet: true}
	tour, err := r.Walk(t.Context(), Ref{URL: s.URL + "/"}, rsdoc.KindResourceList, v)
	if err != nil || tour.Failed != 1000 || tour.Complete {
		t.Errorf("%+v, %v", tour, err)
	}
	if n := strings.Count(s.requests(), ","); n > 30 {
		t.Errorf("%d requests to a dead server", n)
	}
	if took := r.now().Sub(begun); took > 40*time.Second || took < 15*time.Second {
		t.Errorf("waited for %v", took)
	}
	if len(v.failed) != giveUpInARow+1 {
		t.Errorf("%d failures told", len(v.failed))
	}
}

type httpDiscard struct{ h http.Header }

func (d httpDiscard) Header() http.Header         { return d.h }
func (d httpDiscard) Write(p []byte) (int, error) { return len(p), nil }
func (d httpDiscard) WriteHeader(int)             {}

func TestWalkBounds(t *testing.T) {
	t.Parallel()
	var parts strings.Builder
	pages := map[string]page{}
	for i := range 20 {
		parts.WriteString(part(fmt.Sprintf("/p%d", i), ""))
		pages[fmt.Sprintf("/p%d", i)] = list("/1")
	}
	pages["/"] = xml(indexOf(listMD + parts.String()))
	s := newSite(t, pages)
	v := &log{quiet: true}
	r := testReader(t, nil)
	r.limits.parts = 5
	tour, err := r.Walk(t.Context(), Ref{URL: s.URL + "/"}, rsdoc.KindResourceList, v)
	if err != nil || tour.Lists != 5 || tour.Failed != 1 || tour.Complete {
		t.Errorf("parts: %+v, %v", tour, err)
	}
	for _, l := range []limits{{smallEntries: 19, smallBytes: 1 << 20, parts: 99, depth: 3}, {smallEntries: 99, smallBytes: 1000, parts: 99, depth: 3}} {
		v = &log{quiet: true}
		r = testReader(t, nil)
		r.limits = l
		tour, err = r.Walk(t.Context(), Ref{URL: s.URL + "/"}, rsdoc.KindResourceList, v)
		if err != nil || tour.Failed != 1 || tour.Lists != 0 {
			t.Errorf("%+v: %+v, %v", l, tour, err)
		}
	}
}

// A list of any length takes the same memory.
func TestWalkMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("walks 300,000 entries")
	}
	const n = 300_000
	s := newSite(t, nil)
	s.on(func(w http.ResponseWriter, r *http.Request) bool {
		x, err := rsdoc.NewWriter(w, rsdoc.NewHead(rsdoc.List, rsdoc.KindResourceList))
		for i := 0; i < n && err == nil; i++ {
			e := rsdoc.NewEntry(fmt.Sprintf("https://lib.example/resources/%09d.pdf", i))
			e.Length, e.Type, e.HasMD = int64(i), "application/pdf", true
			err = x.Write(&e)
		}
		_ = x.Close()
		return true
	})
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most := heap(), uint64(0)
	v := &log{quiet: true}
	v.entry = func(*rsdoc.Entry) error {
		if v.entries%50_000 == 0 {
			most = max(most, heap())
		}
		return nil
	}
	tour, err := testReader(t, nil).Walk(t.Context(), Ref{URL: s.URL}, rsdoc.KindResourceList, v)
	if err != nil || !tour.Complete || v.entries != n {
		t.Fatalf("%+v, %d entries, %v", tour, v.entries, err)
	}
	if most > before+4<<20 {
		t.Errorf("%d KiB held while walking", (most-before)>>10)
	}
}
