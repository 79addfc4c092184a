package storetest

import (
	"fmt"
	"testing"

	"resyncd/store"
)

func testDocuments(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	id, err := b.st.EnsureDocument(b.ctx, b.claim, b.set.ID, "https://a.example/list", "resourcelist")
	b.ok(err)
	again, err := b.st.EnsureDocument(b.ctx, b.claim, b.set.ID, "https://a.example/list", "resourcelist")
	b.ok(err)
	if id == 0 || again != id {
		t.Fatalf("ids %d, %d", id, again)
	}
	d := store.Document{ID: id, SourceID: b.src.ID, SetID: b.set.ID, URL: "https://a.example/list",
		Kind: "resourcelist",
		At:   store.NoTime, From: store.NoTime, Until: store.NoTime, LastEntry: store.NoTime, Read: store.NoTime}
	got, err := b.st.Document(b.ctx, b.src.ID, d.URL)
	b.ok(err)
	b.same("new document", d, got)

	full := store.Document{SourceID: b.src.ID, URL: d.URL, Kind: "changelist", ETag: `"e"`, LastModified: "m", At: 1,
		From:  2,
		Until: 3, LastEntry: 4, Entries: 5, Complete: true, Body: []byte("{}"), Read: 6}
	b.commit(store.Commit{Documents: []store.Document{full}})
	full.ID = id
	got, err = b.st.DocumentByID(b.ctx, id)
	b.ok(err)
	b.same("found by its URL", full, got)
	full.Body, full.Until, full.SetID = nil, store.NoTime, b.set.ID
	b.commit(store.Commit{Documents: []store.Document{full, {URL: "new", Kind: "k"}}})
	got, err = b.st.Document(b.ctx, b.src.ID, d.URL)
	b.ok(err)
	b.same("replaced by its id", full, got)
	if got, err = b.st.Document(b.ctx, b.src.ID, "new"); err != nil || got.ID == 0 {
		t.Fatalf("new document: %v, %v", got, err)
	}
	_, err = b.st.Document(b.ctx, b.src.ID, "none")
	b.is(err, store.ErrNotFound)
	_, err = b.st.Document(b.ctx, b.src.ID+1000, d.URL)
	b.is(err, store.ErrNotFound)
	_, err = b.st.DocumentByID(b.ctx, 1<<40)
	b.is(err, store.ErrNotFound)
	b.is(b.st.Commit(b.ctx, &store.Commit{Claim: b.claim, Documents: []store.Document{{ID: 1 << 40, URL: "x"}}}),
		store.ErrNotFound)
}

