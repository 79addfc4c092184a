package sync

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"resyncd/destination/peer/source"
	"resyncd/store"
	"resyncd/sync/coverage"
)

// later moves the engine's clock.
func (r *rig) later(d time.Duration) {
	r.engine = func(e *Engine) { e.Now = func() time.Time { return time.Now().Add(d) } }
}

func (r *rig) baselines() (n int64) {
	r.with(func(e *Engine, _ Target) { n = r.onlySet(e).Baselines })
	return n
}

func (r *rig) gaps() (gaps []store.Gap) {
	r.t.Helper()
	r.with(func(e *Engine, _ Target) {
		var err error
		if gaps, err = e.Store.Gaps(context.Background(), r.onlySet(e).ID); err != nil {
			r.t.Fatal(err)
		}
	})
	return gaps
}

// TestIndexWithMissingPart: additions of the good parts are applied, nothing is removed, and the next run takes the
// baseline that could not be taken, although the index itself is the same as before (F66).
func TestIndexWithMissingPart(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]http.HandlerFunc{
		"404": nil,
		"500": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"page": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<html><body>Sorry</body></html>")
		},
		"other": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, list("changelist", `from="`+when(0)+`"`))
		},
		"cut": raw("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n<?xml"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, dating := range []string{"at", "lastmod", "none"} {
				f := newFake(t)
				f.set("resourcelist", "/rl.xml")
				publish := func(minute int, first, second []string) {
					at := `at="` + when(minute) + `"`
					md, lastmod := `type="application/xml"`, ""
					switch dating {
					case "at":
						md = at
					case "lastmod":
						lastmod = "<lastmod>" + when(minute) + "</lastmod>"
					}
					f.page("/rl.xml", index("resourcelist", at, f.part("/rl-1.xml", md, lastmod), f.part("/rl-2.xml", md, lastmod)))
					f.page("/rl-1.xml", list("resourcelist", at, first...))
					f.page("/rl-2.xml", list("resourcelist", at, second...))
				}
				publish(0, []string{f.res("/a", "a"), f.res("/b", "b")}, []string{f.res("/c", "c"), f.res("/d", "d")})
				f.one(true)
				f.quietWith(5)
				publish(10, []string{f.res("/a", "a2"), f.res("/e", "e")}, []string{f.res("/c", "c2")})
				good := f.pages["/rl-2.xml"]
				f.handle("/rl-2.xml", fault)
				for range 2 {
					if res := f.one(false); res.Deleted != 0 || res.Problem == "" || res.Unavailable {
						t.Fatalf("%s: %+v", dating, res)
					}
					f.holds(map[string]string{"/a": "a2", "/b": "b", "/c": "c", "/d": "d", "/e": "e"})
				}
				f.handle("/rl-2.xml", good)
				f.one(true)
				f.holds(map[string]string{"/a": "a2", "/c": "c2", "/e": "e"})
				f.quietWith(5)
			}
		})
	}
}

// TestKilledInListOnlyBaseline: an index that was remembered before its parts were read must not look unchanged.
func TestKilledInListOnlyBaseline(t *testing.T) {
	t.Parallel()
	for steps := int64(0); ; steps++ {
		f := newFake(t)
		f.set("resourcelist", "/rl.xml")
		publish := func(minute int, entries ...string) {
			at := `at="` + when(minute) + `"`
			f.page("/rl.xml", index("resourcelist", at, f.part("/rl-1.xml", at)))
			f.page("/rl-1.xml", list("resourcelist", at, entries...))
		}
		publish(0, f.res("/a", "a"), f.res("/b", "b"))
		f.one(true)
		publish(10, f.res("/a", "a2"), f.res("/c", "c"))
		survived := f.dieAfter(steps)
		f.one(true)
		f.holds(map[string]string{"/a": "a2", "/c": "c"})
		if survived {
			return
		}
	}
}

