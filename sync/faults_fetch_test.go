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
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"resyncd/destination/peer/source"
	"resyncd/store"
	"resyncd/store/blob"
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
				next, _ := time.Parse(time.RFC3339Nano, *l.NextTry)
				if wait := time.Until(next); wait < tt.wait-time.Minute || tt.most > 0 && wait > tt.most {
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
func (r *rig) owed(name string) (found Listing) {
	r.t.Helper()
	n := 0
	r.with(func(e *Engine, _ Target) {
		src, err := e.Store.Source(context.Background(), "test")
		if err == nil {
			err = List(context.Background(), e.Store, src.ID, ListOwed, func(l Listing) error {
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
	if found.URI != r.src.URI(name) || found.State != "owed" || *found.Attempts < 1 || found.Reason == nil || found.NextTry == nil {
		r.t.Fatalf("%d owed: %+v", n, found)
	}
	return found
}

// position is the proven position of the only set.
func (r *rig) position() (p store.Micros) {
	r.t.Helper()
	r.with(func(e *Engine, _ Target) {
		set := r.onlySet(e)
		p = (&Coverage{Floor: set.Floor, Proven: set.Proven, Joint: set.Joint}).ProvenPosition()
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
	if asked.Load() > 3 { // once, and perhaps again when its first pauses are over
		t.Errorf("asked %d times in one run", asked.Load())
	}
	r.interpose(nil)
	r.must()
}

// TestPlanted puts a link, a hard link, a FIFO and a folder where files belong (F87): nothing is written through them.
func TestPlanted(t *testing.T) {
	t.Parallel()
	r := newRig(t, source.Options{}, many(12))
	r.fetch = quick
	r.must()
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, outside, "not yours")
	plant := func(name string, how func(path string) error) {
		path := r.path(name)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := how(path); err != nil {
			t.Fatal(err)
		}
	}
	plant("d0/r000.txt", func(p string) error { return os.Symlink(outside, p) })
	plant("d1/r001.txt", func(p string) error { return os.Link(outside, p) })
	plant("d2/r002.txt", func(p string) error { return syscall.Mkfifo(p, 0o644) })
	plant("d1/r004.txt", func(p string) error { return os.Symlink(outside, p) })
	for i := range 3 {
		r.put(fmt.Sprintf("d%d/r%03d.txt", i%3, i), "changed")
	}
	r.src.Delete("d1/r004.txt")
	r.must()
	if b, err := os.ReadFile(outside); err != nil || string(b) != "not yours" {
		t.Errorf("the file outside holds %q, %v", b, err)
	}
	// A folder with something in it is not removed for a file; the resource is owed and the others are not.
	if err := os.Remove(r.path("d0/r003.txt")); err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(r.path("d0/r003.txt"), "mine")
	write(t, mine, "mine")
	r.put("d0/r003.txt", "changed again")
	r.put("d0/r000.txt", "changed again")
	if res, err := r.run(); err != nil || res.Owed != 1 || res.Fetched != 1 || !strings.Contains(*r.owed("d0/r003.txt").Reason, "folder") {
		t.Errorf("%+v, %v", res, err)
	}
	if err := os.RemoveAll(filepath.Dir(mine)); err != nil {
		t.Fatal(err)
	}
	r.must()
}

// TestFileAgainstFolder has a and a/b take turns and live together (F83).
func TestFileAgainstFolder(t *testing.T) {
	t.Parallel()
	r := newRigIn(t, ramDir(t), source.Options{}, nil)
	for i, step := range []struct{ put, del string }{
		{put: "a"}, {put: "a/b"}, {del: "a"}, {put: "a"}, {del: "a/b"}, {put: "a/b/c"}, {del: "a"}, {put: "a/b"}, {put: "a"},
		{put: "x/y"}, {put: "x"}, {del: "x/y"}, {put: "x/y"}, {del: "x"}, {put: "x"}, {put: "CASE"}, {put: "case"},
	} {
		if step.put != "" {
			r.put(step.put, fmt.Sprintf("%s %d", step.put, i))
		} else {
			r.src.Delete(step.del)
		}
		if res, err := r.run(); err != nil || !res.InStep {
			t.Fatalf("step %d: %+v, %v", i, res, err)
		}
		r.equalByRows()
	}
}

// equalByRows is equal where keys are not natural: rows tell where the files are.
func (r *rig) equalByRows() {
	r.t.Helper()
	files := r.files()
	r.with(func(e *Engine, _ Target) {
		src, err := e.Store.Source(context.Background(), "test")
		if err != nil {
			r.t.Fatal(err)
		}
		for uri, sum := range r.src.Resources() {
			row, err := e.Store.Resource(context.Background(), src.ID, uri)
			if err != nil {
				r.t.Fatalf("%s: %v", uri, err)
			}
			if files[row.Key] != fmt.Sprintf("%x", sum) {
				r.t.Errorf("%s: %s holds %q", uri, row.Key, files[row.Key])
			}
			delete(files, row.Key)
		}
	})
	for key := range files {
		r.t.Errorf("extra: %s", key)
	}
}

// fullMirror is a disk that takes so many more files (F6, F8).
type fullMirror struct {
	blob.Mirror
	left *atomic.Int64
}

func (m fullMirror) Place(ctx context.Context, group []blob.Placement) ([]error, error) {
	n := max(0, min(int64(len(group)), m.left.Load()))
	m.left.Add(-n)
	errs, err := m.Mirror.Place(ctx, group[:n])
	for i := n; i < int64(len(group)); i++ {
		err = &blob.KeyError{Op: "place", Key: group[i].Key, Err: blob.ErrNoSpace}
		errs = append(errs, err)
	}
	return errs, err
}

// TestDiskFull keeps old versions, owes the rest, asks for no more, and goes on by itself.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	r := newRigIn(t, ramDir(t), source.Options{}, many(40))
	r.must()
	for i := range 40 {
		r.put(fmt.Sprintf("d%d/r%03d.txt", i%3, i), fmt.Sprintf("changed %d", i))
	}
	r.src.Delete("d0/r039.txt")
	var left atomic.Int64
	left.Store(10)
	r.tune = func(t *Target) { t.Mirror = fullMirror{t.Mirror, &left} }
	res, err := r.run()
	if err != nil || res.Fetched != 10 || res.Owed != 30 || res.InStep || !strings.Contains(res.Problem, "full") || res.Deleted != 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	old := 0
	for i := range 40 {
		b, err := os.ReadFile(r.path(fmt.Sprintf("d%d/r%03d.txt", i%3, i)))
		if err != nil || string(b) != fmt.Sprintf("body %d", i) && string(b) != fmt.Sprintf("changed %d", i) {
			t.Errorf("%d holds %q, %v", i, b, err)
		}
		if strings.HasPrefix(string(b), "body") {
			old++
		}
	}
	if old != 30 {
		t.Errorf("%d old versions", old)
	}
	r.tune = nil
	r.must()
	r.tidy()
}
