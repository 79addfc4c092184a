package storetest

import (
	"testing"

	"resyncd/store"
)

// testUniform: rows that differ in one column read back as they were written, whichever column that
// is.
func testUniform(t *testing.T, fresh Fresh) {
	const n, odd = 60, 27
	alike := func(b *bench) []store.ResourceChange {
		changes := make([]store.ResourceChange, n)
		for i := range changes {
			w := present(7)
			w.Generation = 3
			changes[i] = b.change(i, w)
			changes[i].Work = &store.Work{Action: store.ActionFetch, Due: 11}
		}
		return changes
	}
	check := func(b *bench, changes []store.ResourceChange) {
		b.Helper()
		for i, c := range changes {
			want := &store.Resource{ID: c.ID, SourceID: b.src.ID, URI: uri(i), Key: key(i), Have: *orZero(c.Have),
				Work: *orZero(c.Work), Wants: []store.Want{*c.Want}}
			b.same(want.URI, want, b.resource(want.URI))
		}
	}
	for name, differ := range map[string]func(b *bench, c *store.ResourceChange){
		"in nothing":        func(*bench, *store.ResourceChange) {},
		"have":              func(_ *bench, c *store.ResourceChange) { c.Have = fullHave(9) },
		"no work":           func(_ *bench, c *store.ResourceChange) { c.Work = nil },
		"action":            func(_ *bench, c *store.ResourceChange) { c.Work.Action = store.ActionNone },
		"due":               func(_ *bench, c *store.ResourceChange) { c.Work.Due = store.NoTime },
		"failed before":     func(_ *bench, c *store.ResourceChange) { c.Work.Attempts, c.Work.Reason = 2, "told so" },
		"folded name":       func(_ *bench, c *store.ResourceChange) { c.Name = "A.EXAMPLE/R/27" },
		"set":               func(b *bench, c *store.ResourceChange) { c.Want.SetID = b.ensureSet(b.claim, "another").ID },
		"state":             func(_ *bench, c *store.ResourceChange) { c.Want.State = store.WantAbsent },
		"from":              func(_ *bench, c *store.ResourceChange) { c.Want.Version.From = 6 },
		"until":             func(_ *bench, c *store.ResourceChange) { c.Want.Version.Until = store.NoTime },
		"ordinal, document": func(_ *bench, c *store.ResourceChange) { c.Want.Version.Ordinal, c.Want.Version.Document = 4, 5 },
		"generation":        func(_ *bench, c *store.ResourceChange) { c.Want.Generation = 0 },
		"held":              func(_ *bench, c *store.ResourceChange) { c.Want.Held = true },
		"refused":           func(_ *bench, c *store.ResourceChange) { c.Want.Refused = "out of scope" },
		"pushed":            func(_ *bench, c *store.ResourceChange) { c.Want.Pushed = true },
	} {
		t.Run("new but for "+name, func(t *testing.T) {
			b := newBench(t, fresh)
			changes := alike(b)
			differ(b, &changes[odd])
			check(b, b.commit(store.Commit{Resources: changes}).Resources)
		})
	}
	for name, differ := range map[string]func(c *store.ResourceChange){
		"in nothing": func(*store.ResourceChange) {},
		"state":      func(c *store.ResourceChange) { c.Have.State = store.HaveKept },
		"no file":    func(c *store.ResourceChange) { *c.Have = store.Have{} },
		"action":     func(c *store.ResourceChange) { c.Work.Action = store.ActionRemove },
		"due":        func(c *store.ResourceChange) { c.Work.Due = 5 },
		"a failure":  func(c *store.ResourceChange) { c.Work.Class = "transient" },
	} {
		t.Run("done but for "+name, func(t *testing.T) {
			b := newBench(t, fresh)
			changes := b.commit(store.Commit{Resources: alike(b)}).Resources
			done := make([]store.ResourceChange, n)
			for i, c := range changes {
				done[i] = store.ResourceChange{ID: c.ID, Have: fullHave(int64(i)), Work: &store.Work{}}
			}
			differ(&done[odd])
			b.commit(store.Commit{Resources: done})
			for i := range changes {
				changes[i].Have, changes[i].Work = done[i].Have, done[i].Work
			}
			check(b, changes)
		})
	}
}

// orZero is a value, or the zero one for nil.
func orZero[T any](v *T) *T {
	if v == nil {
		v = new(T)
	}
	return v
}
