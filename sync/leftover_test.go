package sync

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"resyncd/destination/fetch"
	"resyncd/destination/peer/source"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/store/sqlite"
)

// cut makes the state say that the last run had no orderly end.
func (r *rig) cut() {
	r.t.Helper()
	r.with(func(e *Engine, target Target) {
		src, err := e.Store.Source(context.Background(), target.Name)
		if err != nil {
			r.t.Fatal(err)
		}
		claim, release, err := e.Store.Claim(context.Background(), src.ID, "cut")
		if err != nil {
			r.t.Fatal(err)
		}
		unclean := true
		err = e.Store.Commit(context.Background(), &store.Commit{Claim: claim, Source: &store.SourceChange{Unclean: &unclean}})
		if err := errors.Join(err, release()); err != nil {
			r.t.Fatal(err)
		}
	})
}

// row is what the state has of a resource.
func (r *rig) row(uri string) (row *store.Resource) {
	r.t.Helper()
	r.with(func(e *Engine, target Target) {
		src, err := e.Store.Source(context.Background(), target.Name)
		if err == nil {
			row, err = e.Store.Resource(context.Background(), src.ID, uri)
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			r.t.Fatal(err)
		}
	})
	return row
}

// failing answers for some resources with status 500.
func failing(paths ...string) func(w http.ResponseWriter, req *http.Request) bool {
	return func(w http.ResponseWriter, req *http.Request) bool {
		for _, p := range paths {
			if req.URL.Path == p {
				http.Error(w, "not now", http.StatusInternalServerError)
				return true
			}
		}
		return false
	}
}

