package sync

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"resyncd/destination/peer/source"
	"resyncd/store"
)

// TestHistoryWentBack: lists that end before the position are a stale cache until they have been so for gap_patience; then
// a baseline begins anew from what the Source says (F65, F73).
func TestHistoryWentBack(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	from := `from="` + when(0) + `"`
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a"), f.res("/b", "b"), f.res("/c", "c")))
	f.page("/cl.xml", list("changelist", from, f.changed("/a", "a2", "updated", 50), f.changed("/d", "d", "created", 60)))
	f.one(true)
	f.quiet()
	was := f.position()

	// Restored from a backup: /d never was, /a has its old body, /b was changed since.
	f.page("/a", "a")
	f.handle("/d", nil)
	f.page("/rl.xml", list("resourcelist", `at="`+when(40)+`"`, f.res("/a", "a"), f.res("/b", "b2"), f.res("/c", "c")))
	f.page("/cl.xml", list("changelist", `from="`+when(40)+`"`))
	for range 2 {
		f.one(false)
		f.holds(map[string]string{"/a": "a2", "/b": "b", "/c": "c", "/d": "d"})
		if f.position() != was || f.baselines() != 1 {
			t.Fatalf("the position went to %v, %d baselines", f.position().Time(), f.baselines())
		}
	}
	if gaps := f.gaps(); len(gaps) != 1 || gaps[0].State != store.GapLagging {
		t.Errorf("%+v", gaps)
	}
	f.later(25 * time.Hour)
	f.run() //nolint:errcheck // the next run is judged
	f.later(26 * time.Hour)
	f.one(true)
	f.holds(map[string]string{"/a": "a", "/b": "b2", "/c": "c"})
	if f.position() >= was || f.baselines() != 2 {
		t.Errorf("the position is %v, %d baselines", f.position().Time(), f.baselines())
	}
	f.page("/cl.xml", list("changelist", `from="`+when(40)+`"`, f.changed("/e", "e", "created", 45)))
	f.one(true)
	f.holds(map[string]string{"/a": "a", "/b": "b2", "/c": "c", "/e": "e"})
	f.quiet()
}

// TestStaleCache: one stale answer delays, it costs no baseline and moves nothing back (F59, P6).
func TestStaleCache(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	from := `from="` + when(0) + `"`
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a"), f.res("/b", "b")))
	first := f.changed("/a", "a2", "updated", 10)
	old := list("changelist", from, first)
	f.page("/cl.xml", old)
	f.one(true)
	now := list("changelist", from, first, f.changed("/a", "a3", "updated", 20), f.deleted("/b", 30))
	f.page("/cl.xml", now)
	f.one(true)
	f.handle("/cl.xml", func(w http.ResponseWriter, req *http.Request) { // a cache that answers from the past unless told not to
		if req.Header.Get("Cache-Control") == "no-cache" {
			_, _ = io.WriteString(w, now)
			return
		}
		_, _ = io.WriteString(w, old)
	})
	f.one(true)
	f.holds(map[string]string{"/a": "a3"})
	f.page("/cl.xml", old)
	f.one(false)
	f.holds(map[string]string{"/a": "a3"})
	if f.baselines() != 1 {
		t.Errorf("%d baselines", f.baselines())
	}
	f.page("/cl.xml", now)
	f.one(true)
}

// TestUnprovable: where the Source's documents never meet there is one baseline and then no other until the Resource List
// changes (coverage.md 4).
func TestUnprovable(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a"), f.res("/b", "b")))
	from := `from="` + when(30) + `"`
	f.page("/cl.xml", list("changelist", from, f.changed("/a", "a2", "updated", 40)))
	f.one(true)
	f.holds(map[string]string{"/a": "a2", "/b": "b"})
	if gaps := f.gaps(); len(gaps) != 1 || gaps[0].State != store.GapUnprovable || f.baselines() != 1 {
		t.Fatalf("%+v, %d baselines", gaps, f.baselines())
	}
	for range 2 {
		if res := f.one(true); res.Kind != "none" || res.GapsFound != 0 || res.Requests > 4 {
			t.Errorf("%+v", res)
		}
	}
	f.page("/cl.xml", list("changelist", from, f.changed("/a", "a2", "updated", 40), f.changed("/c", "c", "created", 50)))
	f.one(true)
	if f.baselines() != 1 {
		t.Errorf("%d baselines", f.baselines())
	}
	f.page("/rl.xml", list("resourcelist", `at="`+when(20)+`"`, f.res("/a", "a2"), f.res("/x", "x")))
	f.one(true)
	f.holds(map[string]string{"/a": "a2", "/c": "c", "/x": "x"})
	if f.baselines() != 2 {
		t.Errorf("%d baselines", f.baselines())
	}
	f.one(true)
	if f.baselines() != 2 {
		t.Errorf("%d baselines", f.baselines())
	}
}

