package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"resyncd/store"
)

func testLookup(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	two := b.ensureSet(b.claim, "two")
	const n = 3000
	var rs []store.ResourceChange
	for i := range n {
		rs = append(rs, b.change(i, present(store.Micros(i))))
	}
	got := b.put(rs...)
	if !slices.IsSorted(got) {
		t.Fatal("ids do not follow the order of insertion")
	}
	check := func(name string, set int64, which []int) {
		t.Helper()
		uris := make([]string, len(which))
		for i, k := range which {
			uris[i] = uri(k)
		}
		found, err := b.st.Lookup(b.ctx, b.src.ID, set, uris)
		b.ok(err)
		if len(found) != len(which) {
			t.Fatalf("%s: %d answers for %d", name, len(found), len(which))
		}
		for i, k := range which {
			r := found[i]
			if k >= n {
				if r != nil {
					t.Fatalf("%s: found %s", name, uris[i])
				}
				continue
			}
			if r == nil || r.ID != got[k] || r.URI != uris[i] || r.Key != key(k) {
				t.Fatalf("%s: %s is %+v", name, uris[i], r)
			}
			w := r.WantFor(b.set.ID)
			if set == b.set.ID && (len(r.Wants) != 1 || w == nil || w.Version.Until != store.Micros(k)) {
				t.Fatalf("%s: %s wants %v", name, uris[i], r.Wants)
			}
			if set != b.set.ID && len(r.Wants) != 0 {
				t.Fatalf("%s: %s has wants of another set", name, uris[i])
			}
		}
	}
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	check("in order", b.set.ID, all)
	check("want of the asked set only", two.ID, all[:50])
	check("none", b.set.ID, nil)
	reversed := slices.Clone(all)
	slices.Reverse(reversed)
	check("reversed", b.set.ID, reversed)
	rng := rand.New(rand.NewPCG(1, 2))
	rng.Shuffle(n, func(i, j int) { reversed[i], reversed[j] = reversed[j], reversed[i] })
	check("shuffled", b.set.ID, reversed)
	check("unknown", b.set.ID, []int{n, n + 1, n + 2})
	check("repeated", b.set.ID, []int{5, 5, 6, 5, n, n, 7})
	mixed := append(append([]int{n + 9}, all[:100]...), append([]int{n + 5, n + 6}, all[2000:]...)...)
	check("holes", b.set.ID, mixed)
	var gappy []int
	for i := 0; i < n; i += 7 {
		gappy = append(gappy, i)
	}
	check("sparse", b.set.ID, gappy)
	other, claim, _ := b.source("two")
	b.ok(b.st.Commit(b.ctx, &store.Commit{Claim: claim, Resources: []store.ResourceChange{{URI: "x", Key: "x"}}}))
	if found, err := b.st.Lookup(b.ctx, other.ID, b.set.ID, []string{uri(1), "x"}); err != nil || found[0] != nil ||
		found[1] == nil {
		t.Fatalf("other source: %v, %v", found, err)
	}
}

