package storetest

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"resyncd/store"
)

// delivery is a signed one with an interval, received now.
func (b *bench) delivery(sub store.Subscription, body string) *store.Delivery {
	return &store.Delivery{
		SubscriptionID: sub.ID, SourceID: sub.SourceID, SetID: sub.SetID, Kind: sub.Kind,
		Received: store.MicrosOf(time.Now()), Signed: true,
		Digest: sha256.Sum256([]byte(body)), Type: "application/xml", From: 1, Until: 2,
		Body: []byte(body),
	}
}

func (b *bench) deliver(ds ...*store.Delivery) {
	b.Helper()
	b.ok(b.st.Deliver(b.ctx, ds, nil))
	b.ok(b.st.Durable(b.ctx))
}

func (b *bench) deliveries(q store.InboxQuery) []store.Delivery {
	b.Helper()
	if q.SourceID == 0 {
		q.SourceID = b.src.ID
	}
	if q.Limit == 0 {
		q.Limit = 1000
	}
	ds, err := b.st.Deliveries(b.ctx, q)
	b.ok(err)
	return ds
}

// Waiting is how much is in the inbox of all Sources.
func Waiting(shares map[int64]store.InboxSize) (sum store.InboxSize) {
	for _, share := range shares {
		sum.Deliveries, sum.Bytes = sum.Deliveries+share.Deliveries, sum.Bytes+share.Bytes
	}
	return sum
}

// waits checks how much is in the inbox, through another opening too.
func (b *bench) waits(deliveries, bytes int64) {
	b.Helper()
	for _, st := range []store.Store{b.st, b.reopen()} {
		shares, err := st.InboxShares(b.ctx)
		b.ok(err)
		for source, share := range shares {
			if share.Deliveries <= 0 {
				b.Fatalf("the share of source %d: %+v", source, share)
			}
		}
		b.same("size of the inbox", store.InboxSize{Deliveries: deliveries, Bytes: bytes}, Waiting(shares))
	}
}

// shares checks what waits of each Source.
func (b *bench) shares(want map[int64]store.InboxSize) {
	b.Helper()
	got, err := b.st.InboxShares(b.ctx)
	b.ok(err)
	b.same("shares of the inbox", want, got)
}

func deref(ds []*store.Delivery) (out []store.Delivery) {
	for _, d := range ds {
		out = append(out, *d)
	}
	return out
}

