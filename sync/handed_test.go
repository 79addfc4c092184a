package sync

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/store"
)

// TestHandedOnAsWritten: what the planner hands on is what the store would have given back, letter by letter; anything but new
// resources that are to be fetched is left to be found there.
func TestHandedOnAsWritten(t *testing.T) {
	t.Parallel()
	p, done := benchPlanner(t)
	defer done()
	wake := make(chan struct{}, 1)
	p.wake, p.seen, p.at, p.set.Generation = wake, newBitmap(), 1e15, 1
	p.scope = func(uri string) string {
		if uri == "http://else.example/r" {
			return "outside scope"
		}
		return ""
	}
	listed := func(uri string, differ ...func(*entry)) entry {
		e := entry{uri: uri, baseline: true, cand: Candidate{
			State: store.WantPresent, Digests: fmt.Sprintf("sha-256:%064x", len(uri)), Length: 7, LastMod: 1e15, Type: "text/plain",
			Links: `[{"rel":"describedby"}]`, Version: store.Version{From: p.at, Until: p.at, Ordinal: 5, Document: 2},
		}}
		for _, d := range differ {
			d(&e)
		}
		return e
	}
	changed := func(e *entry) { e.baseline, e.cand.Version.From, e.cand.Version.Until = false, 2e15, 2e15 }
	first := []entry{
		listed("http://lib.example/a"), listed("http://lib.example/b", func(e *entry) { e.cand.Digests, e.cand.Length = "", -1 }),
		listed("http://lib.example/twice"), listed("http://lib.example/twice", changed),
		listed("http://lib.example/gone", changed, func(e *entry) { e.cand.State = store.WantAbsent }),
		listed("http://else.example/r"), listed("http://lib.example/pushed", changed, func(e *entry) { e.pushed = true }),
	}
	second := []entry{listed("http://lib.example/a", changed), listed("http://lib.example/c", changed)}
	for _, batch := range []struct {
		entries []entry
		handed  []string
		told    bool // of other work
	}{
		{first, []string{"a", "b", "twice", "pushed"}, false},
		{second, []string{"c"}, true}, // a was known
	} {
		ctx, f := context.Background(), p.s.flight
		came := f.receive()
		for _, e := range batch.entries {
			if err := p.add(ctx, e); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.flush(ctx); err != nil {
			t.Fatal(err)
		}
		if len(came) != 1 {
			t.Error("nobody was told that rows came")
		}
		rows, more, again := takenFrom(f, 100)
		var uris []string
		for _, r := range rows {
			uris = append(uris, r.URI[len("http://lib.example/"):])
			want, err := p.s.Store.Resource(ctx, p.s.src.ID, r.URI)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, r); diff != "" {
				t.Errorf("handed on otherwise than written (-store +handed):\n%s", diff)
			}
		}
		if !slices.Equal(uris, batch.handed) || more || again {
			t.Errorf("handed on: %v, want %v; more %v, again %v", uris, batch.handed, more, again)
		}
		if told := len(wake) == 1; told != batch.told {
			t.Errorf("told of other work: %v, want %v", told, batch.told)
		}
		f.clear()
	}
}

// TestHandover: rows are handed on while a reconciler is there and few wait; what is not taken, or is wanted otherwise by then,
// is in flight no more and found in the store.
func TestHandover(t *testing.T) {
	t.Parallel()
	f := newFlight()
	rows := func(from, n int) (rs []*store.Resource) {
		for i := range n {
			rs = append(rs, &store.Resource{ID: int64(from + i)})
		}
		return rs
	}
	if f.handOn(rows(1, 3)) || len(f.ids) != 0 {
		t.Error("handed on to nobody")
	}
	f.receive()
	if !f.handOn(rows(1, handLow+1)) || f.handOn(rows(5000, 1)) {
		t.Error("handed on with no room, or not with room")
	}
	change := store.ResourceChange{ID: 2}
	f.touch(&change, 77)
	if change.Work == nil || change.Work.Action != store.ActionFetch {
		t.Error("what waits to be fetched may be forgotten")
	}
	got, more, again := takenFrom(f, 3)
	if len(got) != 2 || got[0].ID != 1 || got[1].ID != 3 || !more || !again {
		t.Errorf("took %d, more %v, again %v", len(got), more, again)
	}
	if _, flying := f.ids[2]; flying {
		t.Error("a row that nobody works on is in flight")
	}
	if len(f.hand.rows) == 0 || !f.handOn(rows(5000, 1)) {
		t.Error("no room after some were taken")
	}
	f.land(1)
	f.land(3)
	f.clear()
	if got, more, _ := takenFrom(f, 10); len(got) > 0 || more || len(f.ids) != 0 || f.handOn(rows(6000, 1)) {
		t.Error("something stayed after the end of a run")
	}
}

// TestFetchesBeginEarlyInTheList: what a list names first is fetched while most of it is still on its way.
func TestFetchesBeginEarlyInTheList(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	const named = planFirst + 50
	asked := make(chan struct{})
	var once sync.Once
	entries := make([]string, named)
	for i := range entries {
		path := fmt.Sprintf("/%04d", i)
		entries[i] = f.entry(path, fixity("a"))
		f.handle(path, func(w http.ResponseWriter, _ *http.Request) {
			once.Do(func() { close(asked) })
			_, _ = io.WriteString(w, "a")
		})
	}
	whole := list("resourcelist", `at="`+when(0)+`"`, entries...)
	begin := strings.Index(whole, entries[named-1])
	f.set("resourcelist", "/list.xml")
	f.handle("/list.xml", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, whole[:begin])
		_ = http.NewResponseController(w).Flush()
		select {
		case <-asked:
		case <-time.After(20 * time.Second):
			t.Error("nothing is fetched before the list has come whole")
		}
		_, _ = io.WriteString(w, whole[begin:])
	})
	if res, err := f.run(); err != nil || res.Fetched != named || !res.InStep {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestPlannerWaitsForRoom: for as long as fetches keep up, but never for long.
func TestPlannerWaitsForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFlight()
		waited := func() time.Duration {
			began := time.Now()
			f.awaitRoom(t.Context())
			return time.Since(began)
		}
		full := func() {
			rows := make([]*store.Resource, handLow+1)
			for i := range rows {
				rows[i] = &store.Resource{ID: int64(i + 1)}
			}
			f.receive()
			f.handOn(rows)
		}
		if d := waited(); d != 0 {
			t.Errorf("waited %s though nobody takes", d)
		}
		full()
		if d := waited(); d != handPatience {
			t.Errorf("waited %s for fetches that hang", d)
		}
		for what, end := range map[string]func(){"room": func() { takenFrom(f, 5) }, "the end": f.clear} {
			f.clear()
			full()
			go func() {
				<-time.After(handPatience / 4)
				end()
			}()
			if d := waited(); d != handPatience/4 {
				t.Errorf("%s: waited %s", what, d)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		f.clear()
		full()
		cancel()
		began := time.Now()
		f.awaitRoom(ctx)
		if d := time.Since(began); d != 0 {
			t.Errorf("waited %s after the end", d)
		}
	})
}

// takenFrom is take by itself.
func takenFrom(f *flight, n int) (rows []*store.Resource, more, again bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.take(n)
}
