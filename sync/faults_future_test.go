package sync

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"resyncd/store"
	"resyncd/sync/merge"
)

// future is an instant that no honest document names.
const future = "2126-01-01T00:00:00Z"

// TestFutureTimes: times beyond the Source's own clock win over nothing and move no position (F40, F74).
func TestFutureTimes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ at, from, datetime string }{
		"at": {future, when(0), when(10)}, "from": {when(0), future, when(10)}, "datetime": {when(0), when(0), future},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
			f.page("/rl.xml", list("resourcelist", `at="`+tt.at+`"`, f.res("/a", "a"), f.res("/b", "b")))
			odd := f.entry("/a", `change="updated" datetime="`+tt.datetime+`" `+fixity("a2"))
			f.page("/a", "a2")
			f.page("/cl.xml", list("changelist", `from="`+tt.from+`"`, odd))
			f.run() //nolint:errcheck // the next run is judged
			if pos := f.position(); pos > store.MicrosOf(time.Now())+merge.Skew {
				t.Fatalf("the position is %v", pos.Time())
			}
			now := time.Now().UTC().Add(2 * time.Second).Format(time.RFC3339Nano)
			f.page("/b", "b2")
			f.page("/a", "a3")
			f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`, odd,
				f.entry("/b", `change="updated" datetime="`+now+`" `+fixity("b2")),
				f.entry("/a", `change="updated" datetime="`+now+`" `+fixity("a3"))))
			f.run() //nolint:errcheck // the mirror is judged
			f.holds(map[string]string{"/a": "a3", "/b": "b2"})
		})
	}
}

// TestFromInTheFuture: nobody begins a set beyond now and the skew, where every change would count as known; a clock that is a
// little ahead is no reason to refuse (F40).
func TestFromInTheFuture(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("changelist", "/cl.xml")
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`, f.changed("/a", "a", "created", 10)))
	at := time.Now()
	f.engine = func(e *Engine) { e.Now = func() time.Time { return at } }
	f.opts.From = store.MicrosOf(at) + merge.Skew + 1
	if res, err := f.run(); err == nil || !strings.Contains(err.Error(), "future") {
		t.Errorf("%+v, %v", res, err)
	}
	f.with(func(e *Engine, _ Target) {
		if known, err := e.Store.Sources(t.Context()); err != nil || len(known) != 0 {
			t.Errorf("%v, %v", known, err)
		}
	})
	f.opts.From--
	f.one(true)
}

// TestHistoryWentBackToChanges: what a restored Source changed between its Resource List and its Change List's end was
// ignored beside the old history when it was first read, so it is read again on top of the new baseline (F65, F73).
func TestHistoryWentBackToChanges(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a"), f.res("/b", "b"), f.res("/c", "c")))
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`, f.changed("/a", "a2", "updated", 50), f.changed("/d", "d", "created", 60)))
	f.one(true)

	f.handle("/d", nil)
	f.page("/rl.xml", list("resourcelist", `at="`+when(40)+`"`, f.res("/a", "a"), f.res("/b", "b"), f.res("/c", "c")))
	f.page("/cl.xml", list("changelist", `from="`+when(40)+`"`, f.changed("/a", "a3", "updated", 45), f.deleted("/c", 46)))
	f.one(false)
	f.later(25 * time.Hour)
	f.one(true)
	f.holds(map[string]string{"/a": "a3", "/b": "b"})
	f.quiet()
}

// dated serves a text with a Last-Modified and no ETag, as a plain file server does.
func (f *fake) dated(path string, modified time.Time, text string) {
	at := modified.UTC().Format(http.TimeFormat)
	f.handle(path, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Last-Modified", at)
		if req.Header.Get("If-Modified-Since") == at {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, text)
	})
}

// TestChangedWithinTheSecond: a Last-Modified of the moment of reading is no validator, or what changes again in that second
// would be hidden by a 304 for ever.
func TestChangedWithinTheSecond(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a")))
	from, second := `from="`+when(0)+`"`, time.Now().Add(time.Minute)
	f.dated("/b", second, "b")
	one := f.entry("/b", `change="created" datetime="`+when(1)+`"`)
	f.dated("/cl.xml", second, list("changelist", from, one))
	f.one(true)
	f.dated("/b", second, "b2")
	f.dated("/cl.xml", second, list("changelist", from, one, f.entry("/b", `change="updated" datetime="`+when(2)+`"`)))
	f.one(true)
	f.holds(map[string]string{"/a": "a", "/b": "b2"})
	f.dated("/cl.xml", second.Add(-time.Hour), list("changelist", from, one, f.changed("/c", "c", "created", 3)))
	f.one(true)
	f.quiet()
}

// TestStaleNotModified: a 304 for a file of which another length is listed is a stale cache's (F50, F59).
func TestStaleNotModified(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	f.page("/a", "a")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.entry("/a", `length="1"`)))
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`))
	f.one(true)
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`, f.entry("/a", `change="updated" datetime="`+when(1)+`" length="2"`)))
	if res := f.one(false); res.Owed != 1 {
		t.Errorf("%+v", res)
	}
	f.page("/a", "a2")
	f.one(true)
	f.holds(map[string]string{"/a": "a2"})
}

// TestListReplacedBetweenTransfers: entries of a transfer that broke off are no evidence for the version of the list that
// was read instead.
func TestListReplacedBetweenTransfers(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml")
	a, b, c := f.res("/a", "a"), f.res("/b", "b"), f.res("/c", "c")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, a, b, c))
	f.one(true)
	old := list("resourcelist", `at="`+when(1)+`"`, a, b, c)
	now := list("resourcelist", `at="`+when(2)+`"`, a, c)
	cut := true
	f.handle("/rl.xml", func(w http.ResponseWriter, req *http.Request) {
		switch {
		case cut:
			cut = false
			w.Header().Set("ETag", `"old"`)
			_, _ = io.WriteString(w, old[:len(old)-40])
		case req.Header.Get("If-None-Match") == `"now"`:
			w.WriteHeader(http.StatusNotModified)
		default:
			w.Header().Set("ETag", `"now"`)
			_, _ = io.WriteString(w, now)
		}
	})
	f.run() //nolint:errcheck // the next run is judged
	f.one(true)
	f.holds(map[string]string{"/a": "a", "/c": "c"})
	f.quietWith(3)
}

// TestSetWithoutPlace: a set whose Capability List lies nowhere that can be asked fails alone (F79, P11).
func TestSetWithoutPlace(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.capabilities("/capabilities.xml", "resourcelist", "/rl.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a")))
	f.page("/.well-known/resourcesync", list("description", "", `<url><loc>ftp://lib.example/cl.xml</loc><rs:md capability="capabilitylist"/></url>`,
		`<url><loc>urn:nothing</loc><rs:md capability="capabilitylist"/></url>`, f.entry("/capabilities.xml", `capability="capabilitylist"`)))
	rs := f.all()
	if len(rs) != 3 || !rs[0].Unavailable || !rs[1].Unavailable || !rs[2].InStep {
		t.Errorf("%+v", rs)
	}
	f.holds(map[string]string{"/a": "a"})
}

