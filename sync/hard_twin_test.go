package sync

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/store/sqlite"
	"resyncd/sync/merge"
)

// twin is one of several Destinations of a Source: a Follower that ends and is begun anew, as a daemon does.
type twin struct {
	*pusher
	c     *chronicle
	name  string
	fate  *fate
	ended atomic.Bool // the Follower, by an error of state or mirror
	seen  *sampler
	held  []message
	ahead time.Duration // of the engine's clock
	// backups is how many copies of the state there are.
	backups int
}

// message is a notification.
type message struct {
	iv   rsdoc.Interval
	body []byte
}

func newTwin(t tester, c *chronicle, folder, name string) *twin {
	t.Helper()
	r := &rig{t: t, src: c.src, srv: c.srv, root: folder + "/mirror", db: folder + "/state.db", fetch: quick, opts: c.opts}
	r.mirror.Unsynced = true
	w := &twin{c: c, name: name, fate: &fate{}, seen: &sampler{r: r, tr: c.truth, last: map[string]int{}}}
	w.pusher = &pusher{rig: r, jobs: map[Work]time.Time{}, wake: make(chan struct{}, 1)}
	r.engine = func(e *Engine) {
		e.Store = fatedStore{e.Store, w.fate}
		e.Now = func() time.Time { return time.Now().Add(w.ahead) }
		if name == "other" {
			e.unordered = gatherAll(folder)
		}
	}
	r.tune = func(t *Target) { t.Mirror = fatedMirror{t.Mirror, w.fate} }
	w.failed = func(at Work, _ error) {
		if at == "" {
			w.ended.Store(true)
		} else if !w.fate.dead() {
			w.later(at, w.eng.Now().Add(5*time.Millisecond)) // as the daemon's queue does
		}
	}
	w.begin()
	t.Cleanup(func() { w.pusher.stop() })
	return w
}

func (w *twin) begin() {
	w.ended.Store(false)
	w.c.tally.starts++
	w.follow()
	w.later(WorkNotify, w.eng.Now())
}

// over tells that the Follower is of no use any more.
func (w *twin) over() bool { return w.ended.Load() || w.fate.dead() }

// revive begins anew what was killed, or ended by itself.
func (w *twin) revive() {
	if w.over() {
		w.restart()
	}
}

func (w *twin) restart() {
	w.pusher.stop()
	w.fate.relents()
	w.begin()
}

// backup copies the state, as of one instant, while it is in use.
func (w *twin) backup() {
	w.t.Helper()
	if err := sqlite.Snapshot(context.Background(), w.db, w.copyOf(w.backups)); err != nil {
		w.t.Fatal(err)
	}
	w.backups++
}

func (w *twin) copyOf(n int) string { return fmt.Sprintf("%s.backup-%d", w.db, n) }

// restore puts a copy of the state in its place, beside the files as they are, and has the auditor repair what the copy
// does not know: without that, a file that came after the copy and was deleted at the Source since would stay.
func (w *twin) restore(n int) {
	w.t.Helper()
	w.pusher.stop()
	b, err := os.ReadFile(w.copyOf(n))
	if err == nil {
		err = os.WriteFile(w.db, b, 0o600)
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		if rerr := os.Remove(w.db + suffix); !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.c.tally.restores++
	w.fate.relents()
	w.with(func(e *Engine, target Target) {
		if _, err := e.Verify(context.Background(), target, w.opts, true, func(Finding) error { return nil }); err != nil {
			w.t.Fatal(err)
		}
	})
	w.begin()
}

// message tells what changed since the last one.
func (w *twin) message() message {
	changes, iv := w.taken()
	return message{iv, w.document(iv, changes)}
}

// hand gives a notification to the callback. Nobody takes it where the process was killed: the hub may come again.
func (w *twin) hand(m message) {
	w.held = append(w.held, m)
	if w.fate.dead() {
		return
	}
	w.deliver(m.iv, m.body, true)
	w.c.tally.notices++
}

// ask has the twin pull, and waits for the end of the pull or of the twin.
func (w *twin) ask(full bool) {
	w.t.Helper()
	done := make(chan error, 1)
	w.f.RequestPull(PullRequest{Full: full, Done: func(err error) { done <- err }})
	w.later(WorkPull, w.eng.Now())
	var answered bool
	w.eventually("the pull ended", func() bool {
		select {
		case <-done:
			answered = true
		default:
		}
		return answered || w.over()
	})
}

// rested tells that no slice is due, nothing is fetched and nothing waits that could be taken up.
func (w *twin) rested() bool {
	due := false
	w.locked(func() {
		for _, at := range w.jobs {
			due = due || !at.After(w.eng.Now())
		}
	})
	return !due && w.f.Idle()
}

// settled begins anew, in a time when everything that is owed is due, pulls, and returns what came of it: the files, and
// what the rows say of them.
func (w *twin) settled() (files map[string]string, rows []string) {
	w.t.Helper()
	w.pusher.stop()
	w.ahead += 2 * time.Hour
	w.restart()
	w.ask(false)
	w.eventually(w.name+": the mirror equals the Source", func() bool { return w.same() && w.quiet() })
	ctx := context.Background()
	set := w.theSet()
	if set.Problem != "" || !set.InStep || set.Resources != int64(w.src.Len()) {
		w.t.Fatalf("%s: the Source has %d resources: %+v, gaps %+v", w.name, w.src.Len(), set, w.listed())
	}
	rs, err := w.store.Scan(ctx, store.ScanQuery{SourceID: set.SourceID, Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range rs {
		want := merge.Effective(r.Wants)
		switch {
		case r.Work.Action != store.ActionNone:
			w.t.Fatalf("%s: work is left: %+v", w.name, r)
		case r.Have.State == store.HaveNone && (want == nil || want.State == store.WantAbsent):
			continue // a memory, of which some have more than others
		}
		rows = append(rows, fmt.Sprintf("%s at %s: %d, %d bytes, %x, wanted %d", r.URI, r.Key, r.Have.State, r.Have.Length, r.Have.SHA256, want.State))
	}
	slices.Sort(rows) // their ids are in the order in which the twin heard of them
	w.pusher.stop()
	w.audited()
	return w.files(), rows
}

// audited has the rows agree with the files, and the auditor, which shares no code with the engine, find nothing.
func (w *twin) audited() {
	w.t.Helper()
	w.with(func(e *Engine, target Target) {
		rep, err := e.Verify(context.Background(), target, w.opts, false, func(f Finding) error {
			w.t.Errorf("%s: verify finds %+v", w.name, f)
			return nil
		})
		if err != nil || !rep.InStep {
			w.t.Fatalf("%s: verify: %+v, %v", w.name, rep, err)
		}
	})
	w.auditFinds()
}