func testNames(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	first := b.put(store.ResourceChange{URI: "u1", Key: "h/Dir/File", Name: "h/dir/file"},
		store.ResourceChange{URI: "u2", Key: "h/x"}, store.ResourceChange{URI: "u3"}, store.ResourceChange{URI: "u4"})
	names := []string{"h/dir/file", "h/dir", "h", "h/Dir/File", "h/Dir", "h/x", "h/x", "", "h/di", "h/dir/file/deeper"}
	uses, err := b.st.Names(b.ctx, b.src.ID, names)
	b.ok(err)
	b.same("names", []store.NameUse{store.NameFile, store.NameFolder, store.NameFolder, 0, 0, store.NameFile,
		store.NameFile, 0, 0, 0}, uses)
	rs, err := b.st.ByKeys(b.ctx, b.src.ID, []string{"nothing", "h/x", "h/dir/file", "h/Dir/File", "h/x", "h", ""})
	b.ok(err)
	got := make([]int64, len(rs))
	for i, r := range rs {
		if r != nil {
			got[i] = r.ID
		}
	}
	b.same("by keys", []int64{0, first[1], first[0], 0, first[1], 0, 0}, got)

	for _, clash := range []store.ResourceChange{
		{URI: "v", Key: "h/x"}, {URI: "v", Key: "h/DIR/FILE", Name: "h/dir/file"}, {URI: "v", Key: "h/dir/file"},
		{ID: first[2], Key: "h/x"},
	} {
		b.is(b.st.Commit(b.ctx, &store.Commit{Claim: b.claim, Resources: []store.ResourceChange{clash}}),
			store.ErrNameTaken)
	}
	_, err = b.st.Resource(b.ctx, b.src.ID, "v")
	b.is(err, store.ErrNotFound)
	other, claim, _ := b.source("two")
	b.ok(b.st.Commit(b.ctx, &store.Commit{Claim: claim, Resources: []store.ResourceChange{{URI: "v", Key: "h/x"}}}))
	if uses, err := b.st.Names(b.ctx, other.ID, []string{"h/dir", "h/x"}); err != nil || uses[0] != store.NameFree ||
		uses[1] != store.NameFile {
		t.Fatalf("names of the other source: %v, %v", uses, err)
	}

	many := make([]string, 0, 500)
	var rs2 []store.ResourceChange
	for i := range 500 {
		many = append(many, key(i))
		if i%2 == 0 {
			rs2 = append(rs2, b.change(i, present(1)))
		}
	}
	b.put(rs2...)
	uses, err = b.st.Names(b.ctx, b.src.ID, many)
	b.ok(err)
	for i, u := range uses {
		if (u == store.NameFile) != (i%2 == 0) {
			t.Fatalf("%s is %v", many[i], u)
		}
	}
	testDeepNames(b)
}

// testDeepNames looks up files of a deep tree with all their folders, a third of them recorded.
func testDeepNames(b *bench) {
	b.Helper()
	var names []string
	var rs []store.ResourceChange
	used := map[string]store.NameUse{}
	for i := range 200 {
		folders := []string{"deep"}
		for level := range 10 {
			folders = append(folders, fmt.Sprintf("%s/%d", folders[level], i*41>>level&1))
		}
		name := fmt.Sprintf("%s/%d.txt", folders[10], i)
		names = append(append(names, folders...), name)
		if i%3 > 0 {
			continue
		}
		r := b.change(1000+i, present(1))
		r.Key, used[name] = name, store.NameFile
		rs = append(rs, r)
		for _, folder := range folders {
			used[folder] = store.NameFolder
		}
	}
	b.put(rs...)
	uses, err := b.st.Names(b.ctx, b.src.ID, names)
	b.ok(err)
	for i, name := range names {
		if uses[i] != used[name] {
			b.Fatalf("%s is %v, not %v", name, uses[i], used[name])
		}
	}
}