func testInbox(t *testing.T, fresh Fresh) {
	t.Run("every field comes back", func(t *testing.T) {
		b := newBench(t, fresh)
		sub := b.subscribe("t")
		full, bare := b.delivery(sub, "body\x00ä"), &store.Delivery{SourceID: b.src.ID, Received: 5,
			From: store.NoTime, Until: store.NoTime}
		b.deliver(full, bare)
		b.deliver()
		if full.ID == 0 || bare.ID <= full.ID {
			t.Fatalf("ids %d, %d", full.ID, bare.ID)
		}
		got := b.deliveries(store.InboxQuery{})
		if len(got) != 2 || len(got[1].Body) != 0 {
			t.Fatalf("%+v", got)
		}
		got[1].Body = nil
		b.same("deliveries", []store.Delivery{*full, *bare}, got)
		b.waits(2, int64(len(full.Body)))
	})
	t.Run("order, pages and sources", func(t *testing.T) { testDeliveries(newBench(t, fresh)) })
	t.Run("groups", func(t *testing.T) { testGroups(newBench(t, fresh)) })
	t.Run("counted", func(t *testing.T) { testCounted(newBench(t, fresh)) })
	t.Run("duplicates", func(t *testing.T) { testDuplicates(newBench(t, fresh)) })
	t.Run("commit", func(t *testing.T) { testInboxCommit(newBench(t, fresh)) })
	t.Run("forgotten source", func(t *testing.T) {
		b := newBench(t, fresh)
		sub := b.subscribe("t")
		b.deliver(b.delivery(sub, "one"), b.delivery(sub, "two"))
		b.commit(store.Commit{Inbox: []store.InboxChange{{ID: b.deliveries(store.InboxQuery{})[0].ID, Keep: true}}})
		two, _, _ := b.source("two")
		other := subscription(b, "other")
		other.SourceID = two.ID
		b.ok(b.st.AddSubscription(b.ctx, &other))
		b.deliver(b.delivery(other, "three"))
		b.ok(b.st.ForgetSource(b.ctx, b.claim))
		late := b.delivery(sub, "late")
		b.deliver(late, b.delivery(other, "four"))
		if late.ID != 0 {
			t.Error("a delivery of a forgotten source was kept")
		}
		if n := len(b.deliveries(store.InboxQuery{})) + len(b.deliveries(store.InboxQuery{Kept: true})); n != 0 {
			t.Errorf("%d deliveries of the forgotten source are left", n)
		}
		b.waits(2, 9)
		b.shares(map[int64]store.InboxSize{two.ID: {Deliveries: 2, Bytes: 9}})
		stone, err := b.st.SubscriptionByToken(b.ctx, "t")
		b.ok(err)
		if stone.State != store.SubGone || !stone.Ended.Known() || stone.Secret != "" || stone.Next.Known() {
			t.Errorf("subscription of the forgotten source: %+v", stone)
		}
		if got := b.subscription(other.ID); got.State != other.State {
			t.Errorf("subscription of the other source: %+v", got)
		}
		late = b.delivery(store.Subscription{SourceID: b.src.ID + 1000}, "nobody's")
		b.deliver(late)
		if late.ID != 0 {
			t.Error("a delivery of no source was kept")
		}
	})
}

func testDeliveries(b *bench) {
	one, two := b.subscribe("1"), b.subscribe("2")
	other, _, _ := b.source("two")
	two.SourceID = other.ID
	var mine, theirs []*store.Delivery
	for i := range 20 {
		m, o := b.delivery(one, fmt.Sprintf("mine %05d", i)), b.delivery(two, fmt.Sprintf("theirs %03d", i))
		mine, theirs = append(mine, m), append(theirs, o)
		b.deliver(m, o)
	}
	b.same("of one source", deref(mine), b.deliveries(store.InboxQuery{}))
	b.same("of the other", deref(theirs), b.deliveries(store.InboxQuery{SourceID: other.ID}))
	b.same("a page", deref(mine[5:8]), b.deliveries(store.InboxQuery{After: mine[4].ID, Limit: 3}))
	for limit, want := range map[int64]int{0: 20, 1: 1, 9: 1, 10: 1, 19: 1, 20: 2, 39: 3, 40: 4, 1000: 20} {
		if got := b.deliveries(store.InboxQuery{MaxBytes: limit}); len(got) != want {
			b.Errorf("%d deliveries for %d bytes", len(got), limit)
		}
	}
	if got, err := b.st.Deliveries(b.ctx, store.InboxQuery{SourceID: b.src.ID}); err != nil || len(got) != 0 {
		b.Errorf("without a limit: %d, %v", len(got), err)
	}
	b.waits(40, 400)
	b.shares(map[int64]store.InboxSize{b.src.ID: {Deliveries: 20, Bytes: 200}, other.ID: {Deliveries: 20, Bytes: 200}})
	b.commit(store.Commit{Inbox: []store.InboxChange{{ID: mine[0].ID}, {ID: mine[1].ID, Keep: true}}})
	b.shares(map[int64]store.InboxSize{b.src.ID: {Deliveries: 18, Bytes: 180}, other.ID: {Deliveries: 20, Bytes: 200}})
}