func testLedger(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	t.Run("gaps", func(t *testing.T) {
		g := &store.Gap{SetID: b.set.ID, From: 1, Until: 2, State: store.GapFound, Found: 3, Ended: store.NoTime}
		b.commit(store.Commit{Gaps: []*store.Gap{g}})
		if g.ID == 0 {
			t.Fatal("no id")
		}
		var all []*store.Gap
		for i := range 150 {
			all = append(all, &store.Gap{SetID: b.set.ID, From: store.Micros(i), Until: store.NoTime,
				State: store.GapClosed, ClosedBy: "baseline", Found: 1, Ended: 2})
		}
		all[149].State = store.GapUnprovable
		b.commit(store.Commit{Gaps: all})
		gaps, err := b.st.Gaps(b.ctx, b.set.ID)
		b.ok(err)
		if len(gaps) != 101 {
			t.Fatalf("%d gaps", len(gaps))
		}
		b.same("open one", *g, gaps[0])
		b.same("oldest ended one", *all[50], gaps[1])
		b.same("newest", *all[149], gaps[100])
		g.State, g.ClosedBy, g.Ended = store.GapClosed, "change-list", 9
		b.commit(store.Commit{Gaps: []*store.Gap{g}})
		gaps, err = b.st.Gaps(b.ctx, b.set.ID)
		b.ok(err)
		if len(gaps) != 100 || gaps[0].ID != all[50].ID {
			t.Fatalf("%d gaps from %d", len(gaps), gaps[0].ID)
		}
		b.is(b.st.Commit(b.ctx, &store.Commit{Claim: b.claim, Gaps: []*store.Gap{{ID: 1 << 40, SetID: b.set.ID}}}),
			store.ErrNotFound)
	})
	t.Run("holes that were no gaps", func(t *testing.T) {
		b := newBench(t, fresh)
		gaps := []*store.Gap{{SetID: b.set.ID, State: store.GapWaiting}, {SetID: b.set.ID, State: store.GapFound},
			{SetID: b.set.ID, State: store.GapClosed}}
		b.commit(store.Commit{Gaps: gaps})
		gaps[0].State = store.GapPulling
		b.commit(store.Commit{Gaps: gaps[:1], DropGaps: []int64{gaps[0].ID, gaps[2].ID, 1 << 40}})
		got, err := b.st.Gaps(b.ctx, b.set.ID)
		b.ok(err)
		b.same("left", []store.Gap{*gaps[1]}, got)
		next := &store.Gap{SetID: b.set.ID}
		b.commit(store.Commit{Gaps: []*store.Gap{next}})
		if next.ID <= gaps[2].ID {
			t.Error("the id of a dropped gap was given again")
		}
	})
	t.Run("runs", func(t *testing.T) {
		var rs []store.Run
		for i := range 5 {
			rs = append(rs, store.Run{SetID: b.set.ID, Kind: "baseline", Started: 1, Ended: store.NoTime,
				Fetched: int64(i), Deleted: 2,
				Unchanged: 3, Failed: 4, Bytes: 5, Requests: 6, Problem: "p"})
		}
		b.commit(store.Commit{Runs: rs})
		got, err := b.st.Runs(b.ctx, b.set.ID, 2)
		b.ok(err)
		if len(got) != 2 || got[0].Fetched != 4 || got[1].Fetched != 3 {
			t.Fatalf("runs %+v", got)
		}
		got[0].Ended, got[0].Fetched = 7, 100
		b.commit(store.Commit{Runs: got[:1]})
		later, err := b.st.Runs(b.ctx, b.set.ID, 10)
		b.ok(err)
		if len(later) != 5 {
			t.Fatalf("%d runs", len(later))
		}
		b.same("run", got[0], later[0])
	})
	t.Run("trash", func(t *testing.T) {
		var ts []store.Trashed
		for i := range 5 {
			ts = append(ts, store.Trashed{ID: fmt.Sprintf("t%d", i), SourceID: b.src.ID, URI: uri(i % 2), Key: key(i),
				SHA256: [32]byte{byte(i)},
				Length: -1, Reason: "unlisted", At: store.Micros(10 * i)})
		}
		b.commit(store.Commit{Trash: ts})
		page := func(before store.Micros, after string, limit int) []store.Trashed {
			t.Helper()
			got, err := b.st.Trash(b.ctx, b.src.ID, before, after, limit)
			b.ok(err)
			return got
		}
		b.same("all", ts, page(store.NoTime, "", 10))
		b.same("before", ts[:2], page(20, "", 10))
		b.same("page", ts[2:4], page(store.NoTime, "t1", 2))
		newest, err := b.st.TrashedOf(b.ctx, b.src.ID, uri(1))
		b.ok(err)
		b.same("newest", ts[3], newest)
		b.commit(store.Commit{DropTrash: []string{"t1", "t3", "unknown"}})
		b.same("after a dropped one", []store.Trashed{ts[2], ts[4]}, page(store.NoTime, "t1", 10))
		_, err = b.st.TrashedOf(b.ctx, b.src.ID, uri(1))
		b.is(err, store.ErrNotFound)
	})
	t.Run("history", func(t *testing.T) {
		doc, err := b.st.EnsureDocument(b.ctx, b.claim, b.set.ID, "evidence", "k")
		b.ok(err)
		es := []store.Event{
			{SourceID: b.src.ID, URI: "u", At: 9, What: "wanted",
				Version: store.Version{From: 1, Until: 2, Ordinal: 3, Document: doc}, Detail: "d"},
			{SourceID: b.src.ID, URI: "u", At: 3, What: "fetched",
				Version: store.Version{From: store.NoTime, Until: store.NoTime}},
			{SourceID: b.src.ID, URI: "u", At: 5, What: "wanted",
				Version: store.Version{From: 7, Until: 7, Document: -12}},
			{SourceID: b.src.ID, URI: "v", At: 4, What: "deleted"},
		}
		b.commit(store.Commit{Events: es[:1]})
		b.commit(store.Commit{Events: es[1:]})
		got, err := b.st.History(b.ctx, b.src.ID, "u")
		b.ok(err)
		es[0].Document, es[2].Document = "evidence", "notification"
		b.same("history", es[:3], got)
		if none, err := b.st.History(b.ctx, b.src.ID, "w"); err != nil || len(none) != 0 {
			t.Fatalf("history of nothing: %v, %v", none, err)
		}
	})
}

