package storetest

import (
	"context"
	"errors"
	"testing"

	"resyncd/store"
)

func testSources(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	one, err := b.st.Source(b.ctx, "one")
	b.ok(err)
	if one.ID != b.src.ID || one.URL != "https://one.example/" || one.Paused || one.Unclean ||
		one.Epoch != b.claim.Epoch ||
		one.Holder != "tester" || !one.Created.Known() {
		t.Fatalf("source %+v", one)
	}
	_, err = b.st.Source(b.ctx, "none")
	b.is(err, store.ErrNotFound)

	moved, err := b.st.EnsureSource(b.ctx, "one", "https://new.example/")
	b.ok(err)
	one.URL = "https://new.example/"
	b.same("source with its new URL", one, moved)

	root, unclean, policy := "root", true, "policy"
	b.commit(store.Commit{Source: &store.SourceChange{RootID: &root, Unclean: &unclean, Policy: &policy}})
	unclean = false
	b.commit(store.Commit{Source: &store.SourceChange{Unclean: &unclean}})
	one.RootID, one.Policy = root, policy
	got, err := b.st.Source(b.ctx, "one")
	b.ok(err)
	b.same("source after changes", one, got)

	b.ok(b.st.SetPaused(b.ctx, one.ID, true))
	if got, _ = b.st.Source(b.ctx, "one"); !got.Paused {
		t.Fatal("not paused")
	}
	b.ok(b.st.SetPaused(b.ctx, one.ID, false))
	if got, _ = b.st.Source(b.ctx, "one"); got.Paused {
		t.Fatal("still paused")
	}
	b.is(b.st.SetPaused(b.ctx, one.ID+1000, true), store.ErrNotFound)

	_, err = b.st.EnsureSource(b.ctx, "another", "u")
	b.ok(err)
	all, err := b.st.Sources(b.ctx)
	b.ok(err)
	if len(all) != 2 || all[0].Name != "another" || all[1].Name != "one" {
		t.Fatalf("sources %+v", all)
	}
}

func testSets(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	b.same("new set", store.Set{ID: b.set.ID, SourceID: b.src.ID, CapabilityList: b.set.CapabilityList,
		SetState: store.SetState{Floor: store.NoTime, LastPull: store.NoTime}}, b.set)
	b.same("same set", b.set, b.ensureSet(b.claim, b.set.CapabilityList))
	two := b.ensureSet(b.claim, "list two")

	st := store.SetState{
		Floor: 10, Estimated: true, Flawed: true, Generation: 3, Baselines: 2,
		Proven: []store.Interval{{From: 10, Until: 20}, {From: 25, Until: 25}},
		Joint:  []store.Interval{{From: 10, Until: 30}}, Gone: 1, InStep: true, Problem: "none", Cause: "http-404", LastPull: 99,
	}
	b.commit(store.Commit{Sets: []store.SetChange{{ID: b.set.ID, State: &st, Resources: 5, Bytes: 100}}})
	b.commit(store.Commit{Sets: []store.SetChange{{ID: b.set.ID, Resources: -2, Bytes: 11}}})
	sets, err := b.st.Sets(b.ctx, b.src.ID)
	b.ok(err)
	want := store.Set{
		ID: b.set.ID, SourceID: b.src.ID, CapabilityList: b.set.CapabilityList, SetState: st,
		Resources: 3, Bytes: 111,
	}
	b.same("sets, oldest first", []store.Set{want, two}, sets)

	// A counter that would become negative is counted anew.
	b.put(store.ResourceChange{URI: uri(1), Key: key(1), Have: fullHave(40),
		Want: &store.Want{SetID: b.set.ID, State: store.WantPresent}})
	b.commit(store.Commit{Sets: []store.SetChange{{ID: b.set.ID, Resources: -1000}}})
	sets, err = b.st.Sets(b.ctx, b.src.ID)
	b.ok(err)
	if sets[0].Resources != 1 || sets[0].Bytes != 40 {
		t.Fatalf("after a wrong delta: %d resources, %d bytes", sets[0].Resources, sets[0].Bytes)
	}
	if none, err := b.st.Sets(b.ctx, b.src.ID+1000); err != nil || len(none) != 0 {
		t.Fatalf("sets of nobody: %v, %v", none, err)
	}
	if c, err := b.st.Counts(b.ctx, b.set.ID+1000); err != nil || c != (store.Counts{}) {
		t.Fatalf("counts of no set: %v, %v", c, err)
	}
	if c, err := b.st.Withheld(b.ctx, b.set.ID+1000); err != nil || c != (store.Counts{}) {
		t.Fatalf("withheld of no set: %v, %v", c, err)
	}
}