// testGroups: groups of any size are kept whole, in order, what is repeated left out.
func testGroups(b *bench) {
	subs := []store.Subscription{b.subscribe("1"), b.subscribe("2"), b.subscribe("3")}
	other, _, _ := b.source("two")
	subs[1].SetID, subs[2].SourceID = b.ensureSet(b.claim, "two").ID, other.ID
	kept := map[int64][]*store.Delivery{}
	seen := map[string]bool{}
	var last int64
	for size := 1; size < 70; size += 3 {
		var group []*store.Delivery
		var repeated []bool
		for i := range size {
			sub := subs[(size+i)%3]
			body := fmt.Sprintf("%d %d", size, i)
			if size%2 == 0 && i%11 == 5 { // of an earlier group, or of this one
				body = fmt.Sprintf("%d %d", size-3*(i%2), i-2)
			}
			key := fmt.Sprint(sub.SetID, body)
			group, repeated = append(group, b.delivery(sub, body)), append(repeated, seen[key])
			seen[key] = true
		}
		b.deliver(group...)
		for i, d := range group {
			if d.Duplicate != repeated[i] || (d.ID == 0) != repeated[i] || !repeated[i] && d.ID <= last {
				b.Fatalf("%d of %d: duplicate %v, id %d after %d", i, size, d.Duplicate, d.ID, last)
			}
			if !repeated[i] {
				last = d.ID
				kept[d.SourceID] = append(kept[d.SourceID], d)
			}
		}
	}
	for source, want := range kept {
		b.same("of a source", deref(want), b.deliveries(store.InboxQuery{SourceID: source}))
	}
}

func testCounted(b *bench) {
	one, two := b.subscribe("1"), b.subscribe("2")
	b.ok(b.st.TallySubscription(b.ctx, one.ID, store.Tally{PushMisses: 2}))
	b.ok(b.st.TallySubscription(b.ctx, two.ID, store.Tally{PushMisses: 2}))
	at := func(sub store.Subscription, when store.Micros, body string) *store.Delivery {
		d := b.delivery(sub, body)
		d.Received = when
		return d
	}
	b.deliver(at(one, 30, "a"), at(one, 10, "b"), at(one, 20, "a"))
	b.deliver(at(one, 5, "c"))
	one.LastDelivery, one.Delivered, one.Duplicates, one.PushMisses = 30, 4, 1, 2
	b.same("counters", one, b.subscription(one.ID))
	two.PushMisses, two.Missed = 2, 2
	b.same("of the other", two, b.subscription(two.ID))
	b.deliver(at(store.Subscription{ID: two.ID + 1000, SourceID: b.src.ID}, 1, "of a subscription that is gone"))
	if n := len(b.deliveries(store.InboxQuery{})); n != 4 {
		b.Errorf("%d deliveries", n)
	}
}

