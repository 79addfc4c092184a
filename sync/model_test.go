package sync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"resyncd/destination/peer/source"
	"resyncd/store"
	"resyncd/sync/merge"
)

// machine is a random history of one Source and its mirror.
type machine struct {
	*rig
	names  []string
	bodies map[string]string // the last body of each name, also of deleted ones
	serial int
	// reach: the published lists reach back as far as this machine ever needs, so no baseline but the first is needed. Where
	// removals were held, each Resource List that changed is read again, to judge them anew.
	reach     bool
	disturbed bool     // something happened after which a baseline is due: state lost, --full
	edited    []string // files changed behind our back
	known     bool     // discovery succeeded once: what it finds wrongly from then on is recognised
	hide      func(http.ResponseWriter, *http.Request) bool
}

// interpose puts f before the Source as it is offered.
func (m *machine) interpose(f func(http.ResponseWriter, *http.Request) bool) {
	m.rig.interpose(func(w http.ResponseWriter, req *http.Request) bool {
		return f != nil && f(w, req) || m.hide != nil && m.hide(w, req)
	})
}

// TestModel is the promise P1 over random histories: whatever happened, after calm the mirror equals the Source, nothing is
// owed, the totals are right, no baseline was taken without need, and a run with nothing new asks for documents only.
func TestModel(t *testing.T) {
	t.Parallel()
	budget := usual(15 * time.Second)
	if testing.Short() {
		budget = 5 * time.Second
	}
	if d, err := time.ParseDuration(os.Getenv("RESYNCD_MODEL_TIME")); err == nil {
		budget = d // for a long search: with -rapid.checks
	}
	end := time.Now().Add(budget)
	checks, runs, folder := 0, 0, ramDir(t)
	var failed atomic.Bool
	rapid.Check(t, func(rt *rapid.T) {
		if time.Now().After(end) && !failed.Load() {
			return // what is left of the checks passes unseen; a failure is shrunk without a limit of ours
		}
		defer func() {
			if p := recover(); p != nil {
				failed.Store(true)
				panic(p)
			}
			if rt.Failed() {
				failed.Store(true)
			}
		}()
		checks++
		m := newMachine(rt, folder)
		defer m.srv.Close()
		for range rapid.IntRange(2, 12).Draw(rt, "steps") {
			m.step(rt)
			runs++
		}
		m.calm(rt)
	})
	t.Logf("%d histories, %d steps", checks, runs)
}

func newMachine(rt *rapid.T, folder string) *machine {
	o := source.Options{
		ChangeListSize: rapid.SampledFrom([]int{2, 5, 1000}).Draw(rt, "change list size"),
		ListEvery:      -1,
		ListSize:       rapid.SampledFrom([]int{4, 1000}).Draw(rt, "list size"),
	}
	keep := rapid.SampledFrom([]int{-1, -1, 1, 3}).Draw(rt, "keep")
	o.KeepChangeLists = keep
	if keep > 0 && rapid.Bool().Draw(rt, "archive") {
		o.Archive = 1000
	}
	dumps := rapid.SampledFrom([]string{"off", "off", "auto", "always"}).Draw(rt, "dumps")
	if dumps != "off" {
		o.Dumps, o.DumpSize = true, rapid.SampledFrom([]int{1, 3, 1000}).Draw(rt, "dump size")
	}
	folder, err := os.MkdirTemp(folder, "model-")
	if err != nil {
		rt.Fatal(err)
	}
	m := &machine{bodies: map[string]string{}, reach: keep < 0 || o.Archive > 0}
	m.rig = newRigIn(rt, folder, o, nil)
	m.rig.fetch, m.rig.mirror.Unsynced = quick, true
	m.rig.tune = func(t *Target) { t.Dumps = dumps }
	if rapid.IntRange(0, 3).Draw(rt, "list only") == 0 {
		m.hide, m.reach = hideChangeList(m.rig), false
		m.interpose(nil)
	}
	for i := range rapid.IntRange(0, 12).Draw(rt, "resources") {
		m.put(fmt.Sprintf("d%d/r%d", i%2, i))
	}
	return m
}

func (m *machine) put(name string) {
	m.serial++
	m.putBody(name, fmt.Sprintf("%s %d", name, m.serial))
}

func (m *machine) putBody(name, body string) {
	if _, known := m.bodies[name]; !known {
		m.names = append(m.names, name)
	}
	m.bodies[name] = body
	m.rig.put(name, body)
}

func (m *machine) pick(rt *rapid.T) string {
	if len(m.names) == 0 {
		m.put("first")
	}
	return m.names[rapid.IntRange(0, len(m.names)-1).Draw(rt, "name")]
}

