package sync

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/fetch"
	"resyncd/destination/peer/source"
	"resyncd/store"
	"resyncd/store/blob/dir"
	"resyncd/store/sqlite"
	"resyncd/sync/keymap"
	"resyncd/sync/transfer"
)

// tester is what a rig needs of a test: *testing.T and *rapid.T both have it.
type tester interface {
	Helper()
	Cleanup(f func())
	Context() context.Context
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// rig is a living Source, a mirror of it and everything between, for tests of the whole engine.
type rig struct {
	t    tester
	src  *source.Source
	srv  *httptest.Server
	root string // mirror
	db   string // state
	opts RunOptions
	tune func(*Target)
	// engine, fetch and mirror change what open makes.
	engine func(*Engine)
	fetch  fetch.Options
	mirror dir.Options

	mu   sync.Mutex
	asks []string // paths asked since the last run began
	// over, if it answers true, has answered the request in the Source's place.
	over func(w http.ResponseWriter, r *http.Request) bool
}

// newRig begins with a Source in memory that holds the given bodies by name.
func newRig(t *testing.T, o source.Options, bodies map[string]string) *rig {
	t.Helper()
	return newRigIn(t, t.TempDir(), o, bodies)
}

// newRigIn is newRig with its mirror and state below a folder.
func newRigIn(t tester, folder string, o source.Options, bodies map[string]string) *rig {
	t.Helper()
	r := &rig{t: t, root: filepath.Join(folder, "mirror"), db: filepath.Join(folder, "state.db"), opts: RunOptions{From: store.NoTime}}
	r.srv = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.srv.Close)
	o.Base = r.srv.URL
	src, err := source.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = src.Close() })
	r.src = src
	for name, body := range bodies {
		r.put(name, body)
	}
	return r
}

func (r *rig) put(name, body string) {
	r.t.Helper()
	if err := r.src.Put(name, []byte(body)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) serve(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.asks = append(r.asks, req.URL.Path)
	over := r.over
	r.mu.Unlock()
	if over == nil || !over(w, req) {
		r.src.Handler().ServeHTTP(w, req)
	}
}

// interpose lets f answer in the Source's place.
func (r *rig) interpose(f func(w http.ResponseWriter, req *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = f
}

// asked are the requests of the last run: documents and resources apart.
func (r *rig) asked() (documents, resources []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.asks {
		if strings.HasPrefix(p, "/.resourcesync/") || strings.HasPrefix(p, "/.well-known/") || p == "/" || p == "/robots.txt" {
			documents = append(documents, p)
		} else {
			resources = append(resources, p)
		}
	}
	return documents, resources
}

// open opens state and mirror as the command does.
func (r *rig) open() (*Engine, Target, func()) {
	r.t.Helper()
	ctx := context.Background()
	state, _, err := dir.Inspect(r.root)
	if err != nil {
		r.t.Fatal(err)
	}
	id, err := dir.Create(r.root)
	if err != nil {
		r.t.Fatal(err)
	}
	m, err := dir.Open(r.root, id, r.mirror)
	if err != nil {
		r.t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	if err := makeState(r.db); err != nil {
		r.t.Fatal(err)
	}
	st, err := sqlite.Open(ctx, r.db, sqlite.Options{Log: log})
	if err != nil {
		r.t.Fatal(err)
	}
	fo := r.fetch
	fo.Log = log
	client := fetch.New(fo)
	host, err := url.Parse(r.srv.URL)
	if err != nil {
		r.t.Fatal(err)
	}
	src, err := st.Source(ctx, "test")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		r.t.Fatal(err)
	}
	ours := src.RootID == "" && state == dir.Marked // before its state was lost
	target := Target{
		Name: "test", URL: r.srv.URL + "/", DeleteGuard: 0.2,
		Means: transfer.Means{
			Delete: transfer.DeleteTrash, TrashFor: time.Hour, Concurrency: 4,
			Client: client, Policy: &fetch.Policy{Trusted: []string{host.Host}},
		},
		Mirror: m, RootID: id,
		Adopt: ours || state == dir.Foreign, SweepExtra: ours && err != nil,
	}
	if r.tune != nil {
		r.tune(&target)
	}
	e := &Engine{Store: st, Log: log, Holder: "test", Now: time.Now}
	if r.engine != nil {
		r.engine(e)
	}
	return e, target, func() {
		client.Close()
		if err := m.Close(); err != nil {
			r.t.Error(err)
		}
		if err := st.Close(); err != nil {
			r.t.Error(err)
		}
	}
}

// run catches up once.
func (r *rig) run() (Result, error) {
	r.t.Helper()
	r.mu.Lock()
	r.asks = nil
	r.mu.Unlock()
	e, target, done := r.open()
	defer done()
	results, err := e.Run(context.Background(), target, r.opts)
	if len(results) != 1 {
		return Result{}, fmt.Errorf("%d results, %w", len(results), err)
	}
	return results[0], err
}

// must catches up and insists on being in step, with the mirror equal to the Source, by hash and by the auditor's word.
func (r *rig) must() Result {
	r.t.Helper()
	res, err := r.run()
	if err != nil || !res.InStep {
		r.t.Fatalf("not in step: %+v, %v", res, err)
	}
	r.equal()
	r.auditFinds()
	return res
}

// with opens the engine for something else than a run.
func (r *rig) with(work func(e *Engine, target Target)) {
	r.t.Helper()
	e, target, done := r.open()
	defer done()
	work(e, target)
}

// equal holds the mirror to the Source: same URIs, same bytes, nothing else (P1).
func (r *rig) equal() {
	r.t.Helper()
	r.equalBut()
}

// equalBut is equal but for some keys.
func (r *rig) equalBut(keys ...string) {
	r.t.Helper()
	want := map[string]string{}
	for uri, sum := range r.src.Resources() {
		key, err := keymap.NaturalKey(uri)
		if err != nil {
			r.t.Fatal(err)
		}
		want[key] = fmt.Sprintf("%x", sum)
	}
	got := r.files()
	for _, k := range keys {
		delete(got, k)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Fatalf("mirror differs from the Source (-source +mirror):\n%s", diff)
	}
}

// files are the mirror's files by key.
func (r *rig) files() map[string]string {
	r.t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(r.root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != r.root {
			return nil // a folder that was removed this very moment
		}
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == ".resyncd" {
				return filepath.SkipDir
			}
			return nil
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed this very moment
		}
		if err != nil {
			return err
		}
		key, err := filepath.Rel(r.root, path)
		got[filepath.ToSlash(key)] = fmt.Sprintf("%x", sha256.Sum256(b))
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

// path is where the file of a resource lies.
func (r *rig) path(name string) string {
	r.t.Helper()
	key, err := keymap.NaturalKey(r.src.URI(name))
	if err != nil {
		r.t.Fatal(err)
	}
	return filepath.Join(r.root, filepath.FromSlash(key))
}

// many are n small bodies.
func many(n int) map[string]string {
	out := make(map[string]string, n)
	for i := range n {
		out[fmt.Sprintf("d%d/r%03d.txt", i%3, i)] = fmt.Sprintf("body %d", i)
	}
	return out
}

// write puts a file there by other means than ours, with the folders above it.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// ramDir is a temporary folder in memory where the machine has one, for tests of hundreds of runs that are not about disks.
func ramDir(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("/dev/shm", "resyncd-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}
