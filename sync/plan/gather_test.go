package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"resyncd/store"
	"resyncd/store/sqlite"
	"resyncd/sync/merge"
	"resyncd/sync/spill"
	"resyncd/sync/transfer"
)

// gatherAllIn are limits by which every list is gathered, from its first entry on, in a few small batches.
func gatherAllIn(dir string) *Limits {
	return &Limits{Share: math.MaxInt64, Batch: 3, Held: 400, Most: 4000, Dir: dir}
}

// TestGatheredAsListed: however entries are gathered, all wants end as if each had been planned as it came: from lists whose at
// falls from part to part, with entries that come again, over rows that are older and newer.
func TestGatheredAsListed(t *testing.T) {
	t.Parallel()
	folder, spilt := t.TempDir(), t.TempDir()
	st, err := sqlite.Open(t.Context(), filepath.Join(folder, "state.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	whole, sources := false, 0
	rapid.Check(t, func(rt *rapid.T) {
		if sources++; !whole && sources > 15 {
			return // the others pass unseen: each costs two Sources in a state
		}
		content := func(u string, from, document, place int) Entry {
			at := store.Micros(1e15 + int64(from))
			return Entry{URI: u, Cand: merge.Candidate{
				State: store.WantPresent, Length: int64(rapid.IntRange(1, 3).Draw(rt, "length")), LastMod: store.NoTime,
				Version: store.Version{From: at, Until: at, Ordinal: int64(place), Document: int64(document)},
			}}
		}
		uris := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) string {
			return fmt.Sprint("http://lib.example/", rapid.IntRange(0, 15).Draw(rt, "r"))
		}), 0, 20)
		var known, list []Entry
		for i, u := range uris.Draw(rt, "known") {
			known = append(known, content(u, rapid.IntRange(0, 9).Draw(rt, "changed"), 9, i))
		}
		for part := range 3 {
			for i, u := range uris.Draw(rt, "part") {
				list = append(list, content(u, 8-2*part, part, i))
				list[len(list)-1].Baseline = true
			}
		}
		limits := *gatherAllIn(spilt)
		limits.Jumps = int64(rapid.SampledFrom([]int{0, 3}).Draw(rt, "jumps"))
		limits.Share = rapid.SampledFrom([]int64{2, math.MaxInt64}).Draw(rt, "share")
		limits.Held = rapid.SampledFrom([]int{100, 100_000}).Draw(rt, "held")
		limits.Most = rapid.SampledFrom([]int64{1, 300, 100_000}).Draw(rt, "most")
		limits.Batch = rapid.SampledFrom([]int{1, 5, 100}).Draw(rt, "batch")
		asTheyCame := wantsOf(rt, st, fmt.Sprint("plain", sources), Limits{Jumps: math.MaxInt64, Share: 1}, known, list)
		if diff := gocmp.Diff(asTheyCame, wantsOf(rt, st, fmt.Sprint("gathered", sources), limits, known, list)); diff != "" {
			rt.Fatalf("wants (-as they came +gathered):\n%s", diff)
		}
	})
	leftNothing(t, spilt)
}

