package storetest

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"resyncd/store"
)

// edit is one with every field set; sum makes it distinct.
func edit(b *bench, subject string, at store.Micros, sum byte) store.Edit {
	return store.Edit{SourceID: b.src.ID, URI: subject, Digest: [32]byte{sum, 31: 9}, Observed: at, Author: "ä",
		Body:     fmt.Appendf(nil, "%d\x00", sum),
		Received: 5, Evidence: "https://a.example/feed"}
}

// edits checks the edits of one record, read both ways and through another opening too.
func (b *bench) edits(subject string, want ...store.Edit) {
	b.Helper()
	for _, st := range []store.Store{b.st, b.reopen()} {
		one, err := st.Edits(b.ctx, b.src.ID, subject)
		b.ok(err)
		many, err := st.EditsOf(b.ctx, b.src.ID, []string{subject})
		b.ok(err)
		for _, got := range [][]store.Edit{one, many[0]} {
			if diff := sameEdits(want, got); diff != "" {
				b.Fatalf("edits of %q (-want +got):\n%s", subject, diff)
			}
		}
	}
}

// sameEdits compares; no edits and no body are the same however they are written.
func sameEdits(want, got []store.Edit) string {
	plain := func(es []store.Edit) []store.Edit {
		out := append([]store.Edit{}, es...)
		for i := range out {
			out[i].Body = append([]byte{}, out[i].Body...)
		}
		return out
	}
	if want, got = plain(want), plain(got); reflect.DeepEqual(want, got) { // Diff takes its time over a large body
		return ""
	}
	return gocmp.Diff(want, got)
}

func testEdits(t *testing.T, fresh Fresh) {
	t.Run("order and repetition", func(t *testing.T) {
		b := newBench(t, fresh)
		first, late, same, timeless := edit(b, "s", 10, 3), edit(b, "s", 20, 1), edit(b, "s", 10, 4),
			edit(b, "s", store.NoTime, 9)
		ancient := edit(b, "s", -1<<60, 8)
		bare := store.Edit{SourceID: b.src.ID, URI: "bare", Observed: store.NoTime, Received: store.NoTime}
		b.edits("s")
		b.commit(store.Commit{Edits: []store.Edit{late, same, timeless}})
		ours := bare
		ours.SourceID = 0 // that of the claim
		b.commit(store.Commit{Edits: []store.Edit{first, edit(b, "another", 1, 3), late, ours, ancient, late}})
		b.edits("s", timeless, ancient, first, same, late)
		b.edits("bare", bare)
		b.edits("another", edit(b, "another", 1, 3))
		b.edits("unknown")
		b.edits("")
		b.edits("S")

		again := late // what came first is kept
		again.Observed, again.Author, again.Body, again.Received, again.Evidence = 1, "x", []byte("y"), 99, "push"
		b.commit(store.Commit{Edits: []store.Edit{again}})
		b.edits("s", timeless, ancient, first, same, late)
		large := edit(b, "large", 1, 1)
		large.Body = bytes.Repeat([]byte("x\x00"), 2<<20)
		b.commit(store.Commit{Edits: []store.Edit{large}})
		b.edits("large", large)
	})
	t.Run("of each source", func(t *testing.T) {
		b := newBench(t, fresh)
		mine := edit(b, "s", 1, 1)
		b.commit(store.Commit{Edits: []store.Edit{mine}})
		two, claim, _ := b.source("two")
		for _, es := range [][]store.Edit{{mine}, {{SourceID: two.ID, URI: "u"}, mine}} {
			if err := b.st.Commit(b.ctx, &store.Commit{Claim: claim, Edits: es}); err == nil {
				t.Error("an edit of another source was taken")
			}
		}
		theirs := mine
		theirs.SourceID, theirs.Author = two.ID, "theirs"
		b.ok(b.st.Commit(b.ctx, &store.Commit{Claim: claim, Edits: []store.Edit{theirs}}))
		b.edits("s", mine)
		got, err := b.st.Edits(b.ctx, two.ID, "s")
		b.ok(err)
		b.same("of the other", []store.Edit{theirs}, got)
		if got, err = b.st.Edits(b.ctx, two.ID, "u"); err != nil || len(got) != 0 {
			t.Fatalf("of a failed commit: %v, %v", got, err)
		}
	})
	t.Run("of many records", func(t *testing.T) { testEditsOf(newBench(t, fresh)) })
	t.Run("whatever order", func(t *testing.T) { testEditModel(t, fresh) })
}

func testEditsOf(b *bench) {
	const records = 430
	rng := rand.New(rand.NewPCG(3, 4))
	var all []store.Edit
	want := map[string][]store.Edit{}
	for i := range records {
		for k := range i % 4 {
			e := edit(b, uri(i), store.Micros(k), byte(k))
			all, want[e.URI] = append(all, e), append(want[e.URI], e)
		}
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	b.commit(store.Commit{Edits: all})
	for _, n := range []int{0, 1, 2, 99, 100, 101, 700} {
		uris := make([]string, n)
		for i := range uris { // unknown and repeated ones too
			if uris[i] = uri(rng.IntN(records + 50)); i%7 == 6 {
				uris[i] = uris[i-3]
			}
		}
		got, err := b.st.EditsOf(b.ctx, b.src.ID, uris)
		b.ok(err)
		if len(got) != n {
			b.Fatalf("%d answers for %d", len(got), n)
		}
		for i, u := range uris {
			if diff := sameEdits(want[u], got[i]); diff != "" {
				b.Fatalf("%s among %d (-want +got):\n%s", u, n, diff)
			}
		}
	}
}

// testEditModel: whatever order and repetition they come in, the edits kept of a record are the same.
func testEditModel(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++ // each time a Source of its own
		b.src, b.claim, _ = b.source(fmt.Sprint("edits ", n))
		model := map[string][]store.Edit{}
		for range rapid.IntRange(1, 4).Draw(rt, "commits") {
			c := store.Commit{Claim: b.claim}
			for range rapid.IntRange(0, 25).Draw(rt, "edits") {
				e := edit(b, rapid.SampledFrom([]string{"a", "b", "B", "a\x00", ""}).Draw(rt, "subject"),
					drawMicros(rt, "observed"), rapid.ByteRange(0, 9).Draw(rt, "sum"))
				c.Edits = append(c.Edits, e)
				if !slices.ContainsFunc(model[e.URI], func(k store.Edit) bool { return k.Digest == e.Digest }) {
					model[e.URI] = append(model[e.URI], e)
				}
			}
			if err := b.st.Commit(b.ctx, &c); err != nil {
				rt.Fatal(err)
			}
		}
		uris := []string{"", "a\x00", "none", "a", "b", "a", "B"}
		got, err := b.st.EditsOf(b.ctx, b.src.ID, uris)
		if err != nil {
			rt.Fatal(err)
		}
		for i, u := range uris {
			want := slices.Clone(model[u])
			slices.SortFunc(want, func(a, b store.Edit) int {
				return cmp.Or(cmp.Compare(a.Observed, b.Observed), bytes.Compare(a.Digest[:], b.Digest[:]))
			})
			if diff := sameEdits(want, got[i]); diff != "" {
				rt.Fatalf("%q (-want +got):\n%s", u, diff)
			}
		}
	})
}