func testScan(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	two := b.ensureSet(b.claim, "two")
	fetch, remove := &store.Work{Action: store.ActionFetch}, &store.Work{Action: store.ActionRemove}
	held, refused, other := absent(1), present(1), present(1)
	held.Held, refused.Refused, other.SetID = true, "scope", two.ID
	mk := func(i int, w store.Want, h *store.Have, k *store.Work) store.ResourceChange {
		r := b.change(i, w)
		r.Have, r.Work = h, k
		return r
	}
	kept := fullHave(3)
	kept.State = store.HaveKept
	id := b.put(
		mk(0, present(1), fullHave(1), nil),   // 0 mirrored
		mk(1, present(1), nil, fetch),         // 1 owed
		mk(2, absent(1), fullHave(2), remove), // 2 owed, mirrored
		mk(3, held, fullHave(4), nil),         // 3 held, mirrored
		mk(4, refused, nil, nil),              // 4 refused
		mk(5, other, nil, fetch),              // 5 owed in the other set
		mk(6, absent(1), kept, nil),           // 6 kept
		mk(7, absent(1), nil, fetch),          // 7 fetched for the other set only
		store.ResourceChange{URI: "nobody", Key: "nobody", Have: kept},
	)
	b.put(store.ResourceChange{ID: id[7], Want: &other}, store.ResourceChange{ID: id[3], Want: &other})
	_, claim, _ := b.source("neighbour")
	set3 := b.ensureSet(claim, "three")
	for i := range 3 {
		w := store.Want{SetID: set3.ID, State: store.WantPresent, Held: true, Refused: "x"}
		b.ok(b.st.Commit(b.ctx, &store.Commit{Claim: claim, Resources: []store.ResourceChange{
			{URI: uri(i), Key: key(i), Want: &w, Have: fullHave(1), Work: fetch}}}))
	}
	pick := func(which ...int) []int64 {
		out := []int64{}
		for _, i := range which {
			out = append(out, id[i])
		}
		return out
	}
	for _, c := range []struct {
		name   string
		set    int64
		filter store.Filter
		want   []int64
	}{
		{"all", 0, store.FilterAll, id},
		{"owed", 0, store.FilterOwed, pick(1, 2, 5, 7)},
		{"held", 0, store.FilterHeld, pick(3)},
		{"refused", 0, store.FilterRefused, pick(4)},
		{"mirrored", 0, store.FilterMirrored, pick(0, 2, 3, 6, 8)},
		{"absent", 0, store.FilterAbsent, pick(2, 3, 6, 7)},
		{"absent of the set", b.set.ID, store.FilterAbsent, pick(2, 3, 6, 7)},
		{"all of the set", b.set.ID, store.FilterAll, pick(0, 1, 2, 3, 4, 6, 7)},
		{"owed of the set", b.set.ID, store.FilterOwed, pick(1, 2)},
		{"held of the set", b.set.ID, store.FilterHeld, pick(3)},
		{"refused of the set", b.set.ID, store.FilterRefused, pick(4)},
		{"mirrored of the set", b.set.ID, store.FilterMirrored, pick(0, 2, 3, 6)},
		{"owed of the other", two.ID, store.FilterOwed, pick(5, 7)},
		{"held of the other", two.ID, store.FilterHeld, pick()},
		{"all of the other", two.ID, store.FilterAll, pick(3, 5, 7)},
	} {
		for _, limit := range []int{100, 2, 1} {
			got := []int64{}
			for q := (store.ScanQuery{SourceID: b.src.ID, SetID: c.set, Filter: c.filter, Limit: limit}); ; {
				rs, err := b.st.Scan(b.ctx, q)
				b.ok(err)
				if len(rs) == 0 {
					break
				}
				if len(rs) > limit {
					t.Fatalf("%s: %d rows for limit %d", c.name, len(rs), limit)
				}
				got = append(got, ids(rs)...)
				q.After = rs[len(rs)-1].ID
			}
			b.same(c.name, c.want, got)
		}
	}
	rs, err := b.st.Scan(b.ctx, store.ScanQuery{SourceID: b.src.ID, SetID: two.ID, After: id[5], Limit: 1})
	b.ok(err)
	if len(rs) != 1 || len(rs[0].Wants) != 2 {
		t.Fatalf("a scanned resource without all wants: %+v", rs)
	}
	counts, err := b.st.Counts(b.ctx, b.set.ID)
	b.ok(err)
	b.same("counts", store.Counts{Owed: 2, Held: 1, Refused: 1}, counts)
	withheld, err := b.st.Withheld(b.ctx, b.set.ID)
	b.ok(err)
	b.same("withheld", store.Counts{Held: 1, Refused: 1}, withheld)
	n, bytes := b.recount(b.set.ID)
	if n != 2 || bytes != 5 { // the present and the held one
		t.Fatalf("recount: %d resources, %d bytes", n, bytes)
	}
}

