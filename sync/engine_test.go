package sync

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"resyncd/destination/peer/source"
	"resyncd/store"
	"resyncd/sync/report"
)

func TestCatchUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, source.Options{}, many(50))
	if res := r.must(); res.Kind != "baseline" || res.Fetched != 50 || res.Requests != 54 {
		t.Errorf("first run: %+v", res)
	}
	res := r.must()
	docs, resources := r.asked()
	if res.Kind != "none" || len(docs) != 3 || len(resources) != 0 || res.Requests != 3 {
		t.Errorf("nothing new: %+v, asked %v, %v", res, docs, resources)
	}
	r.put("d0/r000.txt", "second version")
	r.put("d0/r000.txt", "third version")
	r.put("fresh", "new")
	r.src.Delete("d1/r001.txt")
	res = r.must()
	if _, resources = r.asked(); res.Kind != "incremental" || res.Fetched != 2 || res.Deleted != 1 || len(resources) != 2 {
		t.Errorf("changes: %+v, asked %v", res, resources)
	}
}

// TestEachCountedOnce: of what a list names again, a file that is gone counts as fetched, and one that was only touched as
// unchanged.
func TestEachCountedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, source.Options{}, many(50))
	r.must()
	r.opts.Full = true
	if err := os.Remove(r.path("d1/r001.txt")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(r.path("d2/r002.txt"), time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if res := r.must(); res.Fetched != 1 || res.Unchanged != 49 {
		t.Errorf("%+v", res)
	}
}

// After a week away the closed Change Lists are read through their index, and only what changed is fetched.
func TestClosedListsThroughIndex(t *testing.T) {
	t.Parallel()
	r := newRig(t, source.Options{ChangeListSize: 3}, many(30))
	r.must()
	for i := range 10 {
		r.put("d0/r000.txt", strings.Repeat("x", i+1))
		r.put("d1/r001.txt", strings.Repeat("y", i+1))
	}
	res := r.must()
	if res.Kind != "incremental" || res.Fetched != 2 || res.GapsFound != 0 {
		t.Errorf("%+v", res)
	}
	if res = r.must(); res.Kind != "none" || res.Requests > 4 {
		docs, _ := r.asked()
		t.Errorf("nothing new: %+v, asked %v", res, docs)
	}
}

// When nothing covers the hole there is exactly one baseline, and the gap is closed by it.
func TestHoleWithoutLists(t *testing.T) {
	t.Parallel()
	r := newRig(t, source.Options{ChangeListSize: 2, KeepChangeLists: 1}, many(30))
	r.must()
	for i := range 12 {
		r.put("d0/r000.txt", strings.Repeat("x", i+1))
	}
	r.src.Delete("d1/r001.txt")
	res := r.must()
	if res.Kind != "baseline" || res.GapsFound != 1 || res.GapsClosed != 1 || res.Fetched != 1 || res.Deleted != 1 {
		t.Errorf("%+v", res)
	}
	if res = r.must(); res.Kind != "none" || res.GapsFound != 0 {
		t.Errorf("afterwards: %+v", res)
	}
	r.with(func(e *Engine, target Target) {
		src, err := e.Store.Source(context.Background(), "test")
		if err != nil {
			t.Fatal(err)
		}
		s, err := report.StatusOf(context.Background(), e.Store, &src)
		if err != nil || len(s.Sets) != 1 || s.Sets[0].Baselines != 2 || len(s.Sets[0].Gaps) != 1 || *s.Sets[0].Gaps[0].ClosedBy != "baseline" {
			t.Errorf("status %+v, %v", s, err)
		}
	})
}

func TestHoleClosedByArchive(t *testing.T) {
	t.Parallel()
	r := newRig(t, source.Options{ChangeListSize: 2, KeepChangeLists: 1, Archive: 50}, many(30))
	r.must()
	for i := range 12 {
		r.put("d0/r000.txt", strings.Repeat("x", i+1))
	}
	res := r.must()
	if res.Kind != "incremental" || res.GapsFound != 1 || res.GapsClosed != 1 || res.Fetched != 1 {
		t.Errorf("%+v", res)
	}
}

// A list that would remove too much is held for the operator; nothing else waits.
func TestSweepGuard(t *testing.T) {
	t.Parallel()
	r := newRig(t, source.Options{}, many(60))
	r.tune = withoutChangeList
	r.interpose(hideChangeList(r))
	r.must()
	for name := range many(60) {
		if name != "d0/r000.txt" && name < "d2" {
			r.src.Delete(name)
		}
	}
	r.put("fresh", "new")
	res, err := r.run()
	if err != nil || res.Held != 39 || res.Deleted != 0 || res.Fetched != 1 || res.InStep {
		t.Fatalf("%+v, %v", res, err)
	}
	if n := len(r.files()); n != 61 {
		t.Errorf("%d files", n)
	}
	r.with(func(e *Engine, target Target) {
		done, err := e.Approve(context.Background(), target, true)
		if err != nil || done.Resources != 39 {
			t.Errorf("reject: %+v, %v", done, err)
		}
	})
	if res, err = r.run(); err != nil || !res.InStep || res.Held != 0 {
		t.Errorf("after a reject: %+v, %v", res, err)
	}
	r.put("fresh", "newer")
	if res, err = r.run(); err != nil || res.Held != 39 {
		t.Errorf("the list changed, the guard holds again: %+v, %v", res, err)
	}
	r.with(func(e *Engine, target Target) {
		done, err := e.Approve(context.Background(), target, false)
		if err != nil || done.Resources != 39 {
			t.Errorf("approve: %+v, %v", done, err)
		}
	})
	r.must()
}

func withoutChangeList(*Target) {}

// hideChangeList serves a Capability List that names the Resource List only.
func hideChangeList(r *rig) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, req *http.Request) bool {
		if req.URL.Path != "/.resourcesync/capabilitylist.xml" {
			return false
		}
		w.Header().Set("ETag", `"fixed"`)
		if req.Header.Get("If-None-Match") == `"fixed"` {
			w.WriteHeader(http.StatusNotModified)
			return true
		}
		_, _ = w.Write([]byte(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:md capability="capabilitylist"/><url><loc>` + r.srv.URL + `/.resourcesync/resourcelist.xml</loc><rs:md capability="resourcelist"/></url></urlset>`))
		return true
	}
}

// A body that does not match its entry is never visible; the old version stays and the resource is owed.
func TestWrongBodyIsOwed(t *testing.T) {
	t.Parallel()
	r := newRig(t, source.Options{}, many(20))
	r.must()
	r.put("d0/r000.txt", "good bytes")
	r.put("d0/r003.txt", "also changed")
	wrong := true
	r.interpose(func(w http.ResponseWriter, req *http.Request) bool {
		if wrong && req.URL.Path == "/d0/r000.txt" {
			_, _ = w.Write([]byte("bad bytes!"))
			return true
		}
		return false
	})
	res, err := r.run()
	if err != nil || res.Owed != 1 || res.Failed != 1 || res.Fetched != 1 || res.InStep {
		t.Fatalf("%+v, %v", res, err)
	}
	if b, err := os.ReadFile(r.path("d0/r000.txt")); err != nil || string(b) != "body 0" {
		t.Errorf("the file holds %q, %v", b, err)
	}
	r.with(func(e *Engine, _ Target) {
		n := 0
		src, err := e.Store.Source(context.Background(), "test")
		if err != nil {
			t.Fatal(err)
		}
		err = report.List(context.Background(), e.Store, src.ID, report.ListOwed, func(l report.Listing) error {
			n++
			if l.URI != r.src.URI("d0/r000.txt") || l.Reason == nil || l.NextTry.IsZero() || *l.Attempts < 1 || *l.Length != 6 {
				t.Errorf("%+v", l)
			}
			return nil
		})
		if err != nil || n != 1 {
			t.Errorf("%d owed, %v", n, err)
		}
	})
	wrong = false
	r.must()
}

// The state database is lost: files are taken over by hashing them, what is wrong is fetched, what no list names goes to
// the trash.
func TestStateLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, source.Options{}, many(40))
	r.must()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(r.db + suffix); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(r.path("d0/r000.txt"), []byte("edited"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.src.Delete("d1/r001.txt")
	res := r.must()
	if _, resources := r.asked(); res.Fetched != 1 || len(resources) != 1 {
		t.Errorf("%+v, asked %v", res, resources)
	}
}

// TestStateLostBeforeAnEmptyList: a list that names nothing removes nothing of a mirror whose state was lost, and the next one
// that names something is asked about what it does not name.
func TestStateLostBeforeAnEmptyList(t *testing.T) {
	t.Parallel()
	was := many(40)
	r := newRig(t, source.Options{}, was)
	r.must()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(r.db + suffix); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	for name := range was {
		r.src.Delete(name)
	}
	for range 2 {
		if res, err := r.run(); err != nil || res.Deleted != 0 || len(r.files()) != 40 {
			t.Fatalf("%+v, %v, %d files", res, err, len(r.files()))
		}
	}
	for name, body := range was {
		if name != "d0/r000.txt" && name != "d1/r001.txt" {
			r.put(name, body)
		}
	}
	r.must()
	if n := len(r.files()); n != 38 {
		t.Errorf("%d files", n)
	}
	if err := os.WriteFile(r.path("d0/later"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if res, err := r.run(); err != nil || len(r.files()) != 39 {
		t.Errorf("swept once more: %+v, %v", res, err)
	}
}

// A list that is no list, a cut one, or an index with a missing part removes nothing and moves nothing.
func TestUnusableList(t *testing.T) {
	t.Parallel()
	page := `<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title>Sorry</title></head><body/></html>`
	empty := `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="changelist" from="2020-01-01T00:00:00Z"/></urlset>`
	for name, body := range map[string]string{
		"page": page, "other capability": empty, "cut": `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="resourcelist" at="2030-01-01T00:00:00Z"/>`, "nothing": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, source.Options{}, many(12))
			hide := hideChangeList(r)
			r.interpose(hide)
			r.must()
			r.src.Delete("d0/r000.txt")
			r.interpose(func(w http.ResponseWriter, req *http.Request) bool {
				if req.URL.Path == "/.resourcesync/resourcelist.xml" {
					_, _ = w.Write([]byte(body))
					return true
				}
				return hide(w, req)
			})
			res, err := r.run()
			if err != nil || res.InStep || res.Problem == "" || res.Deleted != 0 || len(r.files()) != 12 || !res.Unavailable {
				t.Errorf("%+v, %v, %d files", res, err, len(r.files()))
			}
			r.interpose(hide)
			r.must()
		})
	}
}

func TestPausedSource(t *testing.T) {
	t.Parallel()
	r := newRig(t, source.Options{}, many(3))
	r.must()
	r.with(func(e *Engine, target Target) {
		src, err := e.Store.Source(context.Background(), "test")
		if err == nil {
			err = e.Store.SetPaused(context.Background(), src.ID, true)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Run(context.Background(), target, RunOptions{From: store.NoTime}); err != ErrStopped {
			t.Errorf("%v", err)
		}
	})
}