// wantsOf plans both lists for a new Source and returns its wants by URI.
func wantsOf(t failer, st store.Store, source string, limits Limits, lists ...[]Entry) []store.Want {
	t.Helper()
	ctx := context.Background()
	p, release := plannerOf(t, st, source)
	defer release()
	p.order.limits, p.Seen, p.o.Set.Generation = limits, spill.NewBitmap(), 1
	for _, list := range lists {
		for _, e := range list {
			p.Reading.At = e.Cand.Version.From
			if err := p.Add(ctx, e); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.PlanAll(ctx); err != nil {
			t.Fatal(err)
		}
	}
	rs, err := st.Scan(ctx, store.ScanQuery{SourceID: p.o.Site.SourceID, Filter: store.FilterAll, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(rs, func(a, b *store.Resource) int { return cmp.Compare(a.URI, b.URI) })
	var out []store.Want
	for _, r := range rs {
		w := r.Wants[0]
		listed := slices.ContainsFunc(lists[len(lists)-1], func(e Entry) bool { return e.URI == r.URI })
		if listed && !p.Seen.Has(r.ID) && w.Generation != p.o.Set.Generation {
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
	p.o.Site.Progress = func(p transfer.Progress) { batches = append(batches, p.Listed) }
	p.Seen, p.o.Set.Generation = spill.NewBitmap(), 1
	p.order.limits = Limits{Jumps: 10, Share: 4, Batch: 8, Held: 1 << 20, Most: 1 << 20}
	const n = 200
	var want []string
	for _, i := range shuffled(n) {
		uri := fmt.Sprintf("http://lib.example/%03d", i)
		want = append(want, uri)
		before := len(batches)
		if err := p.Add(ctx, listedEntry(uri)); err != nil {
			t.Fatal(err)
		}
		if len(batches) > before+1 {
			t.Errorf("%d batches between two entries", len(batches)-before)
		}
	}
	if err := p.PlanAll(ctx); err != nil {
		t.Fatal(err)
	}
	if most := slices.Max(batches[1:]); most > 8 || p.order.gathered != nil {
		t.Errorf("batches: %v", batches)
	}
	passes := 0
	for from := batches[0]; from < n; from *= 2 {
		slices.Sort(want[from:min(2*from, n)])
		passes++
	}
	rs, err := p.o.Site.Store.Scan(ctx, store.ScanQuery{SourceID: p.o.Site.SourceID, Filter: store.FilterAll, Limit: n + 1})
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

func listedEntry(uri string) Entry {
	return Entry{URI: uri, Baseline: true, Cand: merge.Candidate{
		State: store.WantPresent, Length: 1, LastMod: store.NoTime, Version: store.Version{From: 1e15, Until: 1e15, Document: 1},
	}}
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
	p.Seen, p.o.Set.Generation = spill.NewBitmap(), 1
	p.order.limits = Limits{Share: 4, Jumps: 10, Batch: 5, Held: 1000, Most: math.MaxInt64, Dir: filepath.Join(t.TempDir(), "none")}
	const n = 200
	for _, i := range shuffled(n) {
		if err := p.Add(ctx, listedEntry(fmt.Sprint("http://lib.example/", i))); err != nil {
			t.Fatal(err)
		}
		if g := p.order.gathered; g != nil && g.coming.Bytes() > 2000 {
			t.Fatalf("%d bytes held", g.coming.Bytes())
		}
	}
	if err := p.PlanAll(ctx); err != nil {
		t.Fatal(err)
	}
	if counts, err := p.o.Site.Store.Counts(ctx, p.o.Set.ID); err != nil || counts.Owed != n {
		t.Errorf("%+v, %v", counts, err)
	}
}

// TestPushedWhilePlanned: what was gathered is planned without a wait for the list in between, and yet a push need not wait for
// the end of that.
func TestPushedWhilePlanned(t *testing.T) {
	t.Parallel()
	p, done := benchPlanner(t)
	defer done()
	p.Seen, p.o.Set.Generation, p.order.limits = spill.NewBitmap(), 1, *gatherAllIn(t.TempDir())
	var turn sync.Mutex
	p.order.limits.Most = math.MaxInt64
	p.o.Await = func() func() {
		turn.Unlock()
		return turn.Lock
	}
	ctx, w := t.Context(), p.o.Site
	turn.Lock()
	for i := range 20 {
		if err := p.Add(ctx, listedEntry(fmt.Sprint("http://lib.example/", i))); err != nil {
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
		turn.Lock()
		defer turn.Unlock()
		counts, err := p.o.Site.Store.Counts(ctx, p.o.Set.ID)
		if err != nil {
			t.Error(err)
		}
		taken <- counts.Owed
		w.TakeReady(len(full))
	}()
	err := p.PlanAll(ctx)
	turn.Unlock()
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