func testDue(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	if due, err := b.st.NextDue(b.ctx, b.src.ID); err != nil || due != store.NoTime {
		t.Fatalf("nothing is due: %v, %v", due, err)
	}
	var rs []store.ResourceChange
	for i := range 10 {
		r := b.change(i, present(1))
		r.Work = &store.Work{Action: store.ActionFetch, Due: store.Micros(100 - i)}
		if i > 4 && i%2 == 1 {
			r.Work.Attempts = 1
		}
		rs = append(rs, r)
	}
	rs[3].Work = &store.Work{Action: store.ActionRemove, Due: 50}
	rs[4].Work = &store.Work{Due: 1}
	id := b.put(rs...)
	_, claim, _ := b.source("neighbour")
	b.ok(b.st.Commit(b.ctx, &store.Commit{Claim: claim, Resources: []store.ResourceChange{
		{URI: "n", Key: "n", Work: &store.Work{Action: store.ActionFetch, Due: 1}}}}))
	due := func(q store.DueQuery) []int64 {
		t.Helper()
		q.SourceID = b.src.ID
		got, err := b.st.Due(b.ctx, q)
		b.ok(err)
		for _, r := range got {
			if len(r.Wants) != 1 {
				t.Fatalf("due without wants: %+v", r)
			}
		}
		return ids(got)
	}
	b.same("due by 94", []int64{id[6], id[7], id[8], id[9]},
		due(store.DueQuery{Action: store.ActionFetch, Now: 94, Limit: 10}))
	b.same("page", []int64{id[7], id[8]}, due(store.DueQuery{Action: store.ActionFetch, Now: 94, Limit: 2,
		After: id[6]}))
	b.same("removals", []int64{id[3]}, due(store.DueQuery{Action: store.ActionRemove, Now: 94, Limit: 10}))
	b.same("nothing yet", []int64{}, due(store.DueQuery{Action: store.ActionFetch, Now: 90, Limit: 10}))
	next := func(want store.Micros) {
		t.Helper()
		if got, err := b.st.NextDue(b.ctx, b.src.ID); err != nil || got != want {
			t.Fatalf("next due %v, %v; want %v", got, err, want)
		}
	}
	next(50)
	b.put(store.ResourceChange{ID: id[3], Work: &store.Work{}})
	next(91)
	b.put(store.ResourceChange{ID: id[9], Work: &store.Work{Action: store.ActionFetch, Due: 500, Attempts: 2}})
	next(93)
	// the first that never failed
	b.put(store.ResourceChange{ID: id[0], Work: &store.Work{Action: store.ActionFetch, Due: 40}})
	next(40)
	for _, i := range []int{0, 9} {
		at := b.resource(uri(i)).Work
		later := at
		later.Due = 95
		b.put(store.ResourceChange{ID: id[i], Work: &later})
		next(93)
		at.Due = store.NoTime
		b.put(store.ResourceChange{ID: id[i], Work: &at})
		if got, err := b.st.NextDue(b.ctx, b.src.ID); err != nil || !got.Known() || got > 0 {
			t.Fatalf("work without an instant is due %v, %v", got, err)
		}
		b.same("due at once", []int64{id[i]}, due(store.DueQuery{Action: store.ActionFetch, Now: 1, Limit: 10}))
		at.Due = 1 + store.LatestDue
		b.put(store.ResourceChange{ID: id[i], Work: &at})
		b.same("as late as can be planned", []int64{},
			due(store.DueQuery{Action: store.ActionFetch, Now: 1, Limit: 10}))
		b.same("planned by a clock that was set back", []int64{id[i]},
			due(store.DueQuery{Action: store.ActionFetch, Now: 0, Limit: 10}))
		b.put(store.ResourceChange{ID: id[i], Work: &later})
	}
}