// testTidyDocuments: a Source that names its lists anew at each reading does not fill the state,
// and what is referred to stays.
func testTidyDocuments(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	named := func(name string) int64 {
		id, err := b.st.EnsureDocument(b.ctx, b.claim, b.set.ID, name, "k")
		b.ok(err)
		return id
	}
	ids := map[string]int64{}
	for _, name := range []string{"of a want", "listed", "of a file", "of an event", "of a span", "of nothing"} {
		ids[name] = named(name)
	}
	want := store.Want{State: store.WantPresent, Length: -1,
		Version: store.Version{From: 1, Until: 1, Document: ids["of a want"]}, Pushed: true,
		Listed: &store.Want{State: store.WantPresent, Length: -1,
			Version: store.Version{From: 1, Until: 1, Document: ids["listed"]}}}
	want.SetID = b.set.ID
	have := store.Have{State: store.HavePresent, Version: store.Version{From: 1, Until: 1, Document: ids["of a file"]}}
	b.commit(store.Commit{
		Resources: []store.ResourceChange{{URI: "r", Key: "r", Want: &want, Have: &have}},
		Events: []store.Event{{URI: "r", What: "wanted",
			Version: store.Version{From: 1, Until: 1, Document: ids["of an event"]}}},
		Spans: []store.Span{{SetID: b.set.ID, Kind: store.SpanChangeList, From: 1, Until: 2, First: 1, Last: 1,
			Entries: 1, Document: "of a span"}},
	})
	const many = 25_000
	var c store.Commit
	for i := range many {
		c.Documents = append(c.Documents, store.Document{SetID: b.set.ID, URL: uri(i), Read: store.Micros(i + 1)})
	}
	b.commit(c)
	tidy(b)
	for name, id := range ids {
		_, err := b.st.DocumentByID(b.ctx, id)
		if name == "of nothing" {
			b.is(err, store.ErrNotFound)
		} else if err != nil {
			t.Errorf("the document %s: %v", name, err)
		}
	}
	for i, stays := range map[int]bool{0: false, many - 10_001: false, many - 10_000: true, many - 1: true} {
		if _, err := b.st.Document(b.ctx, b.src.ID, uri(i)); (err == nil) != stays {
			t.Errorf("document %d: %v", i, err)
		}
	}
	b.ok(b.st.Check(b.ctx))
}

func testTidy(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	var c store.Commit
	for i := range 260 {
		c.Gaps = append(c.Gaps, &store.Gap{SetID: b.set.ID, State: store.GapClosed},
			&store.Gap{SetID: b.set.ID, State: store.GapLagging})
		c.Runs = append(c.Runs, store.Run{SetID: b.set.ID, Fetched: int64(i)})
		c.Events = append(c.Events, store.Event{URI: "many", At: store.Micros(i)})
		if i < 90 {
			c.Events = append(c.Events, store.Event{URI: "few"})
		}
	}
	for i := range 10_010 {
		c.Documents = append(c.Documents,
			store.Document{URL: uri(i), ETag: "e", Body: []byte("b"), Read: store.Micros(i)})
	}
	b.commit(c)
	tidy(b)
	gaps, err := b.st.Gaps(b.ctx, b.set.ID)
	b.ok(err)
	if len(gaps) != 360 {
		t.Errorf("%d gaps", len(gaps))
	}
	runs, err := b.st.Runs(b.ctx, b.set.ID, 1000)
	b.ok(err)
	if len(runs) != 200 || runs[0].Fetched != 259 {
		t.Errorf("%d runs, newest %+v", len(runs), runs[0])
	}
	many, err := b.st.History(b.ctx, b.src.ID, "many")
	b.ok(err)
	few, err := b.st.History(b.ctx, b.src.ID, "few")
	b.ok(err)
	if len(many) != 100 || many[99].At != 259 || len(few) != 90 {
		t.Errorf("%d and %d events", len(many), len(few))
	}
	for i, want := range map[int]string{0: "", 9: "", 10: "e", 10_009: "e"} {
		d, err := b.st.Document(b.ctx, b.src.ID, uri(i))
		b.ok(err)
		if d.ETag != want || string(d.Body) != map[string]string{"e": "b"}[want] || d.Read != store.Micros(i) {
			t.Errorf("document %d after tidying: %+v", i, d)
		}
	}
	b.ok(b.st.Check(b.ctx))
}
