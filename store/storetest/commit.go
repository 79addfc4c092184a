package storetest

import (
	"context"
	"testing"

	"resyncd/store"
)

func testCommit(t *testing.T, fresh Fresh) {
	t.Run("all or nothing", func(t *testing.T) {
		b := newBench(t, fresh)
		gap := &store.Gap{SetID: b.set.ID, State: store.GapFound}
		bad := store.Commit{
			Claim: b.claim, Resources: []store.ResourceChange{b.change(1, present(1)),
				{ID: b.put(b.change(9, present(1)))[0] + 1000, Work: &store.Work{}}},
			Gaps: []*store.Gap{gap}, Sets: []store.SetChange{{ID: b.set.ID, Resources: 5}},
		}
		b.is(b.st.Commit(b.ctx, &bad), store.ErrNotFound)
		if bad.Resources[0].ID != 0 || gap.ID != 0 {
			t.Fatal("a failed commit gave ids")
		}
		_, err := b.st.Resource(b.ctx, b.src.ID, uri(1))
		b.is(err, store.ErrNotFound)
		if names, err := b.st.Names(b.ctx, b.src.ID, []string{key(1)}); err != nil || names[0] != store.NameFree {
			t.Fatalf("name after a failed commit: %v, %v", names, err)
		}
		b.put(b.change(1, present(1))) // and it can be repeated
	})
	t.Run("cancelled context", func(t *testing.T) {
		b := newBench(t, fresh)
		ctx, cancel := context.WithCancel(b.ctx)
		cancel()
		b.ok(b.st.Commit(ctx, &store.Commit{Claim: b.claim,
			Resources: []store.ResourceChange{b.change(1, present(1))}}))
		b.resource(uri(1))
	})
	t.Run("only the claimed source", func(t *testing.T) {
		b := newBench(t, fresh)
		mine := b.put(b.change(1, present(1)))[0]
		gap := &store.Gap{SetID: b.set.ID}
		b.commit(store.Commit{Gaps: []*store.Gap{gap}})
		_, claim, _ := b.source("two")
		two := b.ensureSet(claim, "list")
		for name, c := range map[string]store.Commit{
			"resource": {Resources: []store.ResourceChange{{ID: mine, Work: &store.Work{Action: store.ActionFetch}}}},
			"want":     {Resources: []store.ResourceChange{{URI: "u", Key: "k", Want: &store.Want{SetID: b.set.ID}}}},
			"no set":   {Resources: []store.ResourceChange{{URI: "u", Key: "k", Want: &store.Want{}}}},
			"set":      {Sets: []store.SetChange{{ID: b.set.ID, Resources: 1}}},
			"gap":      {Gaps: []*store.Gap{{SetID: b.set.ID}}},
			"run":      {Runs: []store.Run{{SetID: b.set.ID}}},
			"document": {Documents: []store.Document{{SourceID: b.src.ID, URL: "u"}}},
			"trash":    {Trash: []store.Trashed{{SourceID: b.src.ID, ID: "t"}}},
			"event":    {Events: []store.Event{{SourceID: b.src.ID, URI: "u"}}},
			"drop":     {DropTombstones: &store.DropTombstones{SetID: b.set.ID}},
			"no gap":   {DropGaps: []int64{gap.ID}},
			"content":  {Resources: []store.ResourceChange{{ID: mine, Content: []byte("x")}}},
			"edit":     {Edits: []store.Edit{{SourceID: b.src.ID, URI: "u"}}},
		} {
			c.Claim = claim
			if err := b.st.Commit(b.ctx, &c); err == nil {
				t.Errorf("%s of another source was taken", name)
			}
		}
		b.ok(b.st.Commit(b.ctx, &store.Commit{Claim: claim, Sets: []store.SetChange{{ID: two.ID, Resources: 1}}}))
	})
	t.Run("reads see the last commit", func(t *testing.T) {
		b := newBench(t, fresh)
		other := b.reopen()
		for i := range 20 {
			b.put(b.change(i, present(1)))
			for _, st := range []store.Store{b.st, other} {
				if _, err := st.Resource(b.ctx, b.src.ID, uri(i)); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

func testResources(t *testing.T, fresh Fresh) {
	t.Run("every field comes back", func(t *testing.T) {
		b := newBench(t, fresh)
		want := store.Want{
			SetID: b.set.ID, State: store.WantAsk, Version: store.Version{From: -5, Until: 6, Ordinal: 7, Document: 8},
			Digests: "sha-256:" + hex64 + " md5:00112233445566778899aabbccddeeff", Length: 1 << 40, LastMod: 3,
			Type:  "text/xml",
			Links: `[{"rel":"duplicate"}]`, Generation: 4, Held: true, Refused: "scope", Settled: true,
			Inline: true, Meta: `{"title":"ä"}`,
		}
		work := store.Work{Action: store.ActionFetch, Due: 77, Attempts: 3, Class: "http", Reason: "503", Since: 70}
		have := fullHave(9)
		id := b.put(store.ResourceChange{URI: "u", Key: "K", Name: "k", Have: have, Work: &work, Want: &want})[0]
		full := &store.Resource{ID: id, SourceID: b.src.ID, URI: "u", Key: "K", Have: *have, Work: work,
			Wants: []store.Want{want}}
		b.same("resource", full, b.resource("u"))

		bare := b.put(store.ResourceChange{URI: "bare"})[0]
		b.same("bare resource", &store.Resource{ID: bare, SourceID: b.src.ID, URI: "bare"}, b.resource("bare"))
		odd := store.Want{SetID: b.set.ID, Version: store.Version{From: store.NoTime, Until: store.NoTime},
			Digests: "sha-256:XY  what",
			Length:  -1, LastMod: store.NoTime}
		oddWork := store.Work{Due: store.NoTime, Since: store.NoTime}
		oddHave := store.Have{Fetched: store.NoTime, Checked: "sha-256:AB", Version: store.Version{From: store.NoTime}}
		b.put(store.ResourceChange{ID: bare, Want: &odd, Work: &oddWork, Have: &oddHave})
		b.same("odd resource", &store.Resource{ID: bare, SourceID: b.src.ID, URI: "bare", Wants: []store.Want{odd},
			Work: oddWork,
			Have: oddHave}, b.resource("bare"))

		// Nil fields stay, the others are replaced whole.
		b.put(store.ResourceChange{ID: id, Have: &store.Have{}})
		full.Have = store.Have{}
		b.same("file dropped", full, b.resource("u"))
		b.put(store.ResourceChange{ID: id, Work: &store.Work{}})
		full.Work = store.Work{}
		b.same("work done", full, b.resource("u"))
		w := present(9)
		w.SetID = b.set.ID
		b.put(store.ResourceChange{ID: id, Want: &w})
		full.Wants = []store.Want{w}
		b.same("wanted anew", full, b.resource("u"))
	})
	t.Run("key is decided once", func(t *testing.T) {
		b := newBench(t, fresh)
		id := b.put(store.ResourceChange{URI: "u"})[0]
		b.put(store.ResourceChange{ID: id, Key: "a/b"})
		b.put(store.ResourceChange{ID: id, Key: "other"})
		if r := b.resource("u"); r.Key != "a/b" {
			t.Fatalf("key %q", r.Key)
		}
		uses, err := b.st.Names(b.ctx, b.src.ID, []string{"a/b", "a", "other"})
		b.ok(err)
		b.same("names", []store.NameUse{store.NameFile, store.NameFolder, store.NameFree}, uses)
	})
	t.Run("insert of a known URI is an update", func(t *testing.T) {
		b := newBench(t, fresh)
		id := b.put(b.change(1, present(1)))[0]
		var rs []store.ResourceChange
		for i := range 30 { // among new ones, and twice itself
			rs = append(rs, b.change(i, present(2)))
		}
		rs = append(rs, b.change(29, present(3)))
		got := b.put(rs...)
		if got[1] != id || got[30] != got[29] {
			t.Fatalf("ids %v", got)
		}
		for i, at := range map[int]store.Micros{0: 2, 1: 2, 28: 2, 29: 3} {
			if r := b.resource(uri(i)); r.Wants[0].Version.Until != at {
				t.Errorf("%s wants %v", uri(i), r.Wants)
			}
		}
		all, err := b.st.Scan(b.ctx, store.ScanQuery{SourceID: b.src.ID, Limit: 100})
		b.ok(err)
		if len(all) != 30 {
			t.Fatalf("%d resources", len(all))
		}
	})
	t.Run("all wants", func(t *testing.T) {
		b := newBench(t, fresh)
		two := b.ensureSet(b.claim, "two")
		w1, w2 := present(1), absent(2)
		w1.SetID, w2.SetID = b.set.ID, two.ID
		id := b.put(store.ResourceChange{URI: "u", Key: "k", Want: &w1})[0]
		b.put(store.ResourceChange{ID: id, Want: &w2})
		_, claim, _ := b.source("other")
		b.ensureSet(claim, "three")
		r := b.resource("u")
		b.same("wants", []store.Want{w1, w2}, r.Wants)
		byID, err := b.st.ByIDs(b.ctx, []int64{id + 500, id, id})
		b.ok(err)
		b.same("by id", []*store.Resource{r}, byID)
		if none, err := b.st.ByIDs(b.ctx, nil); err != nil || len(none) != 0 {
			t.Fatalf("no ids: %v, %v", none, err)
		}
	})
}

func testPushed(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	listed := store.Want{SetID: b.set.ID, State: store.WantAsk,
		Version: store.Version{From: store.NoTime, Until: 6, Ordinal: 7, Document: 8},
		Digests: "sha-256:" + hex64, Length: -1, LastMod: 3, Type: "text/xml", Links: "[]", Generation: 4, Held: true,
		Refused: "scope", Settled: true,
		Inline: true, Meta: "{}"}
	full := present(9)
	full.SetID, full.Pushed, full.Listed, full.Version.Document = b.set.ID, true, &listed, -77
	full.Inline, full.Meta = true, `{"title":"pushed"}`
	silent := absent(9)
	silent.SetID, silent.Pushed, silent.Listed = b.set.ID, true, &store.Want{}
	odd := present(1)
	odd.SetID, odd.Pushed = b.set.ID, true
	var rs []store.ResourceChange
	for i := range 30 { // long enough for every way of writing
		c := b.change(i, present(1))
		switch i {
		case 3, 13, 29:
			c.Want = &full
		case 14:
			c.Want = &silent
		case 28:
			c.Want = &odd
		}
		c.Work = &store.Work{Action: store.ActionFetch, Due: store.NoTime}
		rs = append(rs, c)
	}
	id := b.put(rs...)
	wants := map[int64]store.Want{id[3]: full, id[13]: full, id[14]: silent, id[28]: odd, id[29]: full}
	check := func(what string, rs []*store.Resource, err error) {
		t.Helper()
		b.ok(err)
		if len(rs) < len(wants) {
			t.Fatalf("%s: %d resources", what, len(rs))
		}
		for _, r := range rs {
			want, pushed := wants[r.ID]
			if !pushed {
				want = present(1)
				want.SetID = b.set.ID
			}
			b.same(what+" "+r.URI, want, r.Wants[0])
		}
	}
	uris := make([]string, len(rs))
	for i := range uris {
		uris[i] = uri(i)
	}
	found, err := b.st.Lookup(b.ctx, b.src.ID, b.set.ID, uris)
	check("lookup", found, err)
	found, err = b.st.Due(b.ctx, store.DueQuery{SourceID: b.src.ID, Action: store.ActionFetch, Now: 5, Limit: 100})
	check("due", found, err)
	found, err = b.st.Scan(b.ctx, store.ScanQuery{SourceID: b.src.ID, SetID: b.set.ID, Limit: 100})
	check("scan", found, err)
	found, err = b.st.ByIDs(b.ctx, id)
	check("by id", found, err)
	b.same("resource", full, b.resource(uri(3)).Wants[0])

	pushed := func(after int64, limit int) []int64 {
		t.Helper()
		rs, err := b.st.Scan(b.ctx, store.ScanQuery{SourceID: b.src.ID, SetID: b.set.ID, Filter: store.FilterPushed,
			After: after, Limit: limit})
		b.ok(err)
		return ids(rs)
	}
	b.same("pushed", []int64{id[3], id[13], id[14], id[28], id[29]}, pushed(0, 100))
	b.same("a page of the pushed", []int64{id[13], id[14]}, pushed(id[3], 2))
	if _, err := b.st.Scan(b.ctx, store.ScanQuery{SourceID: b.src.ID, Filter: store.FilterPushed,
		Limit: 9}); err == nil {
		t.Error("pushed wants of no set")
	}

	// Confirmed.
	confirmed := present(9)
	confirmed.SetID = b.set.ID
	b.put(store.ResourceChange{ID: id[3], Want: &confirmed})
	b.same("left", []int64{id[13], id[14], id[28], id[29]}, pushed(0, 100))
	b.same("confirmed", confirmed, b.resource(uri(3)).Wants[0])
}

const hex64 = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

func testConcurrency(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	const writers, commits = 4, 25
	errs := make(chan error)
	for w := range writers {
		go func() {
			var err error
			for i := 0; i < commits && err == nil; i++ {
				n := w*commits + i
				err = b.st.Commit(b.ctx, &store.Commit{
					Claim: b.claim, Resources: []store.ResourceChange{b.change(n, present(1))},
					Sets: []store.SetChange{{ID: b.set.ID, Resources: 1, Bytes: 2}},
				})
				if err == nil {
					_, err = b.st.Lookup(b.ctx, b.src.ID, b.set.ID, []string{uri(n), uri(n + 1)})
				}
			}
			errs <- err
		}()
	}
	for range writers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	sets, err := b.st.Sets(b.ctx, b.src.ID)
	b.ok(err)
	if sets[0].Resources != writers*commits || sets[0].Bytes != 2*writers*commits {
		t.Fatalf("counters %d, %d", sets[0].Resources, sets[0].Bytes)
	}
}
