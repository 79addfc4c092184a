package sync

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"resyncd/destination/peer/source"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/transfer"
)

// stripped removes every file of the mirror, but not what is ours.
func (r *rig) stripped() {
	r.t.Helper()
	for key := range r.files() {
		if err := os.Remove(filepath.Join(r.root, filepath.FromSlash(key))); err != nil {
			r.t.Fatal(err)
		}
	}
}

// copied keeps a copy of the mirror's files; back puts it in their place.
func (r *rig) copied() (back func()) {
	r.t.Helper()
	type file struct {
		body []byte
		mod  time.Time
	}
	files := map[string]file{}
	for key := range r.files() {
		path := filepath.Join(r.root, filepath.FromSlash(key))
		b, err := os.ReadFile(path)
		if err != nil {
			r.t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			r.t.Fatal(err)
		}
		files[path] = file{b, info.ModTime()}
	}
	return func() {
		r.t.Helper()
		r.stripped()
		for path, f := range files {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				r.t.Fatal(err)
			}
			if err := os.WriteFile(path, f.body, 0o644); err != nil {
				r.t.Fatal(err)
			}
			if err := os.Chtimes(path, f.mod, f.mod); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}

// changed is a rig whose Change List has told of something: an update, a new resource and a deletion.
func changed(t *testing.T, n int) (r *rig, older func()) {
	t.Helper()
	r = newRig(t, source.Options{}, many(n))
	r.must()
	older = r.copied()
	r.put("d0/r000.txt", "changed")
	r.put("fresh", "new")
	r.src.Delete("d1/r001.txt")
	r.must()
	return r, older
}

// TestLookEmptied: the files are gone, and the next run, which has nothing to read, has them back; whatever told of them.
func TestLookEmptied(t *testing.T) {
	t.Parallel()
	for _, full := range []bool{false, true} {
		for _, n := range []int{29, 200} {
			r, _ := changed(t, n)
			r.stripped()
			r.opts.Full = full
			if res := r.must(); res.Fetched != int64(n) {
				t.Errorf("full %v, %d: %+v", full, n, res)
			}
		}
	}
}

// TestLookOwed: until what was lost is back, the set is not in step.
func TestLookOwed(t *testing.T) {
	t.Parallel()
	r, _ := changed(t, 29)
	r.stripped()
	r.interpose(failing("/fresh"))
	if res, err := r.run(); err != nil || res.InStep || res.Owed != 1 || res.Fetched != 28 {
		t.Errorf("%+v, %v", res, err)
	}
	r.interpose(nil)
	r.must()
}

// TestLookOlderCopy: an older copy lies in place of the files. What it has changed back, or again, is put right, as it is by policy.
func TestLookOlderCopy(t *testing.T) {
	t.Parallel()
	for _, full := range []bool{false, true} {
		r, older := changed(t, 29)
		older()
		r.opts.Full = full
		if res := r.must(); res.Fetched != 2 || res.Deleted != 1 {
			t.Errorf("full %v: %+v", full, res)
		}
		if r.opts.Full = false; r.must().Kind != "none" {
			t.Error("it is done again")
		}
	}
}

// TestLookKeeps: what was to be kept stays, and is not looked at again and again.
func TestLookKeeps(t *testing.T) {
	t.Parallel()
	r, older := changed(t, 29)
	older()
	r.tune = func(t *Target) { t.Delete = transfer.DeleteKeep }
	for _, kind := range []string{"incremental", "none"} {
		if res, err := r.run(); err != nil || !res.InStep || res.Kind != kind || res.Deleted != 0 {
			t.Errorf("%+v, %v", res, err)
		}
		if _, err := os.Stat(r.path("d1/r001.txt")); err != nil {
			t.Error(err)
		}
	}
}

// TestLookRestored: a file that no set wants, and that was restored and then removed, is noted as gone once and for all.
func TestLookRestored(t *testing.T) {
	t.Parallel()
	r, _ := changed(t, 29)
	r.opts.Full = true
	r.must() // its tombstone is dropped
	r.opts.Full = false
	uri := r.src.URI("d1/r001.txt")
	r.with(func(e *Engine, target Target) {
		if _, err := e.Restore(t.Context(), target, uri); err != nil {
			t.Fatal(err)
		}
	})
	if err := os.Remove(r.path("d1/r001.txt")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.must()
		if row := r.row(uri); row != nil && row.Have.State != store.HaveNone {
			t.Errorf("%+v", row.Have)
		}
	}
}

// TestLookFull: some files among many are missing, or other ones, and the newest that is known of two is an entry of a Change List,
// while the Resource List is still that of the first run.
func TestLookFull(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(path string) error{
		"gone":   os.Remove,
		"edited": func(path string) error { return os.WriteFile(path, []byte("edited"), 0o644) },
		"link":   func(path string) error { _ = os.Remove(path); return os.Symlink("/etc/hostname", path) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, source.Options{}, many(400))
			const list = "/.resourcesync/resourcelist.xml"
			asked := httptest.NewRecorder()
			r.src.Handler().ServeHTTP(asked, httptest.NewRequest(http.MethodGet, list, nil))
			r.interpose(func(w http.ResponseWriter, req *http.Request) bool {
				if req.URL.Path == list {
					_, _ = w.Write(asked.Body.Bytes())
				}
				return req.URL.Path == list
			})
			r.must()
			r.put("d0/r000.txt", "changed")
			r.put("fresh", "new")
			r.src.Delete("d1/r001.txt")
			r.must()
			for _, path := range []string{"fresh", "d0/r000.txt", "d2/r002.txt"} {
				if err := spoil(r.path(path)); err != nil {
					t.Fatal(err)
				}
			}
			r.opts.Full = true
			if res := r.must(); res.Fetched != 3 {
				t.Errorf("%+v", res)
			}
		})
	}
}

