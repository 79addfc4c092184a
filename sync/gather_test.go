package sync

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"resyncd/store"
	"resyncd/store/sqlite"
	"resyncd/sync/merge"
	"resyncd/sync/spill"
	"resyncd/sync/transfer"
)

// gatherAll are limits by which every list is gathered, from its first entry on, in a few small batches.
func gatherAll(dir string) *gatherLimits {
	return &gatherLimits{share: math.MaxInt64, batch: 3, held: 400, most: 4000, dir: dir}
}

// TestGatheredAsListed: however entries are gathered, all wants end as if each had been planned as it came: from lists whose at
// falls from part to part, with entries that come again, over rows that are older and newer.
func TestGatheredAsListed(t *testing.T) {
	t.Parallel()
	folder, spilt := ramDir(t), t.TempDir()
	st, err := sqlite.Open(t.Context(), filepath.Join(folder, "state.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	whole, sources := checksAsked(), 0
	rapid.Check(t, func(rt *rapid.T) {
		if sources++; !whole && sources > 15 {
			return // the others pass unseen: each costs two Sources in a state
		}
		content := func(u string, from, document, place int) entry {
			at := store.Micros(1e15 + int64(from))
			return entry{uri: u, cand: merge.Candidate{
				State: store.WantPresent, Length: int64(rapid.IntRange(1, 3).Draw(rt, "length")), LastMod: store.NoTime,
				Version: store.Version{From: at, Until: at, Ordinal: int64(place), Document: int64(document)},
			}}
		}
		uris := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) string {
			return fmt.Sprint("http://lib.example/", rapid.IntRange(0, 15).Draw(rt, "r"))
		}), 0, 20)
		var known, list []entry
		for i, u := range uris.Draw(rt, "known") {
			known = append(known, content(u, rapid.IntRange(0, 9).Draw(rt, "changed"), 9, i))
		}
		for part := range 3 {
			for i, u := range uris.Draw(rt, "part") {
				list = append(list, content(u, 8-2*part, part, i))
				list[len(list)-1].baseline = true
			}
		}
		limits := *gatherAll(spilt)
		limits.jumps = int64(rapid.SampledFrom([]int{0, 3}).Draw(rt, "jumps"))
		limits.share = rapid.SampledFrom([]int64{2, math.MaxInt64}).Draw(rt, "share")
		limits.held = rapid.SampledFrom([]int{100, 100_000}).Draw(rt, "held")
		limits.most = rapid.SampledFrom([]int64{1, 300, 100_000}).Draw(rt, "most")
		limits.batch = rapid.SampledFrom([]int{1, 5, 100}).Draw(rt, "batch")
		asTheyCame := wantsOf(rt, st, fmt.Sprint("plain", sources), gatherLimits{jumps: math.MaxInt64, share: 1}, known, list)
		if diff := gocmp.Diff(asTheyCame, wantsOf(rt, st, fmt.Sprint("gathered", sources), limits, known, list)); diff != "" {
			rt.Fatalf("wants (-as they came +gathered):\n%s", diff)
		}
	})
	leftNothing(t, spilt)
}

