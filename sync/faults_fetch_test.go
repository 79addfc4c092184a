package sync

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"resyncd/destination/peer/source"
	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/report"
)

const goodBody = "the second version, which is as it should be"

// TestFetchFaults lets one resource of twelve fail in every way that faults.md knows of. The others arrive, the position
// advances, the old version stays, the resource is owed with its reason and not asked for again and again; once the fault
// is over, one run mends everything.
func TestFetchFaults(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, goodBody) }))
	t.Cleanup(elsewhere.Close)
	status := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
		}
	}
	send := func(body string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			status(http.StatusOK, header...)(w, r)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, tt := range map[string]struct {
		serve  http.HandlerFunc
		tune   func(*Target)
		fine   bool   // it is no fault at all
		host   bool   // the whole host asks for peace: nothing else is fetched from it either
		reason string // part of what the ledger says
		wait   time.Duration
		most   time.Duration
	}{
		"F47 404":                      {serve: status(404), reason: "404"},
		"F47 410":                      {serve: status(410), reason: "410"},
		"F47 401":                      {serve: status(401), reason: "401", wait: 30 * time.Minute},
		"F47 403":                      {serve: status(403), reason: "403", wait: 30 * time.Minute},
		"F48 same length, other bytes": {serve: send(strings.ToUpper(goodBody)), reason: "sha-256"},
		"F50 shorter":                  {serve: send(goodBody[:10]), reason: "44"},
		"F50 longer":                   {serve: send(goodBody + "!"), reason: "44"},
		"empty":                        {serve: send(""), reason: "44"},
		"204":                          {serve: status(204), reason: "204"},
		"418":                          {serve: status(418), reason: "418"},
		"F53 500":                      {serve: status(500), reason: "500"},
		"F53 429 an hour":              {serve: status(429, "Retry-After", "3600"), host: true, wait: 59 * time.Minute},
		"F53 503 an age":               {serve: status(503, "Retry-After", "99999999999"), host: true, wait: 59 * time.Minute, most: 61 * time.Minute},
		"F53 429 negative":             {serve: status(429, "Retry-After", "-1")},
		"F53 429 garbage":              {serve: status(429, "Retry-After", "soon")},
		"F55 cut, length unknown":      {serve: raw("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + goodBody[:20]), reason: "20"},
		"F55 cut, length announced":    {serve: raw("HTTP/1.1 200 OK\r\nContent-Length: 44\r\n\r\n" + goodBody[:20])},
		"F55 cut, chunked":             {serve: raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nthe s\r\n")},
		"F55 whole, length unknown":    {serve: raw("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + goodBody), fine: true},
		"no HTTP":                      {serve: raw("SSH-2.0-OpenSSH_9.6\r\n")},
		"F56 endless":                  {serve: endless, reason: "44"},
		"F56 more than max_resource":   {serve: send(goodBody), tune: func(t *Target) { t.MaxResource = 20 }, reason: "20"},
		"F57 gzip unasked":             {serve: send(gzipped(goodBody), "Content-Encoding", "gzip"), fine: true},
		"F57 gzip of something else":   {serve: send(gzipped("other"), "Content-Encoding", "gzip")},
		"F57 gzip, not really":         {serve: send(goodBody, "Content-Encoding", "gzip"), fine: true}, // the length says that it is the body
		"F57 brotli":                   {serve: send(goodBody, "Content-Encoding", "br"), reason: "br"},
		"F58 an error page":            {serve: send("<html><body>Sorry</body></html>", "Content-Type", "text/html"), reason: "44"},
		"F59 304 that nobody asked":    {serve: status(304)},
		"F60 redirect in scope":        {serve: status(302, "Location", "/moved"), fine: true},
		"F60 redirect out of scope":    {serve: status(301, "Location", elsewhere.URL+"/"), reason: "scope"},
		"F60 redirect to itself":       {serve: status(307, "Location", "?again"), reason: "redirect"},
		"F60 redirect to a file":       {serve: status(302, "Location", "file:///etc/passwd")},
		"F60 redirect to nowhere":      {serve: status(302)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigIn(t, ramDir(t), source.Options{}, many(12))
			r.fetch = quick
			r.must()
			for i := range 12 {
				r.put(fmt.Sprintf("d%d/r%03d.txt", i%3, i), goodBody)
			}
			const bad = "/d0/r000.txt"
			r.interpose(func(w http.ResponseWriter, req *http.Request) bool {
				switch {
				case req.URL.Path == bad:
					tt.serve(w, req)
				case req.URL.Path == "/moved":
					_, _ = io.WriteString(w, goodBody)
				default:
					return false
				}
				return true
			})
			owed := int64(1)
			if tt.fine {
				owed = 0
			}
			if r.tune = tt.tune; tt.tune != nil { // it is about all of them
				owed = 12
			}
			before := r.position()
			res, err := r.run()
			if tt.host {
				owed = res.Owed
			}
			if err != nil || tt.host && owed == 0 || res.Owed != owed || res.Failed != owed || res.Fetched != 12-owed || res.Deleted != 0 || res.InStep != tt.fine {
				t.Fatalf("%+v, %v", res, err)
			}
			if after := r.position(); after <= before {
				t.Errorf("P11: the position stayed at %v", after.Time())
			}
			want := "body 0"
			if tt.fine {
				want = goodBody
			}
			if b, err := os.ReadFile(r.path(bad[1:])); err != nil || string(b) != want {
				t.Errorf("the file holds %q, %v", b, err)
			}
			asked := 0
			_, resources := r.asked()
			for _, p := range resources {
				if p == bad {
					asked++
				}
			}
			if asked > 6 {
				t.Errorf("asked %d times", asked)
			}
			if !tt.fine && tt.tune == nil {
				l := r.owed(bad[1:])
				if wait := time.Until(l.NextTry.Time); wait < tt.wait-time.Minute || tt.most > 0 && wait > tt.most {
					t.Errorf("next try in %v", wait)
				}
				if !strings.Contains(*l.Reason, tt.reason) {
					t.Errorf("the reason %q does not tell of %q", *l.Reason, tt.reason)
				}
			}
			r.interpose(nil)
			r.tune = nil
			r.must()
			r.tidy()
		})
	}
}

// owed is what `ls --owed` says of a resource.
func (r *rig) owed(name string) (found report.Listing) {
	r.t.Helper()
	n := 0
	r.with(func(e *Engine, _ Target) {
		src, err := e.Store.Source(context.Background(), "test")
		if err == nil {
			err = report.List(context.Background(), e.Store, src.ID, report.ListOwed, func(l report.Listing) error {
				n++
				if l.URI == r.src.URI(name) {
					found = l
				}
				return nil
			})
		}
		if err != nil {
			r.t.Fatal(err)
		}
	})
	if found.URI != r.src.URI(name) || found.State != "owed" || *found.Attempts < 1 || found.Reason == nil || found.NextTry.IsZero() {
		r.t.Fatalf("%d owed: %+v", n, found)
	}
	return found
}

// position is the proven position of the only set.
func (r *rig) position() (p store.Micros) {
	r.t.Helper()
	r.with(func(e *Engine, _ Target) {
		set := r.onlySet(e)
		p = (&coverage.Coverage{Floor: set.Floor, Proven: set.Proven, Joint: set.Joint}).ProvenPosition()
	})
	return p
}

func (r *rig) onlySet(e *Engine) store.Set {
	r.t.Helper()
	sets := r.sets(e)
	if len(sets) != 1 {
		r.t.Fatalf("%d sets", len(sets))
	}
	return sets[0]
}

func (r *rig) sets(e *Engine) []store.Set {
	r.t.Helper()
	src, err := e.Store.Source(context.Background(), "test")
	if err != nil {
		r.t.Fatal(err)
	}
	sets, err := e.Store.Sets(context.Background(), src.ID)
	if err != nil {
		r.t.Fatal(err)
	}
	return sets
}

// raw answers with these very bytes and hangs up.
func raw(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(conn, text)
		_ = conn.Close()
	}
}

// endless sends until the other side hangs up.
func endless(w http.ResponseWriter, _ *http.Request) {
	block := bytes.Repeat([]byte("more and "), 1000)
	for range 100_000 {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
	panic("the body was read to 900 MB")
}

func gzipped(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, s)
	_ = z.Close()
	return b.String()
}

// TestPoison keeps failing resources from being asked for again with every page of wants that comes in (F48, F79).
func TestPoison(t *testing.T) {
	t.Parallel()
	n := 2500
	if testing.Short() {
		n = 1200
	}
	r := newRigIn(t, ramDir(t), source.Options{}, many(n))
	r.fetch = quick
	began, looks := time.Now(), &atomic.Int64{} // it runs, so that every pause of the ledger has ended when that is looked at
	r.engine = func(e *Engine) {
		e.Now = func() time.Time { return began.Add(time.Duration(looks.Add(1)) * time.Second) }
	}
	var asked atomic.Int64
	r.interpose(func(w http.ResponseWriter, req *http.Request) bool {
		if req.URL.Path != "/d0/r000.txt" {
			return false
		}
		asked.Add(1)
		w.WriteHeader(http.StatusNotFound)
		return true
	})
	res, err := r.run()
	if err != nil || res.Fetched != int64(n-1) || res.Owed != 1 || res.Failed != 1 || !strings.Contains(*r.owed("d0/r000.txt").Reason, "404") {
		t.Fatalf("%+v, %v", res, err)
	}
	if asked.Load() != 1 {
		t.Errorf("asked %d times in one run", asked.Load())
	}
	r.interpose(nil)
	r.engine = nil
	r.must()
}

// TestRetriesEnd: where everything fails, retries end with the time for them, however many resources there are. Each request
// takes a second.
func TestRetriesEnd(t *testing.T) {
	t.Parallel()
	const n, patience = 200, 20
	r := newRigIn(t, ramDir(t), source.Options{}, many(n))
	var asked atomic.Int64
	began := time.Now()
	r.engine = func(e *Engine) {
		e.Now = func() time.Time { return began.Add(time.Duration(asked.Load()) * time.Second) }
	}
	r.opts.RetryFor = patience * time.Second
	r.fetch = quick
	r.interpose(func(w http.ResponseWriter, req *http.Request) bool {
		if strings.HasPrefix(req.URL.Path, "/.") {
			return false
		}
		asked.Add(1)
		http.Error(w, "not now", http.StatusInternalServerError)
		return true
	})
	res, err := r.run()
	if most := int64(n + patience + 2*16); err != nil || res.Owed != n || asked.Load() > most {
		t.Errorf("%+v, %v; %d requests, want at most %d", res, err, asked.Load(), most)
	}
	if asked.Load() <= n {
		t.Errorf("%d requests for %d resources: none was tried again", asked.Load(), n)
	}
}