// step is some changes of the Source and then something that the Destination does or that is done to it.
func (m *machine) step(rt *rapid.T) {
	for range rapid.IntRange(0, 5).Draw(rt, "changes") {
		m.change(rt)
	}
	switch rapid.SampledFrom([]string{
		"sync", "sync", "faults", "faults", "killed", "killed", "cancelled", "state lost", "edit", "full", "verify", "nothing",
	}).Draw(rt, "then") {
	case "sync":
		m.ran(m.run())
		m.known = true
	case "faults":
		if !m.known { // who meets an error page first may take a list that robots.txt names for the Source
			m.dieAfter(8)
			m.known = true
		}
		m.interpose(m.trouble(rapid.Uint64().Draw(rt, "faults")))
		m.ran(m.run())
		m.interpose(nil)
	case "killed":
		steps := rapid.IntRange(0, 25).Draw(rt, "killed after")
		if !m.known { // before the first step nothing tells that a sweep is due; the command takes care of that
			steps = max(steps, 1)
		}
		m.dieAfter(int64(steps))
		m.lookForHeld(rt)
	case "cancelled":
		m.cancelled(rapid.IntRange(1, 12).Draw(rt, "requests"))
		m.lookForHeld(rt)
	case "state lost":
		for _, suffix := range []string{"", "-wal", "-shm"} {
			_ = os.Remove(m.db + suffix)
		}
		m.disturbed, m.known = true, false
	case "edit":
		m.edit(rt)
	case "full":
		m.opts.Full = true
		m.ran(m.run())
		m.opts.Full, m.disturbed = false, true
	case "verify":
		m.verify()
	}
}

func (m *machine) change(rt *rapid.T) {
	name := m.pick(rt)
	switch rapid.SampledFrom([]string{"put", "put", "new", "delete", "back", "flip", "again", "rotate"}).Draw(rt, "change") {
	case "put":
		m.put(name)
	case "new":
		m.put(fmt.Sprintf("new/%d", m.serial))
	case "delete":
		m.src.Delete(name)
	case "back": // as it was before, or created again as it was
		m.putBody(name, m.bodies[name])
	case "flip": // deleted and back within one list
		m.src.Delete(name)
		m.putBody(name, m.bodies[name])
	case "again":
		was := m.bodies[name]
		m.put(name)
		m.putBody(name, was)
	case "rotate":
		m.src.Rotate()
	}
}

func (m *machine) ran(res Result, err error) {
	m.reach = m.reach && res.Held == 0
	// A Source that cannot be discovered is the only way for a run of this machine to fail.
	if err != nil && !strings.Contains(err.Error(), "nothing to synchronise was found") &&
		!strings.Contains(err.Error(), "no longer leads to") && !errors.Is(err, context.Canceled) {
		m.t.Fatalf("a run failed: %v", err)
	}
}

// lookForHeld learns what the result of a run that was cut off would have told.
func (m *machine) lookForHeld(rt *rapid.T) {
	if !m.reach {
		return
	}
	m.with(func(e *Engine, _ Target) {
		ctx := context.Background()
		src, err := e.Store.Source(ctx, "test")
		if errors.Is(err, store.ErrNotFound) {
			return
		}
		sets, serr := e.Store.Sets(ctx, src.ID)
		if err := errors.Join(err, serr); err != nil {
			rt.Fatal(err)
		}
		for i := range sets {
			counts, err := e.Store.Counts(ctx, sets[i].ID)
			if err != nil {
				rt.Fatal(err)
			}
			m.reach = m.reach && counts.Held == 0
		}
	})
}

// trouble answers a fifth of all requests wrongly.
func (m *machine) trouble(seed uint64) func(http.ResponseWriter, *http.Request) bool {
	rnd := rand.New(rand.NewPCG(seed, 0))
	dice := make(chan int, 1)
	dice <- 0
	return func(w http.ResponseWriter, req *http.Request) bool {
		<-dice
		n := rnd.IntN(100)
		dice <- 0
		switch {
		case n < 5:
			w.WriteHeader(http.StatusInternalServerError)
		case n < 9:
			if strings.HasPrefix(req.URL.Path, "/.resourcesync/changelist") {
				return false // a list that is not there may cost a baseline, one that is not readable may not
			}
			w.WriteHeader(http.StatusNotFound)
		case n < 13:
			_, _ = io.WriteString(w, `<!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><body>Sorry</body></html>`)
		case n == 13: // seldom, because each costs the pauses of its retries
			w.Header().Set("Content-Length", "5000")
			_, _ = io.WriteString(w, "cut")
			panic(http.ErrAbortHandler)
		case n < 18:
			w.WriteHeader(http.StatusForbidden)
		default:
			return false
		}
		return true
	}
}