func testDuplicates(b *bench) {
	one, two := b.subscribe("1"), b.subscribe("2")
	feed, otherSet := one, one
	feed.Kind, otherSet.SetID = store.ChannelFeed, b.ensureSet(b.claim, "two").ID
	now := store.MicrosOf(time.Now())
	const hour = store.Micros(time.Hour / time.Microsecond)
	from := func(sub store.Subscription, age store.Micros, body string, change func(*store.Delivery)) *store.Delivery {
		d := b.delivery(sub, body)
		d.Received = now - age
		if change != nil {
			change(d)
		}
		return d
	}
	unsigned := func(d *store.Delivery) { d.Signed = false }
	timeless := func(d *store.Delivery) { d.Until = store.NoTime }
	first, second := from(one, 30*hour, "x", nil), from(one, 10*hour, "y", nil)
	b.deliver(first, second)
	b.commit(store.Commit{Inbox: []store.InboxChange{{ID: first.ID}, {ID: second.ID, Keep: true}}})
	for _, c := range []struct {
		name string
		d    *store.Delivery
		dup  bool
	}{
		{"after more than a day", from(one, 5*hour, "x", nil), false},
		{"within a day of that", from(one, 4*hour, "x", nil), true},
		{"within a day", from(one, 0, "y", nil), true},
		{"over another subscription", from(two, 0, "y", nil), true},
		{"of another kind", from(feed, 0, "y", nil), false},
		{"of another set", from(otherSet, 0, "y", nil), false},
		{"unsigned", from(one, 0, "y", unsigned), false},
		{"without a known interval", from(one, 0, "y", timeless), false},
		{"just within a day of the first", from(one, 1-14*hour, "y", nil), true},
		{"a day after the first, whatever came between", from(one, -14*hour, "y", nil), false},
		{"unsigned, new", from(one, 0, "z", unsigned), false},
		{"signed, where an unsigned one came before", from(one, 0, "z", nil), false},
		{"with a clock that was set back", from(one, 90*hour, "z", nil), true},
	} {
		before := len(b.deliveries(store.InboxQuery{}))
		b.deliver(c.d)
		after := len(b.deliveries(store.InboxQuery{}))
		if c.d.Duplicate != c.dup || (c.d.ID == 0) != c.dup || after-before != map[bool]int{false: 1}[c.dup] {
			b.Errorf("%s: duplicate %v, id %d, %d more kept", c.name, c.d.Duplicate, c.d.ID, after-before)
		}
	}
	twice := []*store.Delivery{from(one, 0, "twice", nil), from(two, 0, "twice", nil)}
	b.deliver(twice...)
	if twice[0].Duplicate || !twice[1].Duplicate {
		b.Error("the same body twice in one group")
	}
	if got := b.subscription(two.ID); got.Delivered != 2 || got.Duplicates != 2 || got.Missed != 0 {
		b.Errorf("%+v", got)
	}
}

func testInboxCommit(b *bench) {
	sub := b.subscribe("t")
	ds := []*store.Delivery{b.delivery(sub, "1"), b.delivery(sub, "22"), b.delivery(sub, "333"),
		b.delivery(sub, "4444")}
	b.deliver(ds...)
	b.waits(4, 10)
	b.commit(store.Commit{Inbox: []store.InboxChange{{ID: ds[0].ID}, {ID: ds[1].ID, Keep: true}, {ID: ds[3].ID + 1000},
		{ID: ds[3].ID + 1001, Keep: true}}})
	ds[1].Kept = true
	b.same("not recorded yet", deref(ds[2:]), b.deliveries(store.InboxQuery{}))
	b.same("kept", deref(ds[1:2]), b.deliveries(store.InboxQuery{Kept: true}))
	b.waits(2, 7)
	b.commit(store.Commit{Inbox: []store.InboxChange{{ID: ds[1].ID, Keep: true}, {ID: ds[2].ID, Keep: true},
		{ID: ds[2].ID}, {ID: ds[2].ID}}})
	b.waits(1, 4)

	// All or nothing, and only under the claim of its Source.
	_, claim, _ := b.source("two")
	b.is(b.st.Commit(b.ctx, &store.Commit{Claim: b.claim, Inbox: []store.InboxChange{{ID: ds[3].ID}},
		Gaps: []*store.Gap{{ID: 1 << 40, SetID: b.set.ID}}}), store.ErrNotFound)
	for _, keep := range []bool{false, true} {
		for _, d := range []*store.Delivery{ds[1], ds[3]} {
			if err := b.st.Commit(b.ctx,
				&store.Commit{Claim: claim, Inbox: []store.InboxChange{{ID: d.ID, Keep: keep}}}); err == nil {
				b.Errorf("a delivery of another source was changed (keep %v)", keep)
			}
		}
	}
	b.same("left", deref(ds[3:]), b.deliveries(store.InboxQuery{}))
	b.commit(store.Commit{Inbox: []store.InboxChange{{ID: ds[1].ID}, {ID: ds[3].ID}}})
	b.waits(0, 0)
	b.shares(map[int64]store.InboxSize{})
	more := b.delivery(sub, "5")
	b.deliver(more)
	if more.ID <= ds[3].ID {
		b.Error("the id of a dropped delivery was given again")
	}
}
