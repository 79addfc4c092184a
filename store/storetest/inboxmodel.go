package storetest

import (
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"resyncd/store"
)

// inboxModel is the inbox in its plainest form.
type inboxModel struct {
	rows  []store.Delivery        // in the order of arrival
	marks map[string]store.Micros // when a body was last kept, by set, kind and body
	subs  map[int64]*store.Subscription
	last  int64 // highest id
}

// testInboxModel applies random deliveries and commits to the store and to the model.
func testInboxModel(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	n := 0
	var total store.InboxSize // of the times before
	rapid.Check(t, func(rt *rapid.T) {
		n++ // each time a Source of its own
		b.src, b.claim, _ = b.source(fmt.Sprint("inbox ", n))
		b.set = b.ensureSet(b.claim, "one")
		two := b.ensureSet(b.claim, "two")
		m := &inboxModel{marks: map[string]store.Micros{}, subs: map[int64]*store.Subscription{}}
		var subs []store.Subscription
		for i := range 3 {
			sub := subscription(b, fmt.Sprint("token ", n, " ", i))
			if i == 2 {
				sub.SetID = two.ID
			}
			if err := b.st.AddSubscription(b.ctx, &sub); err != nil {
				rt.Fatal(err)
			}
			m.subs[sub.ID] = &sub
			subs = append(subs, sub)
		}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			if rapid.Bool().Draw(rt, "deliver") {
				m.deliver(rt, b, subs)
			} else {
				m.commit(rt, b)
			}
		}
		size := m.compare(rt, b)
		total.Deliveries, total.Bytes = total.Deliveries+size.Deliveries, total.Bytes+size.Bytes
		got, err := b.st.InboxShares(b.ctx)
		if sum := Waiting(got); err != nil || sum != total || got[b.src.ID] != size {
			rt.Fatalf("the inbox is %+v, the share %+v, said to be %+v, %+v (%v)", total, size, sum, got[b.src.ID], err)
		}
	})
}

func (m *inboxModel) deliver(rt *rapid.T, b *bench, subs []store.Subscription) {
	var ds []*store.Delivery
	var want []bool
	for range rapid.IntRange(0, 5).Draw(rt, "group") {
		d := b.delivery(rapid.SampledFrom(subs).Draw(rt, "sub"),
			rapid.SampledFrom([]string{"", "a", "bb", "ccc"}).Draw(rt, "body"))
		d.Kind = rapid.SampledFrom([]store.ChannelKind{store.ChannelChange, store.ChannelFramework}).Draw(rt, "kind")
		d.Received = store.Micros(rapid.Int64Range(0, 60).Draw(rt, "hour")) * 3_600_000_000
		d.Signed = rapid.IntRange(0, 3).Draw(rt, "signed") > 0
		if rapid.IntRange(0, 3).Draw(rt, "timeless") == 0 {
			d.From = store.NoTime
		}
		ds, want = append(ds, d), append(want, m.take(d))
	}
	if err := b.st.Deliver(b.ctx, ds, nil); err != nil {
		rt.Fatal(err)
	}
	for i, d := range ds {
		if d.Duplicate != want[i] || (d.ID == 0) != want[i] {
			rt.Fatalf("duplicate %v, id %d; want %v", d.Duplicate, d.ID, want[i])
		}
		if !want[i] {
			if d.ID <= m.last {
				rt.Fatalf("id %d after %d", d.ID, m.last)
			}
			m.last = d.ID
			m.rows = append(m.rows, *d)
		}
	}
}

// take counts a delivery and reports whether it is a duplicate.
func (m *inboxModel) take(d *store.Delivery) bool {
	duplicate := false
	if d.Signed && d.From.Known() {
		body := fmt.Sprint(d.SetID, d.Kind, string(d.Body))
		at, known := m.marks[body]
		if duplicate = known && at > d.Received-24*3_600_000_000; !duplicate {
			m.marks[body] = d.Received
		}
	}
	s := m.subs[d.SubscriptionID]
	s.Delivered++
	s.Duplicates += one(duplicate)
	s.LastDelivery = max(s.LastDelivery, d.Received)
	return duplicate
}

func (m *inboxModel) commit(rt *rapid.T, b *bench) {
	c := store.Commit{Claim: b.claim}
	for range rapid.IntRange(0, 5).Draw(rt, "changes") {
		ch := store.InboxChange{ID: 1 << 40, Keep: rapid.Bool().Draw(rt, "keep")}
		if len(m.rows) > 0 {
			at := rapid.IntRange(0, len(m.rows)-1).Draw(rt, "which")
			if ch.ID = m.rows[at].ID; ch.Keep {
				m.rows[at].Kept = true
			} else {
				m.rows = slices.Delete(m.rows, at, at+1)
			}
		}
		c.Inbox = append(c.Inbox, ch)
	}
	if err := b.st.Commit(b.ctx, &c); err != nil {
		rt.Fatal(err)
	}
}

// compare reads everything back and returns what waits.
func (m *inboxModel) compare(rt *rapid.T, b *bench) (size store.InboxSize) {
	for _, kept := range []bool{false, true} {
		var want, got []store.Delivery
		for _, d := range m.rows {
			if d.Kept == kept {
				want = append(want, d)
			}
			if d.Kept == kept && !kept {
				size.Deliveries, size.Bytes = size.Deliveries+1, size.Bytes+int64(len(d.Body))
			}
		}
		for q := (store.InboxQuery{SourceID: b.src.ID, Kept: kept, Limit: 3, MaxBytes: 4}); ; {
			page, err := b.st.Deliveries(b.ctx, q)
			if err != nil {
				rt.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
			q.After = page[len(page)-1].ID
		}
		for _, ds := range [][]store.Delivery{want, got} {
			for i := range ds {
				ds[i].Body = append([]byte{}, ds[i].Body...) // nil and empty are the same
			}
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			rt.Fatalf("deliveries, kept %v (-want +got):\n%s", kept, diff)
		}
	}
	for id, want := range m.subs {
		got, err := b.st.Subscription(b.ctx, id)
		if diff := gocmp.Diff(*want, got); err != nil || diff != "" {
			rt.Fatalf("subscription (-want +got):\n%s%v", diff, err)
		}
	}
	return size
}