// TestFewDocuments: Sources that offer less than everything (F70), and a position given by the operator.
func TestFewDocuments(t *testing.T) {
	t.Parallel()
	t.Run("a lone Change List", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		f.set("changelist", "/cl.xml")
		f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`, f.changed("/a", "a", "created", 1), f.deleted("/b", 2)))
		f.one(true)
		f.holds(map[string]string{"/a": "a"})
		f.quiet()
		f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`, f.changed("/a", "a", "created", 1), f.deleted("/b", 2), f.deleted("/a", 3),
			f.changed("/c", "c", "created", 4)))
		f.one(true)
		f.holds(map[string]string{"/c": "c"})
		if f.baselines() != 0 {
			t.Errorf("%d baselines", f.baselines())
		}
	})
	t.Run("a bare Resource List", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		f.tune = func(t *Target) { t.URL = f.uri("/rl.xml") }
		f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a"), f.res("/b", "b")))
		f.one(true)
		f.quietWith(1)
		f.page("/rl.xml", list("resourcelist", `at="`+when(1)+`"`, f.res("/a", "a2"), f.res("/c", "c")))
		f.one(true)
		f.holds(map[string]string{"/a": "a2", "/c": "c"})
		f.quietWith(1)
	})
	t.Run("a bare Change List", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		f.tune = func(t *Target) { t.URL = f.uri("/cl.xml") }
		f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`, f.changed("/a", "a", "created", 1)))
		f.one(true)
		f.holds(map[string]string{"/a": "a"})
		f.quietWith(1)
	})
	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		f.set()
		e, target, done := f.open()
		defer done()
		if res, err := e.Run(t.Context(), target, f.opts); err == nil && !res[0].Unavailable {
			t.Errorf("%+v", res)
		}
	})
	t.Run("from", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
		f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a"), f.res("/b", "b")))
		f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`, f.changed("/c", "c", "created", 10), f.changed("/d", "d", "created", 30)))
		at, _ := time.Parse(time.RFC3339, when(20))
		f.opts.From = store.MicrosOf(at)
		f.one(true)
		f.holds(map[string]string{"/d": "d"})
		if f.baselines() != 0 {
			t.Errorf("%d baselines", f.baselines())
		}
		f.quiet()
	})
}

