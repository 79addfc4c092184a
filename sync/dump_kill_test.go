package sync

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"resyncd/store/blob"
)

// killedOnce runs until stop is called, as a kill would end it.
func (f *fake) killedOnce(arm func(stop func())) {
	f.t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	e, target, done := f.open()
	defer done()
	o := f.opts
	o.Progress = func(p Progress) {}
	arm(func() { cancel(errKilled) })
	if _, err := e.Run(ctx, target, o); err == nil {
		f.t.Fatal("it was not killed")
	}
}

// TestDumpGoesOn: a kill while a package is downloaded costs the rest of it, and one while it is used costs nothing.
func TestDumpGoesOn(t *testing.T) {
	t.Parallel()
	for _, alone := range []bool{false, true} {
		f := dumped(t, "auto")
		f.set("resourcelist", "/rl.xml", "resourcedump", "/rd.xml")
		if alone {
			f.set("resourcedump", "/rd.xml")
		}
		ms := members(300, 0)
		for i := range ms {
			ms[i].body += strings.Repeat(fmt.Sprint(i*i*i), 3000)
		}
		f.resourceList(ms...)
		var entries []string
		packages := map[string][]byte{}
		for i, part := range [][]member{ms[:200], ms[200:]} {
			path := fmt.Sprintf("/p%d.zip", i)
			packages[path] = f.pack(path, f.manifest("resourcedump-manifest", `at="`+when(0)+`"`, part), part)
			entries = append(entries, f.packageEntry(path, "", "", len(packages[path])))
		}
		f.page("/rd.xml", list("resourcedump", `at="`+when(0)+`"`, entries...))

		// Half of the second package comes, and the first is in use or used up.
		whole := packages["/p1.zip"]
		var asked []string
		half, held := make(chan struct{}), int64(0)
		var once sync.Once
		f.tune = func(t *Target) {
			t.Dumps = "auto"
			t.Mirror = watchedSpools{t.Mirror, whole, func(size int64) {
				once.Do(func() { close(half) })
				held = size
			}}
		}
		f.killedOnce(func(stop func()) {
			f.handle("/p1.zip", func(w http.ResponseWriter, req *http.Request) {
				w.Header().Set("ETag", `"whole"`)
				w.Header().Set("Content-Length", fmt.Sprint(len(whole)))
				_, _ = w.Write(whole[:len(whole)/2])
				_ = http.NewResponseController(w).Flush()
				<-half
				stop()
				<-req.Context().Done()
			})
		})
		f.handle("/p1.zip", func(w http.ResponseWriter, req *http.Request) {
			asked = append(asked, req.Header.Get("Range"))
			w.Header().Set("ETag", `"whole"`)
			http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(whole))
		})
		f.tune = func(t *Target) { t.Dumps = "auto" }
		f.one(true)
		f.bringsAll()
		if len(asked) != 1 || asked[0] != fmt.Sprintf("bytes=%d-", held-1) {
			t.Errorf("alone %t: asked for %q of %d", alone, asked, len(whole))
		}
		f.holds(bodiesOf(ms...))
		if names := f.spools(); len(names) > 0 {
			t.Error("spools are left:", names)
		}
	}
}

// watchedSpools tells how long the spool of one package becomes.
type watchedSpools struct {
	blob.Mirror
	of   []byte
	grew func(size int64)
}

func (m watchedSpools) Spool(ctx context.Context, name string) (blob.Spool, error) {
	s, err := m.Mirror.Spool(ctx, name)
	return &watchedSpool{s, m, true}, err
}

type watchedSpool struct {
	blob.Spool
	m     watchedSpools
	ofOne bool
}

func (s *watchedSpool) Write(b []byte) (int, error) {
	at := s.Size()
	s.ofOne = s.ofOne && int(at)+len(b) <= len(s.m.of) && bytes.Equal(b, s.m.of[at:int(at)+len(b)])
	n, err := s.Spool.Write(b)
	if s.ofOne {
		s.m.grew(s.Size())
	}
	return n, err
}

// spools are the names of what lies staged.
func (f *fake) spools() (names []string) {
	f.with(func(_ *Engine, target Target) { names = spoolsOf(f.t, target.Mirror) })
	return names
}

func spoolsOf(t tester, m blob.Mirror) (names []string) {
	err := m.Spools(context.Background(), func(name string, _ time.Time) error {
		names = append(names, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// TestSpoiltManifest: what a power cut left of the manifest of a package costs that package once more, and no more.
func TestSpoiltManifest(t *testing.T) {
	t.Parallel()
	f := dumped(t, "auto")
	f.set("resourcedump", "/rd.xml")
	one, two := members(20, 0), members(3, 20)
	f.resourceDump(0, nil, one, two)
	whole := f.pages["/p0-1.zip"]
	f.handle("/p0-1.zip", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	f.one(false)
	for _, name := range f.spools() {
		path := filepath.Join(f.root, ".resyncd", "stage", "packages", name)
		body, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, body[:len(body)/2], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.handle("/p0-1.zip", whole)
	f.all()
	f.one(true)
	f.holds(bodiesOf(slices.Concat(one, two)...))
}
