package storetest

import (
	"testing"

	"resyncd/store"
)

// testBulk: a commit of many rows means the same as row by row, whatever the order in which a store
// writes them.
func testBulk(t *testing.T, fresh Fresh) {
	const n = 59 // with one more, a multiple of ten and twenty
	fill := func(b *bench) []int64 {
		changes := make([]store.ResourceChange, n)
		for i := range changes {
			changes[i] = b.change(n-1-i, present(1)) // against the order of the URIs
		}
		return b.put(changes...)
	}
	done := func(id, length int64) store.ResourceChange {
		return store.ResourceChange{ID: id, Have: fullHave(length), Work: &store.Work{Due: store.Micros(length)}}
	}
	lengths := func(b *bench) map[int64]int64 {
		b.Helper()
		rs, err := b.st.Scan(b.ctx, store.ScanQuery{SourceID: b.src.ID, Limit: 2 * n})
		b.ok(err)
		out := map[int64]int64{}
		for _, r := range rs {
			out[r.ID] = r.Have.Length
		}
		return out
	}
	t.Run("ids follow the commit", func(t *testing.T) {
		b := newBench(t, fresh)
		ids := fill(b)
		for i, id := range ids {
			if i > 0 && id <= ids[i-1] {
				t.Fatalf("change %d has id %d behind %d", i, id, ids[i-1])
			}
			if r := b.resource(uri(n - 1 - i)); r.ID != id || r.Key != key(n-1-i) || len(r.Wants) != 1 {
				t.Fatalf("id %d is of %+v", id, r)
			}
		}
	})
	t.Run("new and known ones mixed", func(t *testing.T) {
		b := newBench(t, fresh)
		first := b.put(b.change(5, present(1)), b.change(3, present(1)))
		changes := make([]store.ResourceChange, 0, 2*n)
		for i := range n {
			changes = append(changes, b.change(n-1-i, present(2)))
		}
		for i := range n { // again, and by their URI only
			changes = append(changes, store.ResourceChange{URI: uri(i), Have: fullHave(int64(i)), Work: &store.Work{}})
		}
		ids := b.put(changes...)
		for i := range n {
			r := b.resource(uri(i))
			if r.ID != ids[n+i] || r.ID != ids[n-1-i] || r.Have.Length != int64(i) || r.Wants[0].Version.From != 2 {
				t.Fatalf("%d: %+v, ids %d and %d", i, r, ids[n-1-i], ids[n+i])
			}
		}
		if ids[n+5] != first[0] || ids[n+3] != first[1] {
			t.Fatal("a known one got another id")
		}
	})
	t.Run("a name taken in the middle", func(t *testing.T) {
		b := newBench(t, fresh)
		changes := make([]store.ResourceChange, n)
		for i := range changes {
			changes[i] = b.change(i, present(1))
		}
		changes[n-2].Key = key(4)
		b.is(b.st.Commit(b.ctx, &store.Commit{Claim: b.claim, Resources: changes}), store.ErrNameTaken)
		if found := lengths(b); len(found) != 0 {
			t.Fatalf("%d rows of a failed commit stayed", len(found))
		}
		fill(b)
	})
	t.Run("updates in any order", func(t *testing.T) {
		b := newBench(t, fresh)
		ids := fill(b)
		var changes []store.ResourceChange
		want := map[int64]int64{}
		for i := range n {
			id := ids[i*23%n]
			changes = append(changes, done(id, int64(i+1)))
			want[id] = int64(i + 1)
		}
		b.put(changes...)
		b.same("lengths", want, lengths(b))
		if r := b.resource(uri(0)); r.Work.Due != store.Micros(r.Have.Length) {
			t.Errorf("work of another row: %+v", r)
		}
	})
	t.Run("one row twice", func(t *testing.T) {
		b := newBench(t, fresh)
		ids := fill(b)
		var changes []store.ResourceChange
		want := map[int64]int64{}
		for _, length := range []int64{1, 2} { // the later change counts
			for _, id := range ids {
				changes = append(changes, done(id, length))
				want[id] = 2
			}
		}
		w := present(9)
		w.SetID = b.set.ID
		changes = append(changes, done(ids[0], 3), store.ResourceChange{ID: ids[0], Have: fullHave(4), Want: &w},
			done(ids[0], 5),
			done(ids[1], 6), store.ResourceChange{ID: ids[1], Have: fullHave(7)}) // of another kind
		want[ids[0]], want[ids[1]] = 5, 7
		b.put(changes...)
		b.same("lengths", want, lengths(b))
	})
	for name, stranger := range map[string]func(b *bench, ids []int64) int64{
		"unknown":           func(_ *bench, ids []int64) int64 { return ids[n-1] + 1000 },
		"of another source": func(b *bench, _ []int64) int64 { return b.otherResource() },
	} {
		t.Run("a row "+name, func(t *testing.T) {
			b := newBench(t, fresh)
			ids := fill(b)
			var changes []store.ResourceChange
			for i, id := range ids {
				if i == 20 {
					changes = append(changes, done(stranger(b, ids), 7))
				}
				changes = append(changes, done(id, 7))
			}
			before := lengths(b)
			b.is(b.st.Commit(b.ctx, &store.Commit{Claim: b.claim, Resources: changes}), store.ErrNotFound)
			b.same("rows after a failed commit", before, lengths(b))
		})
	}
}

// otherResource is a resource of another Source.
func (b *bench) otherResource() int64 {
	b.Helper()
	_, claim, _ := b.source("other")
	set := b.ensureSet(claim, "list")
	w := present(1)
	w.SetID = set.ID
	c := store.Commit{Claim: claim, Resources: []store.ResourceChange{{URI: "u", Key: "k", Want: &w}}}
	b.ok(b.st.Commit(b.ctx, &c))
	return c.Resources[0].ID
}