// TestLookTouched: files that were only touched are none to fetch.
func TestLookTouched(t *testing.T) {
	t.Parallel()
	r, _ := changed(t, 29)
	for key := range r.files() {
		if err := os.Chtimes(filepath.Join(r.root, filepath.FromSlash(key)), time.Time{}, time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if res := r.must(); res.Fetched != 0 || res.Kind != "none" {
		t.Errorf("%+v", res)
	}
}

// TestLookBaseline: a list that changed has all files looked at, though no Change List does.
func TestLookBaseline(t *testing.T) {
	t.Parallel()
	r := newRig(t, source.Options{}, many(400))
	r.interpose(hideChangeList(r))
	r.must()
	if err := os.Remove(r.path("d2/r002.txt")); err != nil {
		t.Fatal(err)
	}
	r.put("fresh", "new")
	if res := r.must(); res.Fetched != 2 {
		t.Errorf("%+v", res)
	}
}

// TestLookDry: a dry run names what the next one would fetch and delete.
func TestLookDry(t *testing.T) {
	t.Parallel()
	r, older := changed(t, 29)
	older()
	n := map[string]int{}
	r.opts.Plan = func(p Planned) error { n[p.Action]++; return nil }
	if _, err := r.run(); err != nil || n["fetch"] != 2 || n["delete"] != 1 {
		t.Errorf("%v, %v", n, err)
	}
}

// countedMirror counts the looks at files.
type countedMirror struct {
	blob.Mirror
	looks atomic.Int64
}

// Stat implements blob.Mirror.
func (m *countedMirror) Stat(ctx context.Context, key string) (blob.Info, error) {
	m.looks.Add(1)
	return m.Mirror.Stat(ctx, key)
}

// TestLookIsCheap: where nothing is wrong a run looks at so few files that nobody notices, and reads no more than before.
func TestLookIsCheap(t *testing.T) {
	t.Parallel()
	r := newRigIn(t, ramDir(t), source.Options{}, many(2000))
	r.must()
	var looks *countedMirror
	r.tune = func(t *Target) {
		looks = &countedMirror{Mirror: t.Mirror}
		t.Mirror = looks
	}
	for range 3 {
		if res, err := r.run(); err != nil || res.Kind != "none" || res.Requests > 3 || looks.looks.Load() > 64 {
			t.Errorf("%d looks, %+v, %v", looks.looks.Load(), res, err)
		}
	}
	r.opts.Full = true
	if _, err := r.run(); err != nil || looks.looks.Load() < 2000 {
		t.Errorf("%d looks in a full run, %v", looks.looks.Load(), err)
	}
}

// TestLookFollower: the folder is emptied under a running daemon. Its next pull has the files back, and so does one after an
// older copy was put there.
func TestLookFollower(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, many(29))
	older := p.copied()
	p.put("a.txt", "2")
	p.src.Delete("d1/r001.txt")
	p.push()
	p.eventually("quiet", func() bool { return p.same() && p.quiet() })
	p.stripped()
	p.pull(false)
	p.eventually("the files back", func() bool { return p.same() && p.quiet() })
	older()
	p.pull(false)
	p.eventually("the files as they are at the Source", func() bool { return p.same() && p.quiet() })
}

// TestLookUnmarked: the folder went away under a running daemon. Nothing is fetched into what is there in its place, and the set
// is not in step until it is back.
func TestLookUnmarked(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, many(29))
	if err := os.Rename(p.root, p.root+".aside"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(p.root, 0o755); err != nil {
		t.Fatal(err)
	}
	p.pull(false)
	if inStep, problem := p.standing(); inStep || problem == "" {
		t.Errorf("in step: %v, %q", inStep, problem)
	}
	left, err := os.ReadDir(p.root)
	if err != nil || len(left) > 0 {
		t.Errorf("in its place: %v, %v", left, err)
	}
	if err := os.Remove(p.root); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(p.root+".aside", p.root); err != nil {
		t.Fatal(err)
	}
	p.pull(false)
	if inStep, problem := p.standing(); !inStep {
		t.Errorf("not in step: %q", problem)
	}
}

// standing is how the set stands.
func (p *pusher) standing() (inStep bool, problem string) {
	p.t.Helper()
	src, err := p.store.Source(p.t.Context(), "test")
	if err != nil {
		p.t.Fatal(err)
	}
	sets, err := p.store.Sets(p.t.Context(), src.ID)
	if err != nil || len(sets) != 1 {
		p.t.Fatal(sets, err)
	}
	return sets[0].InStep, sets[0].Problem
}

// TestLookFeed: the mirror of a feed is emptied; nobody else than the feed has its bytes.
func TestLookFeed(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, posts(1, 3)...)
	s.sync()
	was := s.texts()
	for key := range s.files() {
		if err := os.Remove(filepath.Join(s.root, filepath.FromSlash(key))); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	s.sync()
	if now := s.texts(); len(now) != len(was) || len(now) == 0 {
		t.Errorf("%v, were %v", now, was)
	}
}

// BenchmarkLook is what a run that finds nothing wrong spends on its look at some files, and what a look at all of them costs each.
func BenchmarkLook(b *testing.B) {
	const n = 20_000
	r := newRigIn(b, b.TempDir(), source.Options{Synthetic: &source.Synthetic{Resources: n, Seed: 1, Size: 16}}, nil)
	if res, err := r.run(); err != nil || !res.InStep {
		b.Fatal(res, err)
	}
	r.with(func(e *Engine, target Target) {
		s, err := e.begin(b.Context(), target, r.opts, Observer{})
		if err != nil {
			b.Fatal(err)
		}
		defer s.release()
		b.Run("some", func(b *testing.B) {
			for b.Loop() {
				if astray, err := s.Astray(b.Context()); err != nil || astray {
					b.Fatal(astray, err)
				}
			}
		})
		b.Run("all", func(b *testing.B) {
			for b.Loop() {
				if unseen, err := s.LookAt(b.Context(), store.ScanQuery{Filter: store.FilterMirrored}, nil); err != nil || unseen != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/resource")
		})
	})
}