// wantsOf plans both lists for a new Source and returns its wants by URI.
func wantsOf(t tester, st store.Store, source string, limits gatherLimits, lists ...[]entry) []store.Want {
	t.Helper()
	ctx := context.Background()
	p, release := plannerOf(t, st, source)
	defer release()
	p.limits, p.seen, p.set.Generation = limits, spill.NewBitmap(), 1
	for _, list := range lists {
		for _, e := range list {
			p.reading.At = e.cand.Version.From
			if err := p.add(ctx, e); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.planAll(ctx); err != nil {
			t.Fatal(err)
		}
	}
	rs, err := st.Scan(ctx, store.ScanQuery{SourceID: p.s.src.ID, Filter: store.FilterAll, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(rs, func(a, b *store.Resource) int { return cmp.Compare(a.URI, b.URI) })
	var out []store.Want
	for _, r := range rs {
		w := r.Wants[0]
		listed := slices.ContainsFunc(lists[len(lists)-1], func(e entry) bool { return e.uri == r.URI })
		if listed && !p.seen.Has(r.ID) && w.Generation != p.set.Generation {
			t.Fatalf("not known to be listed: %s", r.URI)
		}
		w.SetID = 0
		out = append(out, w)
	}
	return out
}

// TestGatheredInPasses: the first entries are planned as they come; then as many are gathered as came before, and planned in
// order, a batch for each batch that is gathered, so that a Source is not kept waiting for long.
func TestGatheredInPasses(t *testing.T) {
	t.Parallel()
	p, done := benchPlanner(t)
	defer done()
	ctx := t.Context()
	var batches []int64
	p.s.o.Progress = func(p transfer.Progress) { batches = append(batches, p.Listed) }
	p.seen, p.set.Generation = spill.NewBitmap(), 1
	p.limits = gatherLimits{jumps: 10, share: 4, batch: 8, held: 1 << 20, most: 1 << 20}
	const n = 200
	var want []string
	for _, i := range shuffled(n) {
		uri := fmt.Sprintf("http://lib.example/%03d", i)
		want = append(want, uri)
		before := len(batches)
		if err := p.add(ctx, listedEntry(uri)); err != nil {
			t.Fatal(err)
		}
		if len(batches) > before+1 {
			t.Errorf("%d batches between two entries", len(batches)-before)
		}
	}
	if err := p.planAll(ctx); err != nil {
		t.Fatal(err)
	}
	if most := slices.Max(batches[1:]); most > 8 || p.gathered != nil {
		t.Errorf("batches: %v", batches)
	}
	passes := 0
	for from := batches[0]; from < n; from *= 2 {
		slices.Sort(want[from:min(2*from, n)])
		passes++
	}
	rs, err := p.s.Store.Scan(ctx, store.ScanQuery{SourceID: p.s.src.ID, Filter: store.FilterAll, Limit: n + 1})
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, r := range rs {
		order = append(order, r.URI)
	}
	if diff := gocmp.Diff(want, order); diff != "" || passes < 3 {
		t.Errorf("%d passes; planned (-want +got):\n%s", passes, diff)
	}
}

func listedEntry(uri string) entry {
	return entry{uri: uri, baseline: true, cand: merge.Candidate{
		State: store.WantPresent, Length: 1, LastMod: store.NoTime, Version: store.Version{From: 1e15, Until: 1e15, Document: 1},
	}}
}

// TestGatheredLists takes whole baselines by way of gathering: parts in no order, entries in two of them, a part that breaks off
// and is read anew, runs that are killed; and where there is no folder to gather in, the same with one warning.
func TestGatheredLists(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]string{"gathered": t.TempDir(), "nowhere": filepath.Join(t.TempDir(), "none")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.set("resourcelist", "/rl.xml")
			var log bytes.Buffer
			life := &mortal{}
			f.engine = func(e *Engine) {
				e.unordered, e.Store = gatherAll(dir), mortalStore{e.Store, life}
				e.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			}
			bodies := f.unordered("first", 0, 60)
			for steps := int64(6); steps < 20; steps += 6 {
				life.left.Store(steps)
				if _, err := f.run(); !errors.Is(err, errKilled) {
					t.Fatalf("killed after %d steps: %v", steps, err)
				}
				leftNothing(t, dir)
			}
			life.left.Store(math.MaxInt64)
			log.Reset()
			f.one(true)
			f.holds(bodies)
			bodies = f.unordered("then", 10, 57) // what a list does not name goes
			f.one(true)
			f.holds(bodies)
			leftNothing(t, dir)
			warned := strings.Count(log.String(), "make room")
			if want := map[string]int{"gathered": 0, "nowhere": 2}[name]; warned != want {
				t.Errorf("%d warnings of two runs:\n%s", warned, log.String())
			}
		})
	}
}

