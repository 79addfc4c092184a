package sync

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"resyncd/destination/peer/source"
	"resyncd/store"
	"resyncd/sync/inspect"
)

// TestOutOfScope: a loc outside the scope is refused, counted and no reason for not being in step (F51); a wider scope
// brings it.
func TestOutOfScope(t *testing.T) {
	t.Parallel()
	f, other := newFake(t), newFake(t)
	other.page("/x", "x")
	f.set("resourcelist", "/rl.xml")
	outside := `<url><loc>` + other.uri("/x") + `</loc><rs:md ` + fixity("x") + `/></url>`
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a"), outside,
		`<url><loc>file:///etc/passwd</loc><rs:md length="1"/></url>`, `<url><loc>http://169.254.169.254/latest</loc></url>`))
	if res := f.one(true); res.Refused < 2 || res.Owed != 0 || res.Fetched != 1 {
		t.Errorf("%+v", res)
	}
	if _, asked := other.asked(); len(asked) != 0 {
		t.Errorf("asked the other host for %v", asked)
	}
	f.holds(map[string]string{"/a": "a"})
	f.quiet()
	f.tune = func(t *Target) {
		t.Scope = []string{other.uri("/")}
		t.Policy.Trusted = append(t.Policy.Trusted, other.srv.Listener.Addr().String())
	}
	if res := f.one(true); res.Fetched != 1 {
		t.Errorf("%+v", res)
	}
	if n := len(f.files()); n != 2 {
		t.Errorf("%d files", n)
	}
	f.quiet()
}

// TestTwoEngines: the second process is told who holds the Source; one that lost its claim can commit nothing (F17).
func TestTwoEngines(t *testing.T) {
	t.Parallel()
	r := newRigIn(t, ramDir(t), source.Options{}, many(12))
	inside, goOn := make(chan struct{}), make(chan struct{})
	first := true
	r.interpose(func(_ http.ResponseWriter, req *http.Request) bool {
		if req.URL.Path == "/d0/r000.txt" && first {
			first = false
			close(inside)
			<-goOn
		}
		return false
	})
	done := make(chan error, 1)
	go func() {
		e, target, closing := r.open()
		defer closing()
		_, err := e.Run(context.Background(), target, r.opts)
		done <- err
	}()
	<-inside
	e, target, closing := r.open()
	_, err := e.Run(context.Background(), target, r.opts)
	var held *store.HeldError
	if !errors.As(err, &held) || held.Holder == "" {
		t.Errorf("the second engine: %v", err)
	}
	closing()
	close(goOn)
	if err := <-done; err != nil {
		t.Errorf("the first engine: %v", err)
	}
	r.equal()

	r.with(func(e *Engine, target Target) {
		s, err := e.begin(context.Background(), target, r.opts, Observer{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.release(); err != nil {
			t.Fatal(err)
		}
		next, err := e.begin(context.Background(), target, r.opts, Observer{})
		if err != nil {
			t.Fatal(err)
		}
		defer next.release() //nolint:errcheck // a test
		clean := false
		err = e.Store.Commit(context.Background(), &store.Commit{Claim: s.Claim, Source: &store.SourceChange{Unclean: &clean}})
		if !errors.Is(err, store.ErrFenced) {
			t.Errorf("a fenced engine committed: %v", err)
		}
	})
}

// TestMarkerMissing: a root that lost its marker is not worked on (F12).
func TestMarkerMissing(t *testing.T) {
	t.Parallel()
	r := newRigIn(t, ramDir(t), source.Options{}, many(12))
	r.must()
	r.src.Delete("d0/r000.txt")
	r.put("d1/r001.txt", "changed")
	e, target, done := r.open()
	defer done()
	marker := filepath.Join(r.root, ".resyncd", "root")
	text, err := os.ReadFile(marker)
	if err == nil {
		err = os.Remove(marker)
	}
	if err != nil {
		t.Fatal(err)
	}
	res, err := e.Run(context.Background(), target, r.opts)
	if err == nil && (len(res) != 1 || res[0].InStep || res[0].Problem == "") {
		t.Errorf("%+v", res)
	}
	if n := len(r.files()); n != 12 {
		t.Errorf("%d files", n)
	}
	if err := os.WriteFile(marker, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if res, err := e.Run(context.Background(), target, r.opts); err != nil || !res[0].InStep {
		t.Errorf("%+v, %v", res, err)
	}
	r.equal()
}

// TestRepairRetries: a repair whose Source sends wrong bytes retries for as long as it may, and says what is still wrong.
func TestRepairRetries(t *testing.T) {
	t.Parallel()
	r := newRigIn(t, ramDir(t), source.Options{}, many(12))
	r.fetch = quick
	r.must()
	write(t, r.path("d0/r000.txt"), "flipped")
	write(t, filepath.Join(r.root, "extra"), "extra")
	bad := true
	r.interpose(func(w http.ResponseWriter, req *http.Request) bool {
		if req.URL.Path != "/d0/r000.txt" || !bad {
			return false
		}
		_, _ = w.Write([]byte("BODY 0"))
		return true
	})
	r.opts.RetryFor = 300 * time.Millisecond
	repair := func() (rep Report, found map[string]bool) {
		found = map[string]bool{}
		r.with(func(e *Engine, target Target) {
			var err error
			rep, err = e.Verify(context.Background(), target, r.opts, true, func(f Finding) error {
				found[f.Problem] = f.Repaired
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
		return rep, found
	}
	if rep, found := repair(); rep.InStep || rep.Problems != 2 || rep.Repaired != 1 || found[inspect.ProblemChanged] || !found[inspect.ProblemExtra] {
		t.Errorf("%+v %v", rep, found)
	}
	bad = false
	r.must()
	if rep, found := repair(); !rep.InStep || rep.Problems != 0 {
		t.Errorf("%+v %v", rep, found)
	}
}