// cancelled runs until so many requests were asked.
func (m *machine) cancelled(requests int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var n atomic.Int64
	m.interpose(func(http.ResponseWriter, *http.Request) bool {
		if n.Add(1) >= int64(requests) {
			cancel()
		}
		return false
	})
	defer m.interpose(nil)
	m.with(func(e *Engine, target Target) {
		_, err := e.Run(ctx, target, m.opts)
		m.ran(Result{}, err)
	})
}

// edit changes or removes files behind our back; verify is what finds that.
func (m *machine) edit(rt *rapid.T) {
	path := m.path(m.pick(rt))
	switch rapid.SampledFrom([]string{"write", "remove", "extra"}).Draw(rt, "edit") {
	case "write":
		if _, err := os.Stat(path); err != nil {
			return
		}
		if err := os.WriteFile(path, []byte("edited"), 0o644); err != nil {
			m.t.Fatal(err)
		}
	case "remove":
		if os.Remove(path) != nil {
			return
		}
	case "extra":
		path = filepath.Join(m.root, "extra")
		if os.WriteFile(path, []byte("extra"), 0o644) != nil {
			return // there is no mirror yet
		}
	}
	m.edited = append(m.edited, path)
}

// verify repairs what it can: what it calls repaired must be so.
func (m *machine) verify() {
	m.with(func(e *Engine, target Target) {
		if _, err := e.Store.Source(context.Background(), "test"); errors.Is(err, store.ErrNotFound) {
			return
		}
		rep, err := e.Verify(context.Background(), target, m.opts, true, func(Finding) error { return nil })
		if err != nil {
			m.t.Fatalf("verify: %v", err)
		}
		if rep.InStep != (rep.Problems == rep.Repaired) {
			m.t.Fatalf("verify: %+v", rep)
		}
	})
}

// calm checks what must be true once the Source is quiet and answers.
func (m *machine) calm(rt *rapid.T) {
	if len(m.edited) > 0 {
		m.ran(m.run())
		m.verify()
	} else if m.disturbed { // the sweep guard may have left files alone after the loss of the state
		m.ran(m.run())
		if extra := len(m.files()) - m.src.Len(); extra > 0 && (m.src.Len() == 0 || extra > merge.GuardMin) {
			m.verify()
		}
	}
	var res Result
	var err error
	for range 2 {
		if res, err = m.run(); err != nil {
			rt.Fatalf("after calm: %v", err)
		}
		if res.Held > 0 {
			m.with(func(e *Engine, target Target) {
				if _, err := e.Approve(context.Background(), target, false); err != nil {
					rt.Fatalf("approve: %v", err)
				}
			})
			continue
		}
		if res.InStep {
			break
		}
	}
	if !res.InStep || res.Owed != 0 {
		rt.Fatalf("after calm: %+v", res)
	}
	m.equal()
	m.tidy()
	for end := time.Now().Add(3 * time.Second); ; { // the validators of a list are not kept in the first two seconds of its life
		if res, err = m.run(); err != nil || res.Kind != "baseline" || time.Now().After(end) {
			break
		}
	}
	docs, resources := m.asked()
	if err != nil || !res.InStep || res.Kind != "none" || len(resources) > 0 || len(docs) > 4 {
		rt.Fatalf("nothing new: %+v, %v, asked %v, %v", res, err, docs, resources)
	}
	m.with(func(e *Engine, _ Target) { m.books(rt, e) })
}

// books holds the set's totals to a recount, and the number of baselines to what was needed.
func (m *machine) books(rt *rapid.T, e *Engine) {
	ctx := context.Background()
	src, err := e.Store.Source(ctx, "test")
	if err != nil {
		rt.Fatal(err)
	}
	sets, err := e.Store.Sets(ctx, src.ID)
	if err != nil || len(sets) != 1 {
		rt.Fatalf("%d sets, %v", len(sets), err)
	}
	claim, release, err := e.Store.Claim(ctx, src.ID, "recount")
	if err != nil {
		rt.Fatal(err)
	}
	files, bytes, err := recount(ctx, e.Store, claim, sets[0].ID)
	if err := errors.Join(err, release()); err != nil {
		rt.Fatal(err)
	}
	if set := sets[0]; set.Resources != files || set.Bytes != bytes || files != int64(m.src.Len()) {
		rt.Fatalf("totals %d files %d bytes, recount %d and %d, Source %d", set.Resources, set.Bytes, files, bytes, m.src.Len())
	}
	if m.reach && !m.disturbed && sets[0].Baselines > 1 {
		rt.Fatalf("%d baselines although the lists reach back", sets[0].Baselines)
	}
}