// unordered publishes a baseline of n resources in three parts, in no order. Some stand in two of them, and the second part
// breaks off once.
func (f *fake) unordered(text string, minute, n int) (bodies map[string]string) {
	at := `at="` + when(minute) + `"`
	var parts [3][]string
	bodies = map[string]string{}
	for i, n := range shuffled(n) {
		path := fmt.Sprintf("/r%03d", n)
		bodies[path] = fmt.Sprint(text, n)
		e := f.res(path, bodies[path])
		parts[i%3] = append(parts[i%3], e)
		if i%5 == 0 {
			parts[(i+1)%3] = append(parts[(i+1)%3], e)
		}
	}
	var named []string
	for i, entries := range parts {
		path := fmt.Sprintf("/rl-%d.xml", i)
		text := list("resourcelist", at, entries...)
		broken := i != 1
		f.handle(path, func(w http.ResponseWriter, _ *http.Request) {
			if broken {
				_, _ = io.WriteString(w, text)
				return
			}
			broken = true
			w.Header().Set("Content-Length", fmt.Sprint(len(text)))
			_, _ = io.WriteString(w, text[:len(text)*2/3])
			panic(http.ErrAbortHandler)
		})
		named = append(named, f.part(path, at))
	}
	f.page("/rl.xml", index("resourcelist", at, named...))
	return bodies
}

// leftNothing: no file of a folder is there, or removed and open still.
func leftNothing(t *testing.T, folder string) {
	t.Helper()
	if left, err := os.ReadDir(folder); len(left) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left behind: %v, %v", left, err)
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Log(err) // not a Linux
	}
	for _, d := range open {
		if name, _ := os.Readlink("/proc/self/fd/" + d.Name()); strings.HasPrefix(name, folder+"/") {
			t.Errorf("open still: %s", name)
		}
	}
}

// TestGatheredWithoutDisk: where nothing can be written, what fits into memory is gathered, and no more.
func TestGatheredWithoutDisk(t *testing.T) {
	t.Parallel()
	p, done := benchPlanner(t)
	defer done()
	ctx := t.Context()
	p.seen, p.set.Generation = spill.NewBitmap(), 1
	p.limits = gatherLimits{share: 4, jumps: 10, batch: 5, held: 1000, most: math.MaxInt64, dir: filepath.Join(t.TempDir(), "none")}
	const n = 200
	for _, i := range shuffled(n) {
		if err := p.add(ctx, listedEntry(fmt.Sprint("http://lib.example/", i))); err != nil {
			t.Fatal(err)
		}
		if g := p.gathered; g != nil && g.coming.Bytes() > 2000 {
			t.Fatalf("%d bytes held", g.coming.Bytes())
		}
	}
	if err := p.planAll(ctx); err != nil {
		t.Fatal(err)
	}
	if counts, err := p.s.Store.Counts(ctx, p.set.ID); err != nil || counts.Owed != n {
		t.Errorf("%+v, %v", counts, err)
	}
}

// TestPushedWhilePlanned: what was gathered is planned without a wait for the list in between, and yet a push need not wait for
// the end of that.
func TestPushedWhilePlanned(t *testing.T) {
	t.Parallel()
	p, done := benchPlanner(t)
	defer done()
	p.seen, p.set.Generation, p.limits = spill.NewBitmap(), 1, *gatherAll(t.TempDir())
	p.limits.most, p.s.turn = math.MaxInt64, &turn{}
	ctx, w := t.Context(), p.s.site
	p.s.turn.mu.Lock()
	for i := range 20 {
		if err := p.add(ctx, listedEntry(fmt.Sprint("http://lib.example/", i))); err != nil {
			t.Fatal(err)
		}
	}
	w.Take()
	full := make([]*store.Resource, 2000)
	for i := range full {
		full[i] = &store.Resource{ID: int64(1000 + i)}
	}
	w.HandReady(full)
	taken := make(chan int64, 1)
	go func() { // as a Follower's listener
		p.s.turn.mu.Lock()
		defer p.s.turn.mu.Unlock()
		counts, err := p.s.Store.Counts(ctx, p.set.ID)
		if err != nil {
			t.Error(err)
		}
		taken <- counts.Owed
		w.TakeReady(len(full))
	}()
	err := p.planAll(ctx)
	p.s.turn.mu.Unlock()
	if owed := <-taken; err != nil || owed >= 20 {
		t.Errorf("%d were planned before a push could be taken up; %v", owed, err)
	}
}

// shuffled are the numbers below n in no order.
func shuffled(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	slices.SortFunc(out, func(a, b int) int { return cmp.Compare(scattered(a), scattered(b)) })
	return out
}
