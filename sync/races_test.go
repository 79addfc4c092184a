package sync

import (
	"context"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"resyncd/destination/peer/source"
	"resyncd/store"
)

// watched tells of the moment at which a resource's removal is wanted.
type watched struct {
	store.Store
	uri    string
	absent chan struct{}
	once   *sync.Once
	hold   bool // give out no work before that
}

func (w watched) Commit(ctx context.Context, c *store.Commit) error {
	err := w.Store.Commit(ctx, c)
	for i := range c.Resources {
		if rc := &c.Resources[i]; rc.Want != nil && rc.Want.State == store.WantAbsent {
			if r, rerr := w.Resource(ctx, c.Claim.SourceID, w.uri); rerr == nil && r.ID == rc.ID {
				w.once.Do(func() { close(w.absent) })
			}
		}
	}
	return err
}

func (w watched) Due(ctx context.Context, q store.DueQuery) ([]*store.Resource, error) {
	rs, err := w.Store.Due(ctx, q)
	if !w.hold || len(rs) > 0 && q.Action == store.ActionRemove {
		return rs, err
	}
	select {
	case <-w.absent:
		return w.Store.Due(ctx, q)
	default:
		return nil, err
	}
}

// TestDeletedDuringFetch: a resource whose deletion is read while its first body is on the way does not stay.
func TestDeletedDuringFetch(t *testing.T) {
	t.Parallel()
	r := newRigIn(t, ramDir(t), source.Options{}, many(6))
	r.put("late", "listed")
	w := watched{uri: r.src.URI("late"), absent: make(chan struct{}), once: &sync.Once{}}
	r.engine = func(e *Engine) { w.Store = e.Store; e.Store = w }
	asked := make(chan struct{})
	r.interpose(func(rw http.ResponseWriter, req *http.Request) bool {
		switch {
		case req.URL.Path == "/late":
			close(asked)
			<-w.absent
			_, _ = rw.Write([]byte("listed"))
			return true
		case strings.HasPrefix(req.URL.Path, "/.resourcesync/changelist"):
			<-asked
			r.src.Delete("late")
		}
		return false
	})
	res := r.must()
	if res.Fetched != 7 || res.Deleted != 1 {
		t.Errorf("%+v", res)
	}
	r.tidy()
}

// TestLeftover: a file that a cut run put in place, of a resource that is gone before any row tells of the file.
func TestLeftover(t *testing.T) {
	t.Parallel()
	for steps := int64(0); ; steps++ {
		r := newRigIn(t, ramDir(t), source.Options{}, many(6))
		r.must()
		r.put("d0/r000.txt", "changed")
		r.put("fresh", "new")
		survived := r.dieAfter(steps)
		r.src.Delete("d0/r000.txt")
		r.src.Delete("fresh")
		w := watched{uri: r.src.URI("fresh"), absent: make(chan struct{}), once: &sync.Once{}, hold: true}
		r.engine = func(e *Engine) { w.Store = e.Store; e.Store = w }
		if res, err := r.run(); err != nil {
			t.Fatalf("step %d: %+v, %v", steps, res, err)
		}
		r.engine = nil
		r.must()
		if survived {
			return
		}
	}
}

// TestSweepAfterKill: files that nobody lists any more go after the loss of the state, also if the first run was cut.
func TestSweepAfterKill(t *testing.T) {
	t.Parallel()
	for steps := int64(1); ; steps++ {
		r := newRigIn(t, ramDir(t), source.Options{}, many(12))
		r.must()
		for _, suffix := range []string{"", "-wal", "-shm"} {
			_ = os.Remove(r.db + suffix)
		}
		r.src.Delete("d0/r000.txt")
		survived := r.dieAfter(steps)
		r.must()
		r.tidy()
		if survived {
			return
		}
	}
}

// TestTwoHoles: every hole that the archive can fill is filled by one run, which is not in step before.
func TestTwoHoles(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml", "changelist-archive", "/old.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a"), f.res("/b", "b")))
	span := func(from, until int) string { return `from="` + when(from) + `" until="` + when(until) + `"` }
	paths := []string{"/cl1.xml", "/cl2.xml", "/cl3.xml", "/cl4.xml"}
	var parts []string
	for i, p := range paths {
		parts = append(parts, f.part(p, span(10*i, 10*i+10)))
	}
	from := `from="` + when(0) + `"`
	f.page("/old.xml", list("changelist-archive", ""))
	f.page("/cl.xml", index("changelist", from, parts[0]))
	f.page("/cl1.xml", list("changelist", span(0, 10), f.changed("/a", "a1", "updated", 5)))
	f.one(true)
	f.page("/cl.xml", index("changelist", from, parts...))
	f.page("/cl3.xml", list("changelist", span(20, 30), f.changed("/c", "c", "created", 25)))
	good := map[string]http.HandlerFunc{}
	f.page("/cl2.xml", list("changelist", span(10, 20), f.changed("/d", "d", "created", 15)))
	f.page("/cl4.xml", list("changelist", span(30, 40), f.changed("/e", "e", "created", 35)))
	parts = append(parts, f.part("/cl5.xml", `from="`+when(40)+`"`))
	f.page("/cl5.xml", list("changelist", `from="`+when(40)+`"`, f.changed("/g", "g", "created", 45)))
	f.page("/cl.xml", index("changelist", from, parts...))
	for _, p := range []string{"/cl2.xml", "/cl4.xml"} {
		good[p] = f.pages[p]
		f.handle(p, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	}
	f.one(false)
	f.holds(map[string]string{"/a": "a1", "/b": "b", "/c": "c", "/g": "g"})
	for p, h := range good {
		f.handle(p, h)
	}
	f.page("/cl.xml", index("changelist", `from="`+when(40)+`"`, parts[4]))
	f.page("/old.xml", list("changelist-archive", "", f.entry("/cl1.xml", span(0, 10)), f.entry("/cl2.xml", span(10, 20)),
		f.entry("/cl3.xml", span(20, 30)), f.entry("/cl4.xml", span(30, 40))))
	f.one(true)
	f.holds(map[string]string{"/a": "a1", "/b": "b", "/c": "c", "/d": "d", "/e": "e", "/g": "g"})
	if f.baselines() != 1 {
		t.Errorf("%d baselines", f.baselines())
	}
	f.quiet()
}
