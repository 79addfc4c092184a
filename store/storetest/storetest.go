// Package storetest knows what every store.Store must do, sentence by sentence of its contract. It
// refuses to know which database is below.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/store"
)

// Fresh makes a new, empty database for one test and returns how to open it; a test may open it
// more than once. The suite closes what it opens.
type Fresh func(t testing.TB) (open func() store.Store)

// Run runs the suite.
func Run(t *testing.T, fresh Fresh) {
	for _, group := range []struct {
		name string
		run  func(*testing.T, Fresh)
	}{
		{"Sources", testSources}, {"Sets", testSets}, {"Claims", testClaims}, {"Commit", testCommit},
		{"Bulk", testBulk}, {"Resources", testResources}, {"Lookup", testLookup}, {"Names", testNames},
		{"Scan", testScan}, {"Sample", testSample}, {"Due", testDue}, {"Unlisted", testUnlisted},
		{"Baseline", testBaseline}, {"Contents", testContents}, {"Edits", testEdits},
		{"Documents", testDocuments}, {"Ledger", testLedger}, {"Subscriptions", testSubscriptions},
		{"Inbox", testInbox}, {"Inbox model", testInboxModel}, {"Requests", testRequests},
		{"Pushed", testPushed}, {"Points", testPoints}, {"Spans", testSpans},
		{"Subscription events", testSubscriptionEvents}, {"Find", testFind},
		{"Chronicle model", testChronicleModel}, {"Forget", testForget}, {"Tidy", testTidy},
		{"Tidy documents", testTidyDocuments}, {"Tidy push", testTidyPush},
		{"Tidy chronicle", testTidyChronicle}, {"Concurrency", testConcurrency}, {"Model", testModel},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			group.run(t, fresh)
		})
	}
}

// bench is a database with a claimed Source and a set.
type bench struct {
	testing.TB
	ctx   context.Context
	st    store.Store
	open  func() store.Store
	src   store.Source
	claim store.Claim
	free  func() error
	set   store.Set
}

func newBench(t testing.TB, fresh Fresh) *bench {
	t.Helper()
	b := &bench{TB: t, ctx: t.Context(), open: fresh(t)}
	b.st = b.reopen()
	b.src, b.claim, b.free = b.source("one")
	b.set = b.ensureSet(b.claim, "https://a.example/capabilitylist.xml")
	return b
}

// reopen opens the database once more.
func (b *bench) reopen() store.Store {
	b.Helper()
	st := b.open()
	b.Cleanup(func() {
		if err := st.Close(); err != nil {
			b.Errorf("close: %v", err)
		}
	})
	return st
}

func (b *bench) source(name string) (store.Source, store.Claim, func() error) {
	b.Helper()
	src, err := b.st.EnsureSource(b.ctx, name, "https://"+name+".example/")
	b.ok(err)
	claim, free, err := b.st.Claim(b.ctx, src.ID, "tester")
	b.ok(err)
	return src, claim, free
}

func (b *bench) ensureSet(c store.Claim, list string) store.Set {
	b.Helper()
	set, err := b.st.EnsureSet(b.ctx, c, list)
	b.ok(err)
	return set
}

func (b *bench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) is(err, target error) {
	b.Helper()
	if !errors.Is(err, target) {
		b.Fatalf("error is %v, want %v", err, target)
	}
}

func (b *bench) same(what string, want, got any) {
	b.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		b.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// commit records changes under the bench's claim.
func (b *bench) commit(c store.Commit) store.Commit {
	b.Helper()
	c.Claim = b.claim
	b.ok(b.st.Commit(b.ctx, &c))
	return c
}

// recount has the counters of a set counted anew from its rows.
func (b *bench) recount(set int64) (resources, bytes int64) {
	b.Helper()
	b.commit(store.Commit{Sets: []store.SetChange{{ID: set, Resources: -1 << 40}}})
	sets, err := b.st.Sets(b.ctx, b.src.ID)
	b.ok(err)
	for _, s := range sets {
		if s.ID == set {
			return s.Resources, s.Bytes
		}
	}
	b.Fatalf("set %d is gone", set)
	return 0, 0
}

// put inserts resources and returns their ids.
func (b *bench) put(rs ...store.ResourceChange) []int64 {
	b.Helper()
	c := b.commit(store.Commit{Resources: rs})
	ids := make([]int64, len(rs))
	for i := range c.Resources {
		if ids[i] = c.Resources[i].ID; ids[i] == 0 {
			b.Fatalf("%s got no id", rs[i].URI)
		}
	}
	return ids
}

func (b *bench) resource(uri string) *store.Resource {
	b.Helper()
	r, err := b.st.Resource(b.ctx, b.src.ID, uri)
	b.ok(err)
	return r
}

func uri(i int) string { return fmt.Sprintf("https://a.example/r/%06d", i) }
func key(i int) string { return fmt.Sprintf("a.example/r/%06d", i) }

// fresh resource i, with a want.
func (b *bench) change(i int, w store.Want) store.ResourceChange {
	if w.SetID == 0 {
		w.SetID = b.set.ID
	}
	return store.ResourceChange{URI: uri(i), Key: key(i), Want: &w}
}

func present(at store.Micros) store.Want {
	return store.Want{State: store.WantPresent, Version: store.Version{From: at, Until: at}, Length: -1,
		LastMod: store.NoTime}
}

func absent(at store.Micros) store.Want {
	w := present(at)
	w.State = store.WantAbsent
	return w
}

func fullHave(n int64) *store.Have {
	return &store.Have{
		State: store.HavePresent, SHA256: [32]byte{1, 2, 31: byte(n)}, Length: n, ModTime: 1_700_000_000_123_456_789,
		ETag: `"abc"`, LastModified: "Sat, 21 Nov 2026 16:00:00 GMT", Type: "text/xml",
		Checked: "md5:00112233445566778899aabbccddeeff",
		Version: store.Version{From: 5, Until: 6, Ordinal: 7, Document: 8}, Fetched: 1_700_000_000_000_000,
	}
}

func ids(rs []*store.Resource) []int64 {
	out := []int64{}
	for _, r := range rs {
		out = append(out, r.ID)
	}
	return out
}

func unlisted(b *bench, setID, generation int64, until store.Micros) []int64 {
	b.Helper()
	out := []int64{}
	for id, err := range b.st.Unlisted(b.ctx, setID, generation, until) {
		b.ok(err)
		out = append(out, id)
	}
	return out
}