func testClaims(t *testing.T, fresh Fresh) {
	t.Run("one at a time", func(t *testing.T) {
		b := newBench(t, fresh)
		for name, st := range map[string]store.Store{"same store": b.st, "other store": b.reopen()} {
			_, _, err := st.Claim(b.ctx, b.src.ID, "rival")
			held, ok := errors.AsType[*store.HeldError](err)
			if !ok || held.Source != "one" || held.Holder != "tester" {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if two, _, free := b.source("two"); two.ID == b.src.ID || free() != nil {
			t.Fatal("another source could not be claimed")
		}
		_, _, err := b.st.Claim(b.ctx, b.src.ID+1000, "x")
		b.is(err, store.ErrNotFound)
	})
	t.Run("release", func(t *testing.T) {
		b := newBench(t, fresh)
		b.ok(b.free())
		b.ok(b.free())
		b.is(b.st.Commit(b.ctx, &store.Commit{Claim: b.claim}), store.ErrFenced)
		other := b.reopen()
		next, free, err := other.Claim(b.ctx, b.src.ID, "next")
		b.ok(err)
		if next.Epoch <= b.claim.Epoch {
			t.Fatalf("epoch %d after %d", next.Epoch, b.claim.Epoch)
		}
		b.ok(b.free()) // again, and no longer ours to release
		_, _, err = b.st.Claim(b.ctx, b.src.ID, "x")
		if held, ok := errors.AsType[*store.HeldError](err); !ok || held.Holder != "next" {
			t.Fatalf("held by next: %v", err)
		}
		b.ok(other.Commit(b.ctx, &store.Commit{Claim: next}))
		fenced(b)
		b.ok(free())
	})
	t.Run("close releases", func(t *testing.T) {
		b := newBench(t, fresh)
		other := b.open()
		b.ok(b.free())
		_, _, err := other.Claim(b.ctx, b.src.ID, "gone")
		b.ok(err)
		b.ok(other.Close())
		_, free, err := b.st.Claim(b.ctx, b.src.ID, "next")
		b.ok(err)
		b.ok(free())
	})
}

// fenced: every way of writing under the bench's lost claim fails and changes nothing.
func fenced(b *bench) {
	b.Helper()
	b.is(b.st.Commit(b.ctx, &store.Commit{Claim: b.claim, Resources: []store.ResourceChange{b.change(1, present(1))}}),
		store.ErrFenced)
	_, err := b.st.EnsureSet(b.ctx, b.claim, "another list")
	b.is(err, store.ErrFenced)
	_, err = b.st.EnsureSet(b.ctx, b.claim, b.set.CapabilityList)
	b.is(err, store.ErrFenced)
	_, err = b.st.EnsureDocument(b.ctx, b.claim, b.set.ID, "https://a.example/doc", "changelist")
	b.is(err, store.ErrFenced)
	b.is(b.st.ForgetSource(b.ctx, b.claim), store.ErrFenced)
	_, err = b.st.Resource(b.ctx, b.src.ID, uri(1))
	b.is(err, store.ErrNotFound)
	sets, err := b.st.Sets(b.ctx, b.src.ID)
	if err != nil || len(sets) != 1 {
		b.Fatalf("sets after fenced writes: %v, %v", sets, err)
	}
}

func testForget(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	doc, err := b.st.EnsureDocument(b.ctx, b.claim, b.set.ID, "d", "k")
	b.ok(err)
	var rs []store.ResourceChange
	for i := range 50 {
		rs = append(rs, b.entry(i, []byte(uri(i))))
	}
	gone := b.commit(store.Commit{
		Resources: rs, Edits: []store.Edit{edit(b, uri(1), 1, 1), edit(b, uri(2), 1, 1)},
		Gaps: []*store.Gap{{SetID: b.set.ID, State: store.GapFound}}, Runs: []store.Run{{SetID: b.set.ID}},
		Trash: []store.Trashed{{ID: "t", URI: uri(1)}}, Events: []store.Event{{URI: uri(1), What: "wanted"}},
		Spans: []store.Span{{SetID: b.set.ID, Kind: store.SpanFeed, From: 1, Until: 2}},
	})
	b.subscribe("t")
	_, twoClaim, _ := b.source("two")
	two := b.ensureSet(twoClaim, b.set.CapabilityList)
	other := store.Want{SetID: two.ID, State: store.WantPresent}
	b.ok(b.st.Commit(b.ctx, &store.Commit{Claim: twoClaim, Edits: []store.Edit{{URI: uri(1)}},
		Spans:     []store.Span{{SetID: two.ID, Kind: store.SpanFeed, From: 1, Until: 2}},
		Resources: []store.ResourceChange{{URI: uri(1), Key: key(1), Want: &other, Content: []byte("theirs")}}}))
	b.ok(b.st.AddPoints(b.ctx, []store.Point{{SourceID: b.src.ID, At: 1, Changes: 1},
		{SourceID: twoClaim.SourceID, At: 1, Changes: 1},
		{SourceID: b.src.ID, At: 5 * day, Changes: 1}}))

	b.ok(b.st.ForgetSource(b.ctx, b.claim))
	b.ok(b.free())
	_, err = b.st.Source(b.ctx, "one")
	b.is(err, store.ErrNotFound)
	_, err = b.st.DocumentByID(b.ctx, doc)
	b.is(err, store.ErrNotFound)
	_, _, err = b.st.Claim(b.ctx, b.src.ID, "x")
	b.is(err, store.ErrNotFound)
	b.is(b.st.Commit(b.ctx, &store.Commit{Claim: b.claim}), store.ErrFenced)
	empty(b, b.src.ID, b.set.ID)
	for i := range gone.Resources {
		_, err := b.st.Content(b.ctx, gone.Resources[i].ID)
		b.is(err, store.ErrNotFound)
	}

	anew, claim, _ := b.source("one")
	if anew.ID == b.src.ID {
		t.Fatal("the id of a forgotten source was given again")
	}
	empty(b, anew.ID, b.ensureSet(claim, b.set.CapabilityList).ID)
	theirs, err := b.st.Resource(b.ctx, twoClaim.SourceID, uri(1))
	if err != nil {
		t.Fatalf("the other source lost a resource: %v", err)
	}
	b.keeps("of the other source", theirs.ID, []byte("theirs"))
	if es, err := b.st.Edits(b.ctx, twoClaim.SourceID, uri(1)); err != nil || len(es) != 1 {
		t.Fatalf("edits of the other source: %v, %v", es, err)
	}
	if points := b.points(0, store.Minute, 0, everything); len(points) != 1 ||
		points[0].SourceID != twoClaim.SourceID || len(b.spans(two.ID)) != 1 {
		t.Fatalf("the chronicle of the other source: %v, %v", points, b.spans(two.ID))
	}
	stones, err := b.st.Subscriptions(b.ctx, b.src.ID, true)
	if err != nil || len(stones) != 1 {
		t.Fatalf("tombstones %v, %v", stones, err)
	}
	_, err = b.st.ChangeSubscription(b.ctx, stones[0].ID,
		func(s *store.Subscription) error { s.State = store.SubOff; return nil })
	b.ok(err)
	empty(b, b.src.ID, b.set.ID)

	// An interruption leaves nothing that is seen, and Tidy drops the rest.
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	_ = b.st.ForgetSource(ctx, claim)
	_, err = b.st.Source(b.ctx, "one")
	b.is(err, store.ErrNotFound)
	for more := true; more; {
		more, err = b.st.Tidy(b.ctx)
		b.ok(err)
	}
}

// empty checks that nothing is known of a Source.
func empty(b *bench, sourceID, setID int64) {
	b.Helper()
	rs, err := b.st.Scan(b.ctx, store.ScanQuery{SourceID: sourceID, Limit: 10})
	b.ok(err)
	names, err := b.st.Names(b.ctx, sourceID, []string{key(1), "a.example"})
	b.ok(err)
	gaps, err := b.st.Gaps(b.ctx, setID)
	b.ok(err)
	runs, err := b.st.Runs(b.ctx, setID, 10)
	b.ok(err)
	trash, err := b.st.Trash(b.ctx, sourceID, store.NoTime, "", 10)
	b.ok(err)
	events, err := b.st.History(b.ctx, sourceID, uri(1))
	b.ok(err)
	edits, err := b.st.Edits(b.ctx, sourceID, uri(1))
	b.ok(err)
	counts, err := b.st.Counts(b.ctx, setID)
	b.ok(err)
	for _, w := range []store.Width{store.Minute, store.Hour, store.Day} {
		if points := b.points(sourceID, w, store.NoTime, everything); len(points) > 0 {
			b.Fatalf("left behind: %+v", points)
		}
	}
	if spans, steps := b.spans(setID), b.steps(sourceID); len(spans)+len(steps) > 0 {
		b.Fatalf("left behind: %+v %+v", spans, steps)
	}
	if len(edits)+len(rs)+len(gaps)+len(runs)+len(trash)+len(events)+len(unlisted(b, setID, 0, 1<<60)) > 0 ||
		counts != (store.Counts{}) ||
		names[0] != store.NameFree || names[1] != store.NameFree {
		b.Fatalf("left behind: %v %v %v %v %v %v %v %v", edits, rs, gaps, runs, trash, events, counts, names)
	}
}