// TestStrangeIndexes are read within bounds and prove nothing (F67).
func TestStrangeIndexes(t *testing.T) {
	t.Parallel()
	at := `at="` + when(10) + `"`
	for name, publish := range map[string]func(f *fake){
		"names itself": func(f *fake) {
			f.page("/rl.xml", index("resourcelist", at, f.part("/rl-1.xml", at), f.part("/rl.xml", at)))
		},
		"circle": func(f *fake) {
			f.page("/rl.xml", index("resourcelist", at, f.part("/rl-1.xml", at), f.part("/i2.xml", at)))
			f.page("/i2.xml", index("resourcelist", at, f.part("/rl.xml", at)))
		},
		"ten deep": func(f *fake) {
			f.page("/rl.xml", index("resourcelist", at, f.part("/rl-1.xml", at), f.part("/deep0.xml", at)))
			for i := range 10 {
				c := string(rune('0' + i))
				next := string(rune('1' + i))
				f.page("/deep"+c+".xml", index("resourcelist", at, f.part("/deep"+next+".xml", at)))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.set("resourcelist", "/rl.xml")
			f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a"), f.res("/b", "b")))
			f.one(true)
			f.page("/rl-1.xml", list("resourcelist", at, f.res("/a", "a2"), f.res("/c", "c")))
			publish(f)
			if res := f.one(false); res.Deleted != 0 || res.Requests > 30 {
				t.Errorf("%+v", res)
			}
			f.holds(map[string]string{"/a": "a2", "/b": "b", "/c": "c"})
		})
	}
}

// TestListReplacedWhileRead: a baseline of two generations removes nothing (F69).
func TestListReplacedWhileRead(t *testing.T) {
	t.Parallel()
	r := newRigIn(t, ramDir(t), source.Options{ListSize: 4, ListEvery: -1}, many(12))
	hide := hideChangeList(r)
	r.interpose(hide)
	r.must()
	r.src.Delete("d0/r000.txt")
	parts := 0
	r.interpose(func(w http.ResponseWriter, req *http.Request) bool {
		if strings.HasPrefix(req.URL.Path, "/.resourcesync/resourcelist/") {
			if parts++; parts == 2 {
				r.put("d1/r001.txt", "changed meanwhile")
			}
		}
		return hide(w, req)
	})
	res, err := r.run()
	if err != nil || res.Deleted != 0 || res.InStep {
		t.Errorf("%+v, %v", res, err)
	}
	r.interpose(hide)
	r.must()
}

// TestUnreadableChangeList costs time, not a baseline; one that is gone, or stays unreadable for gap_patience, costs one.
func TestUnreadableChangeList(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) (r *rig, middle string) {
		r = newRigIn(t, ramDir(t), source.Options{ChangeListSize: 3}, many(12))
		r.fetch = quick
		r.must()
		for i := range 9 {
			r.put("d0/r000.txt", strings.Repeat("x", i+1))
		}
		r.src.Delete("d1/r001.txt")
		resp, err := http.Get(r.srv.URL + "/.resourcesync/changelist.xml")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		page, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		lists := regexp.MustCompile(`<loc>[^<]*(/.resourcesync/changelist/[^<]*)</loc>`).FindAllStringSubmatch(string(page), -1)
		if len(lists) < 4 {
			t.Fatalf("%s", page)
		}
		return r, lists[len(lists)-2][1]
	}
	answer := func(path string, how http.HandlerFunc) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, req *http.Request) bool {
			if req.URL.Path != path {
				return false
			}
			how(w, req)
			return true
		}
	}
	unreadable := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html/>") }
	gone := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(410) }

	t.Run("comes back", func(t *testing.T) {
		t.Parallel()
		r, list := setup(t)
		r.interpose(answer(list, unreadable))
		for range 2 {
			if res, err := r.run(); err != nil || res.InStep || res.Kind == "baseline" || r.baselines() != 1 || res.Problem == "" {
				t.Fatalf("%+v, %v", res, err)
			}
		}
		if gaps := r.gaps(); len(gaps) != 1 || !gaps[0].State.Open() {
			t.Errorf("%+v", gaps)
		}
		r.interpose(nil)
		r.must()
		if gaps := r.gaps(); len(gaps) != 1 || gaps[0].ClosedBy != coverage.ByChangeList || r.baselines() != 1 {
			t.Errorf("%+v", gaps)
		}
	})
	t.Run("gone", func(t *testing.T) {
		t.Parallel()
		r, list := setup(t)
		r.interpose(answer(list, gone))
		r.run() //nolint:errcheck // judged below
		r.equal()
		if gaps := r.gaps(); len(gaps) != 1 || gaps[0].ClosedBy != coverage.ByBaseline || r.baselines() != 2 {
			t.Errorf("%+v, %d", gaps, r.baselines())
		}
		if res := r.must(); res.Kind != "none" || r.baselines() != 2 {
			t.Errorf("%+v", res)
		}
	})
	t.Run("stays unreadable", func(t *testing.T) {
		t.Parallel()
		r, list := setup(t)
		r.interpose(answer(list, unreadable))
		r.run() //nolint:errcheck // judged below
		r.later(25 * time.Hour)
		r.run() //nolint:errcheck // judged below
		r.equal()
		if r.baselines() != 2 {
			t.Errorf("%d baselines", r.baselines())
		}
	})
}