func testUnlisted(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	ask, ranged, timeless, written := present(5), present(5), present(store.NoTime), present(5)
	ask.State = store.WantAsk
	ranged.Version.Until = 20
	written.Generation = 7
	other := present(5)
	other.SetID = b.ensureSet(b.claim, "two").ID
	id := b.put(b.change(0, present(5)), b.change(1, absent(5)), b.change(2, ask), b.change(3, ranged), b.change(4,
		written), b.change(5, present(10)), b.change(6, present(11)), b.change(7, timeless), b.change(8, other))
	b.same("unlisted", []int64{id[0], id[2], id[5], id[7]}, unlisted(b, b.set.ID, 7, 10))
	b.same("another generation", []int64{id[0], id[2], id[4], id[5], id[7]}, unlisted(b, b.set.ID, 8, 10))

	// Rows change while the caller walks: none is skipped and the walk ends.
	var rs []store.ResourceChange
	for i := range 2500 {
		rs = append(rs, b.change(100+i, present(5)))
	}
	more := b.put(rs...)
	n := 0
	for got, err := range b.st.Unlisted(b.ctx, b.set.ID, 7, 10) {
		b.ok(err)
		if n%500 == 0 {
			gone := absent(9)
			gone.SetID = b.set.ID
			b.put(store.ResourceChange{ID: got, Want: &gone}, b.change(10_000+n, written))
		}
		n++
	}
	if n != 4+len(more) {
		t.Fatalf("walked over %d rows, want %d", n, 4+len(more))
	}
	for _, err := range b.st.Unlisted(b.ctx, b.set.ID, 7, 10) {
		b.ok(err)
		break // leaving early leaves nothing open
	}
	b.put(b.change(20_000, present(1)))
}

func testBaseline(t *testing.T, fresh Fresh) {
	t.Run("tombstones", func(t *testing.T) {
		b := newBench(t, fresh)
		two := b.ensureSet(b.claim, "two")
		mk := func(i int, w store.Want, h *store.Have, k *store.Work) store.ResourceChange {
			r := b.change(i, w)
			r.Have, r.Work = h, k
			return r
		}
		held := absent(1)
		held.Held = true
		id := b.put(
			mk(0, absent(5), nil, nil),         // goes
			mk(1, absent(11), nil, nil),        // too new
			mk(2, absent(5), fullHave(1), nil), // has a file
			mk(3, present(5), nil, nil),        // wanted
			mk(4, absent(5), nil, nil),         // wanted by the other set
			// absent in the other set too: that want stays, and the row
			mk(5, absent(5), nil, nil),
			mk(6, absent(5), nil, &store.Work{Action: store.ActionFetch}), // has work
			mk(7, absent(10), nil, nil),                                   // goes
		)
		p, a := present(5), absent(5)
		p.SetID, a.SetID = two.ID, two.ID
		b.put(store.ResourceChange{ID: id[4], Want: &p}, store.ResourceChange{ID: id[5], Want: &a})
		b.commit(store.Commit{DropTombstones: &store.DropTombstones{SetID: b.set.ID, At: 10}})
		rs, err := b.st.ByIDs(b.ctx, id)
		b.ok(err)
		b.same("left", []int64{id[1], id[2], id[3], id[4], id[5], id[6]}, ids(rs))
		if len(rs[3].Wants) != 2 || len(rs[4].Wants) != 1 || rs[4].Wants[0].SetID != two.ID {
			t.Fatalf("wants left: %v, %v", rs[3].Wants, rs[4].Wants)
		}
		uses, err := b.st.Names(b.ctx, b.src.ID, []string{key(0), key(5)})
		b.ok(err)
		b.same("names", []store.NameUse{store.NameFree, store.NameFile}, uses)
		again := b.put(b.change(0, present(20)), b.change(99, present(20)))
		for _, old := range id {
			if again[0] == old || again[1] == old {
				t.Fatal("the id of a dropped resource was given again")
			}
		}
		b.commit(store.Commit{DropTombstones: &store.DropTombstones{SetID: two.ID, At: 10}})
		_, err = b.st.Resource(b.ctx, b.src.ID, uri(5))
		b.is(err, store.ErrNotFound)
	})
}
