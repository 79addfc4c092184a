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
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/spill"
)

// TestHandedOnAsWritten: what the planner hands on is what the store would have given back, letter by letter; anything but new
// resources that are to be fetched is left to be found there.
func TestHandedOnAsWritten(t *testing.T) {
	t.Parallel()
	p, done := benchPlanner(t)
	defer done()
	p.seen, p.reading.At, p.set.Generation = spill.NewBitmap(), 1e15, 1
	p.scope = func(uri string) string {
		if uri == "http://else.example/r" {
			return "outside scope"
		}
		return ""
	}
	listed := func(uri string, differ ...func(*entry)) entry {
		e := entry{uri: uri, baseline: true, cand: merge.Candidate{
			State: store.WantPresent, Digests: fmt.Sprintf("sha-256:%064x", len(uri)), Length: 7, LastMod: 1e15, Type: "text/plain",
			Links: `[{"rel":"describedby"}]`, Version: store.Version{From: p.reading.At, Until: p.reading.At, Ordinal: 5, Document: 2},
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
		ctx, w := context.Background(), p.s.site
		w.Take()
		for _, e := range batch.entries {
			if err := p.add(ctx, e); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.flush(ctx); err != nil {
			t.Fatal(err)
		}
		rows, more, again := w.TakeReady(100)
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
		if _, _, told := w.Hear(); told != batch.told {
			t.Errorf("told of other work: %v, want %v", told, batch.told)
		}
		w.Clear()
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
