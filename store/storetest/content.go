package storetest

import (
	"bytes"
	"errors"
	"testing"

	"resyncd/store"
)

// keeps checks what content is kept for a resource; nil: none.
func (b *bench) keeps(what string, id int64, want []byte) {
	b.Helper()
	for _, st := range []store.Store{b.st, b.reopen()} {
		got, err := st.Content(b.ctx, id)
		switch {
		case want == nil && !errors.Is(err, store.ErrNotFound):
			b.Fatalf("%s: %d bytes are kept (%v)", what, len(got), err)
		case want != nil && (err != nil || !bytes.Equal(want, got)):
			b.Fatalf("%s: %d bytes, want %d (%v)", what, len(got), len(want), err)
		}
	}
}

// entry is resource i with content.
func (b *bench) entry(i int, body []byte) store.ResourceChange {
	w := present(1)
	w.Inline, w.Meta = true, `{"title":"ä"}`
	c := b.change(i, w)
	c.Content = body
	return c
}

func testContents(t *testing.T, fresh Fresh) {
	t.Run("kept until it is dropped", func(t *testing.T) {
		b := newBench(t, fresh)
		large := bytes.Repeat([]byte("0123456789abcdef\x00\xff"), (4<<20)/18+1)
		rs := []store.ResourceChange{b.entry(0, large), b.entry(1, []byte("one")), b.entry(2, []byte{}),
			b.entry(3, nil)}
		for i := 4; i < 30; i++ { // long enough for every way of inserting
			rs = append(rs, b.entry(i, []byte(uri(i))))
		}
		id := b.put(rs...)
		b.keeps("large", id[0], large)
		b.keeps("small", id[1], []byte("one"))
		b.keeps("empty", id[2], []byte{})
		b.keeps("none", id[3], nil)
		b.keeps("the last", id[29], []byte(uri(29)))
		b.keeps("of an unknown resource", id[29]+1000, nil)

		b.put(store.ResourceChange{ID: id[1], Have: fullHave(3)}, b.change(0, present(2)))
		b.keeps("after other changes", id[1], []byte("one"))
		b.keeps("after a want", id[0], large)
		b.put(b.entry(1, []byte("another")), store.ResourceChange{ID: id[0], DropContent: true},
			store.ResourceChange{ID: id[3], DropContent: true})
		b.keeps("replaced by its URI", id[1], []byte("another"))
		b.keeps("dropped", id[0], nil)
		b.keeps("nothing dropped", id[3], nil)
		b.keeps("a neighbour", id[29], []byte(uri(29)))

		// In order, and content beside a drop is newer than what is dropped.
		b.put(store.ResourceChange{ID: id[4], Content: []byte("x")}, store.ResourceChange{ID: id[4], DropContent: true},
			store.ResourceChange{ID: id[5], DropContent: true}, store.ResourceChange{ID: id[5], Content: []byte("y")},
			store.ResourceChange{ID: id[6], Content: []byte("z"), DropContent: true})
		b.keeps("dropped last", id[4], nil)
		b.keeps("kept last", id[5], []byte("y"))
		b.keeps("both", id[6], []byte("z"))
	})
	t.Run("all or nothing", func(t *testing.T) {
		b := newBench(t, fresh)
		id := b.put(b.entry(0, []byte("old")), b.entry(1, []byte("stays")))
		bad := store.Commit{
			Claim: b.claim, Edits: []store.Edit{edit(b, "s", 1, 1)},
			Resources: []store.ResourceChange{b.entry(0, []byte("new")), b.entry(9, []byte("of a new one")),
				{ID: id[1], DropContent: true}},
			Gaps: []*store.Gap{{ID: 1 << 40, SetID: b.set.ID}},
		}
		b.is(b.st.Commit(b.ctx, &bad), store.ErrNotFound)
		b.keeps("replaced", id[0], []byte("old"))
		b.keeps("dropped", id[1], []byte("stays"))
		b.keeps("inserted", id[1]+1, nil)
		b.edits("s")
		bad.Gaps = nil
		b.ok(b.st.Commit(b.ctx, &bad)) // and it can be repeated
		b.keeps("inserted", bad.Resources[1].ID, []byte("of a new one"))
		b.edits("s", bad.Edits...)
	})
	t.Run("goes with its resource", func(t *testing.T) {
		b := newBench(t, fresh)
		gone, stays := b.entry(0, []byte("gone")), b.entry(1, []byte("stays"))
		gone.Want.State, stays.Want.State = store.WantAbsent, store.WantAbsent
		two := absent(1)
		two.SetID = b.ensureSet(b.claim, "two").ID
		id := b.put(gone, stays, b.entry(2, []byte("wanted")))
		b.put(store.ResourceChange{ID: id[1], Want: &two})
		b.commit(store.Commit{DropTombstones: &store.DropTombstones{SetID: b.set.ID, At: 10}})
		_, err := b.st.Resource(b.ctx, b.src.ID, uri(0))
		b.is(err, store.ErrNotFound)
		b.keeps("of a dropped resource", id[0], nil)
		b.keeps("of one that another set knows", id[1], []byte("stays"))
		b.keeps("of a wanted one", id[2], []byte("wanted"))
	})
	t.Run("only the claimed source", func(t *testing.T) {
		b := newBench(t, fresh)
		mine := b.put(b.entry(0, []byte("mine")))[0]
		_, claim, _ := b.source("two")
		for name, r := range map[string]store.ResourceChange{
			"content": {ID: mine, Content: []byte("theirs")}, "drop": {ID: mine, DropContent: true},
			"of no source": {ID: 5, Content: []byte("x")}, "of an unknown resource": {ID: claim.SourceID<<40 + 77,
				Content: []byte("x")},
		} {
			if err := b.st.Commit(b.ctx,
				&store.Commit{Claim: claim, Resources: []store.ResourceChange{r}}); err == nil {
				t.Errorf("%s was taken", name)
			}
		}
		b.keeps("mine", mine, []byte("mine"))
		b.is(b.st.Commit(b.ctx, &store.Commit{Claim: b.claim,
			Resources: []store.ResourceChange{{ID: mine + 1000, Content: []byte("x")}}}), store.ErrNotFound)
		b.keeps("of an unknown one", mine+1000, nil)
	})
}