// TestSetsOfTwoHosts: each set is held to its own scope, whichever set's turn it is when owed work of another is tried.
func TestSetsOfTwoHosts(t *testing.T) {
	t.Parallel()
	f, other := newFake(t), newFake(t)
	f.tune = func(t *Target) { t.Policy.Trusted = append(t.Policy.Trusted, other.srv.Listener.Addr().String()) }
	f.capabilities("/capabilities.xml", "resourcelist", "/rl.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a")))
	other.capabilities("/capabilities.xml", "resourcelist", "/rl.xml")
	other.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, other.res("/x", "x")))
	other.handle("/x", nil)
	f.page("/.well-known/resourcesync", list("description", "", f.entry("/capabilities.xml", `capability="capabilitylist"`),
		other.entry("/capabilities.xml", `capability="capabilitylist"`)))
	if rs := f.all(); len(rs) != 2 || !rs[0].InStep || rs[1].Owed != 1 {
		t.Fatalf("%+v", rs)
	}
	other.page("/x", "x")
	if rs := f.all(); len(rs) != 2 || !rs[0].InStep || !rs[1].InStep || rs[1].Refused != 0 {
		t.Errorf("%+v", rs)
	}
	if n := len(f.files()); n != 2 {
		t.Errorf("%d files", n)
	}
}

// TestSourceBegunAnewInTheFuture: a Source that lost its history and begins anew by a clock that is an hour ahead proves
// nothing, and the set is not in step, with the reason, for as long as that lasts. It comes into step by itself once the
// documents are right, or their time has come (F74, P12).
func TestSourceBegunAnewInTheFuture(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC()
	for name, tt := range map[string]struct{ made, clock time.Duration }{ // when its documents are of, and its clock, at last
		"its clock is set": {0, 0}, "their time has come": {time.Hour, 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			var clock atomic.Int64
			serve := func(path, text string) {
				f.page(path, text)
				f.mu.Lock()
				page := f.pages[path]
				f.mu.Unlock()
				f.handle(path, func(w http.ResponseWriter, req *http.Request) {
					w.Header().Set("Date", now.Add(time.Duration(clock.Load())).Format(http.TimeFormat))
					page(w, req)
				})
			}
			f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
			serve("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a"), f.res("/b", "b")))
			serve("/cl.xml", list("changelist", `from="`+when(0)+`"`))
			f.one(true)
			anew := func(at time.Time) {
				serve("/rl.xml", list("resourcelist", `at="`+at.Format(time.RFC3339)+`"`, f.res("/a", "a2"), f.res("/c", "c")))
				serve("/cl.xml", list("changelist", `from="`+at.Format(time.RFC3339)+`"`))
			}
			f.handle("/b", nil)
			anew(now.Add(time.Hour))
			for range 2 { // the second one finds everything unchanged
				if res := f.one(false); !strings.Contains(res.Problem, "lies in the future by the Source's own clock") || res.Unavailable {
					t.Errorf("%+v", res)
				}
			}
			if tt.made == 0 {
				anew(now.Add(-time.Second))
			}
			clock.Store(int64(tt.clock))
			f.one(true)
			f.holds(map[string]string{"/a": "a2", "/c": "c"})
		})
	}
}