// TestOddEntries: what entries may look like and what then counts (F42, F43, F46, F49, coverage.md 2).
func TestOddEntries(t *testing.T) {
	t.Parallel()
	type pages func(f *fake) string // the entries of a Change List from minute 0 on, over a list that has /a and /b
	for name, tt := range map[string]struct {
		entries pages
		want    map[string]string
	}{
		"unordered": {func(f *fake) string {
			late := f.changed("/a", "a3", "updated", 30)
			early := f.entry("/a", `change="deleted" datetime="`+when(20)+`"`)
			return late + early
		}, map[string]string{"/a": "a3", "/b": "b"}},
		"same instant": {func(f *fake) string {
			return f.entry("/a", `change="deleted" datetime="`+when(20)+`"`) + f.changed("/a", "a2", "created", 20)
		}, map[string]string{"/a": "a2", "/b": "b"}},
		"same instant, deleted last": {func(f *fake) string {
			up := f.changed("/a", "a2", "updated", 20)
			return up + f.deleted("/a", 20)
		}, map[string]string{"/b": "b"}},
		"undated after dated": {func(f *fake) string {
			return f.changed("/a", "a2", "updated", 20) + f.entry("/b", `change="deleted"`) + f.changed("/c", "c", "created", 30)
		}, map[string]string{"/a": "a2", "/c": "c"}},
		"all undated": {func(f *fake) string {
			f.page("/a", "a3")
			f.handle("/b", nil) // it may have been before the baseline, so the Source is asked
			return f.entry("/a", `change="updated" `+fixity("a2")) + f.entry("/b", `change="deleted"`) + f.entry("/a", `change="updated" `+fixity("a3"))
		}, map[string]string{"/a": "a3"}},
		"bad neighbours": {func(f *fake) string {
			return `<url><rs:md change="created"/></url>` + f.entry("/x", `change="exploded" datetime="`+when(5)+`"`) +
				f.changed("/c", "c", "created", 30) + `<url><loc>::not a uri::</loc><rs:md change="created" datetime="` + when(31) + `"/></url>`
		}, map[string]string{"/a": "a", "/b": "b", "/c": "c"}},
		"unknown and malformed hashes": {func(f *fake) string {
			f.page("/c", "c")
			return f.entry("/c", `change="created" datetime="`+when(5)+`" hash="whirlpool:00 md5:xyz sha-256:abc" length="1"`)
		}, map[string]string{"/a": "a", "/b": "b", "/c": "c"}},
		"md5 only": {func(f *fake) string {
			f.page("/c", "c")
			return f.entry("/c", `change="created" datetime="`+when(5)+`" hash="md5:4a8a08f09d37b73795649038408b5f33"`)
		}, map[string]string{"/a": "a", "/b": "b", "/c": "c"}},
		"neither hash nor length": {func(f *fake) string {
			f.page("/c", "c")
			return f.entry("/c", `change="created" datetime="`+when(5)+`"`)
		}, map[string]string{"/a": "a", "/b": "b", "/c": "c"}},
		"outside the interval": {func(f *fake) string {
			return f.changed("/a", "a2", "updated", 30) + f.entry("/b", `change="deleted" datetime="`+when(-30)+`"`)
		}, map[string]string{"/a": "a2", "/b": "b"}},
		"gone before the baseline": {func(f *fake) string { return f.entry("/a", `change="deleted" datetime="`+when(-1)+`"`) },
			map[string]string{"/a": "a", "/b": "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
			f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a"), f.res("/b", "b")))
			from := `from="` + when(0) + `"`
			f.page("/cl.xml", list("changelist", from))
			f.one(true)
			f.page("/cl.xml", list("changelist", from, tt.entries(f)))
			if name == "bad neighbours" { // for as long as they are there, nobody can tell what they are about
				f.one(false)
				f.holds(tt.want)
				f.one(false)
				f.page("/cl.xml", list("changelist", from, f.changed("/c", "c", "created", 30)))
			}
			f.one(true)
			f.holds(tt.want)
			f.quiet()
		})
	}
}

// TestContradiction: what documents say differently about one instant is asked (P5): the answer decides, 404 is absent.
func TestContradiction(t *testing.T) {
	t.Parallel()
	for _, alive := range []bool{true, false} {
		t.Run(fmt.Sprintf("alive %t", alive), func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
			f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a"), f.res("/b", "b")))
			from := `from="` + when(0) + `"`
			f.page("/cl.xml", list("changelist", from, f.entry("/a", `change="deleted" datetime="`+when(0)+`"`), f.changed("/b", "b2", "updated", 9)))
			want := map[string]string{"/a": "a", "/b": "b2"}
			if !alive {
				f.handle("/a", nil)
				delete(want, "/a")
			}
			f.one(true)
			f.holds(want)
			f.quiet()
		})
	}
}

// TestOldDocuments follows a Source that speaks 1.0.
func TestOldDocuments(t *testing.T) {
	t.Parallel()
	r := newRigIn(t, ramDir(t), source.Options{Spec: "1.0", ChangeListSize: 4}, many(12))
	r.fetch = quick
	r.must()
	for i := range 6 {
		r.put("d0/r000.txt", strings.Repeat("x", i+1))
		r.put(fmt.Sprintf("new/%d", i), "new")
		r.src.Delete("d1/r001.txt")
		r.put("d1/r001.txt", fmt.Sprintf("again %d", i))
		r.src.Delete(fmt.Sprintf("d2/r%03d.txt", 2+3*(i%3)))
		res, err := r.run()
		if err == nil && !res.InStep {
			res, err = r.run()
		}
		if err != nil || !res.InStep {
			t.Fatalf("%d: %+v, %v", i, res, err)
		}
		r.equal()
	}
}