// TestLeftoverOwed: a cut run put files in place of which no row tells, and the next one, which looks at the disk, ends as it
// should without having fetched their resources. The one after it finds that they are gone, or as they were before.
func TestLeftoverOwed(t *testing.T) {
	t.Parallel()
	for steps := int64(0); ; steps++ {
		r := newRigIn(t, ramDir(t), source.Options{}, many(6))
		r.must()
		r.put("d0/r000.txt", "changed")
		r.put("fresh", "new")
		survived := r.dieAfter(steps)
		row := r.row(r.src.URI("fresh"))
		if _, err := os.Stat(r.path("fresh")); err == nil && row.Have.State == store.HaveNone { // what is wanted would be adopted
			if err := os.WriteFile(r.path("fresh"), []byte("older"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r.interpose(failing("/fresh", "/d0/r000.txt"))
		if _, err := r.run(); err != nil {
			t.Fatalf("step %d: %v", steps, err)
		}
		r.interpose(nil)
		r.put("d0/r000.txt", "body 0")
		r.src.Delete("fresh")
		r.must()
		r.tidy()
		if survived || t.Failed() {
			return
		}
	}
}

// TestLeftoverOfABackup: an older state, of an orderly end with something owed, beside files as they are. Who repairs what it
// does not know leaves what is owed to the next run, and word of it.
func TestLeftoverOfABackup(t *testing.T) {
	t.Parallel()
	r := newRigIn(t, ramDir(t), source.Options{}, many(6))
	r.must()
	r.put("fresh", "new")
	r.interpose(failing("/fresh"))
	if res, err := r.run(); err != nil || res.InStep {
		t.Fatalf("%+v, %v", res, err)
	}
	r.interpose(nil)
	if err := sqlite.Snapshot(t.Context(), r.db, r.db+".backup"); err != nil {
		t.Fatal(err)
	}
	r.must()
	for _, suffix := range []string{"-wal", "-shm"} {
		_ = os.Remove(r.db + suffix)
	}
	if err := os.Rename(r.db+".backup", r.db); err != nil {
		t.Fatal(err)
	}
	r.with(func(e *Engine, target Target) {
		if _, err := e.Verify(t.Context(), target, r.opts, true, func(Finding) error { return nil }); err != nil {
			t.Fatal(err)
		}
	})
	r.src.Delete("fresh")
	r.must()
	r.tidy()
}

// TestLeftoverRefused: a cut run placed a file and recorded nothing, and the next may not ask for its resource any more. The
// file is known all the same, and goes when the Source deletes the resource.
func TestLeftoverRefused(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	u, err := url.Parse(f.srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	other := "localhost:" + u.Port()
	trusted := []string{u.Host, other}
	f.tune = func(t *Target) {
		t.Scope = []string{"http://" + other + "/"}
		t.Policy, t.Reach = &fetch.Policy{Trusted: trusted}, trusted[len(trusted)-1]
	}
	entry := func(change string, minute int) string {
		return `<url><loc>http://` + other + `/x</loc><rs:md change="` + change + `" datetime="` + when(minute) + `"/></url>`
	}
	changes := func(entries ...string) { f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`, entries...)) }
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a")))
	changes(entry("created", 5))
	f.one(false) // /x is not there yet
	f.cut()
	file := filepath.Join(f.root, f.row("http://"+other+"/x").Key)
	err = errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("x"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	trusted = trusted[:1]
	if res := f.one(true); res.Refused != 1 {
		t.Fatalf("%+v", res)
	}
	changes(entry("created", 5), entry("deleted", 9))
	f.one(true)
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("deleted at the Source, in step, and the file is there: %v", err)
	}
}

// unreadable is a mirror of which one file cannot be read.
type unreadable struct {
	blob.Mirror
	key string
}

func (m unreadable) Open(ctx context.Context, key string) (f blob.File, i blob.Info, err error) {
	if key == m.key {
		return nil, i, fmt.Errorf("read it: %w", blob.ErrIO)
	}
	return m.Mirror.Open(ctx, key)
}

// TestUnreadableLeftover: a run that was cut left files to be looked at, and one of them cannot be read. It is fetched anew,
// or goes, and no other resource waits for it (F10).
func TestUnreadableLeftover(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file string
		next func(r *rig)
	}{
		"known, changed":   {"d0/r000.txt", func(r *rig) { r.put("d0/r000.txt", "three") }},
		"known, deleted":   {"d0/r000.txt", func(r *rig) { r.src.Delete("d0/r000.txt") }},
		"known, as before": {"d0/r000.txt", func(r *rig) { r.put("d0/r000.txt", "body 0") }},
		"new":              {"fresh", func(*rig) {}},
		"new, deleted":     {"fresh", func(r *rig) { r.src.Delete("fresh") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigIn(t, ramDir(t), source.Options{}, many(6))
			r.must()
			r.put(c.file, "two")
			r.interpose(failing("/" + c.file))
			if res, err := r.run(); err != nil || res.Owed != 1 {
				t.Fatalf("%+v, %v", res, err)
			}
			r.interpose(nil)
			r.cut()
			row := r.row(r.src.URI(c.file))
			if row.Have.State == store.HaveNone {
				if err := os.WriteFile(r.path(c.file), []byte("let"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			r.tune = func(target *Target) { target.Mirror = unreadable{target.Mirror, row.Key} }
			c.next(r)
			r.put("other", "other")
			if res, err := r.run(); err != nil || !res.InStep {
				t.Fatalf("%+v, %v", res, err)
			}
			r.equal()
			r.tune = nil
			r.auditFinds()
		})
	}
}

// TestOlderState: a state from a backup beside newer files hears that a resource is to be what its row says.
func TestOlderState(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(r *rig){
		"changed": func(r *rig) { r.put("d0/r000.txt", "two") },
		"deleted": func(r *rig) { r.src.Delete("d0/r000.txt") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigIn(t, ramDir(t), source.Options{}, many(6))
			r.must()
			left := filepath.Join(t.TempDir(), "backup")
			r.with(func(*Engine, Target) { copyState(t, r.db, left) })
			after(r)
			r.must()
			copyState(t, left, r.db)
			r.put("d0/r000.txt", "body 0")
			r.must()
		})
	}
}

// laxStore tells whether something was committed that a power cut may take back.
type laxStore struct {
	store.Store
	lax *atomic.Bool
}

func (s laxStore) Commit(ctx context.Context, c *store.Commit) error {
	err := s.Store.Commit(ctx, c)
	s.lax.Store(c.Repeatable)
	return err
}

func (s laxStore) Durable(ctx context.Context) error {
	err := s.Store.Durable(ctx)
	s.lax.Store(false)
	return err
}

// laxMirror counts changes of files, and those that were made while a power cut might still take back what asked for them.
type laxMirror struct {
	blob.Mirror
	lax        *atomic.Bool
	all, early *atomic.Int64
}

func (m laxMirror) changed() {
	m.all.Add(1)
	if m.lax.Load() {
		m.early.Add(1)
	}
}

func (m laxMirror) Place(ctx context.Context, group []blob.Placement) ([]error, error) {
	m.changed()
	return m.Mirror.Place(ctx, group)
}

func (m laxMirror) Trash(ctx context.Context, items []blob.TrashItem) []error {
	m.changed()
	return m.Mirror.Trash(ctx, items)
}

// TestFilesAfterWants: a push waits for no disk until its files change. By then its wants are durable: a file that came, or
// went, for a want that a power cut took back would be known to nobody (P1).
func TestFilesAfterWants(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, many(4))
	p.stop()
	var lax atomic.Bool
	var all, early atomic.Int64
	p.engine = func(e *Engine) { e.Store = laxStore{e.Store, &lax} }
	p.tune = func(t *Target) { t.Mirror = laxMirror{t.Mirror, &lax, &all, &early} }
	p.follow()
	p.pull(false)
	for i, change := range []func(){
		func() { p.put("a.txt", "2") }, func() { p.put("fresh", "new") }, func() { p.src.Delete("fresh") },
	} {
		before := all.Load()
		change()
		p.push()
		p.eventually("carried out", func() bool { return p.same() && p.quiet() })
		if all.Load() == before {
			t.Errorf("%d: no change of a file was seen", i)
		}
	}
	if n := early.Load(); n > 0 {
		t.Errorf("%d of %d changes of files were made too early", n, all.Load())
	}
}
