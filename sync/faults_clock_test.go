package sync

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"resyncd/destination/peer/source"
)

// TestClockSetBack: what was planned while the clock was ahead is fetched and removed once it is right, not when it gets there again
// (F15).
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{time.Hour, 24 * time.Hour} { // a time zone, or a wrong date
		t.Run(jump.String(), func(t *testing.T) {
			t.Parallel()
			clockSetBack(t, jump)
		})
	}
}

func clockSetBack(t *testing.T, jump time.Duration) {
	t.Run("before a start", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
		f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a"), f.res("/b", "b")))
		f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`))
		f.one(true)
		f.engine = func(e *Engine) { e.Now = func() time.Time { return time.Now().Add(jump) } }
		var full atomic.Bool
		full.Store(true)
		f.tune = func(t *Target) { t.Mirror = flakyMirror{t.Mirror, &full, new(atomic.Bool)} }
		changed := f.changed("/a", "a2", "updated", 5)
		f.handle("/a", nil)
		f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`, changed, f.deleted("/b", 6)))
		f.one(false)
		f.page("/a", "a2")
		f.engine, f.tune = nil, nil
		p := f.follow()
		p.later(WorkPull, p.eng.Now()) // a scheduled one
		p.eventually("all is done", func() bool { return len(p.files()) == 1 && p.quiet() })
		p.stop()
		f.holds(map[string]string{"/a": "a2"})
	})
	t.Run("while followed", func(t *testing.T) {
		t.Parallel()
		p := newPusher(t, source.Options{}, many(3))
		p.stop()
		var ahead atomic.Int64
		ahead.Store(int64(jump))
		p.rig.fetch = quick
		p.engine = func(e *Engine) { e.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) } }
		var broken atomic.Bool
		p.interpose(func(w http.ResponseWriter, r *http.Request) bool {
			if broken.Load() && r.URL.Path == "/d0/r000.txt" {
				w.WriteHeader(http.StatusForbidden)
				return true
			}
			return false
		})
		p.follow()
		p.pull(false)
		broken.Store(true)
		p.put("d0/r000.txt", "new")
		p.pull(false)
		if p.same() {
			t.Fatal("nothing is owed")
		}
		broken.Store(false)
		ahead.Store(0)
		p.later(WorkPull, p.eng.Now()) // a scheduled one
		p.eventually("the mirror equals the Source", p.same)
	})
}
