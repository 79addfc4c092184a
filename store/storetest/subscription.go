package storetest

import (
	"errors"
	"fmt"
	"testing"

	"resyncd/store"
)

// subscription is one with every field filled that a caller fills.
func subscription(b *bench, token string) store.Subscription {
	return store.Subscription{
		SourceID: b.src.ID, SetID: b.set.ID, Kind: store.ChannelChange, Topic: "https://a.example/topic?x=ä",
		Hub:   "https://hub.example/",
		Token: token, Secret: "secret", State: store.SubPending, Replaces: 7, Asked: 86400, Granted: 3600,
		Requested: 1, Verified: 2,
		Renew: 3, Expires: 4, Rotated: 5, Next: 6, Attempts: 8, Profile: 9, Reason: "why", Cause: "http-404", Ended: store.NoTime,
		SubscriptionCounts: store.SubscriptionCounts{LastDelivery: store.NoTime},
	}
}

func (b *bench) subscribe(token string) store.Subscription {
	b.Helper()
	sub := subscription(b, token)
	b.ok(b.st.AddSubscription(b.ctx, &sub))
	if sub.ID == 0 {
		b.Fatal("no id")
	}
	return sub
}

func (b *bench) subscription(id int64) store.Subscription {
	b.Helper()
	sub, err := b.st.Subscription(b.ctx, id)
	b.ok(err)
	return sub
}

func testSubscriptions(t *testing.T, fresh Fresh) {
	t.Run("every field comes back", func(t *testing.T) {
		b := newBench(t, fresh)
		sub := subscription(b, "t1")
		sub.Delivered, sub.Missed, sub.LastDelivery = 5, 5, 5
		b.ok(b.st.AddSubscription(b.ctx, &sub))
		want := subscription(b, "t1")
		want.ID = sub.ID
		b.same("what was recorded", want, sub)
		b.same("by id", want, b.subscription(sub.ID))
		got, err := b.reopen().SubscriptionByToken(b.ctx, "t1")
		b.ok(err)
		b.same("by token", want, got)
		none := store.Subscription{SourceID: b.src.ID, Token: "t2", State: store.SubWanted, Requested: store.NoTime,
			Verified: store.NoTime,
			Renew:    store.NoTime, Expires: store.NoTime, Rotated: store.NoTime, Next: store.NoTime,
			Ended: store.NoTime, SubscriptionCounts: store.SubscriptionCounts{LastDelivery: store.NoTime}}
		b.ok(b.st.AddSubscription(b.ctx, &none))
		b.same("without times", none, b.subscription(none.ID))
		_, err = b.st.Subscription(b.ctx, sub.ID+1000)
		b.is(err, store.ErrNotFound)
		for _, token := range []string{"t", "T1", "t1 ", ""} {
			_, err = b.st.SubscriptionByToken(b.ctx, token)
			b.is(err, store.ErrNotFound)
		}
	})
	t.Run("the token is new", func(t *testing.T) {
		b := newBench(t, fresh)
		one, two := b.subscribe("same"), b.subscribe("other")
		again := subscription(b, "same")
		if err := b.st.AddSubscription(b.ctx, &again); err == nil || again.ID != 0 {
			t.Fatalf("the same token twice: %v", err)
		}
		_, err := b.st.ChangeSubscription(b.ctx, two.ID,
			func(s *store.Subscription) error { s.Token = "same"; return nil })
		if err == nil {
			t.Fatal("the token of another one was taken")
		}
		b.same("the other", two, b.subscription(two.ID))
		b.same("the one", one, b.subscription(one.ID))
		nameless := subscription(b, "")
		if err := b.st.AddSubscription(b.ctx, &nameless); err == nil {
			t.Fatal("one without a token was taken")
		}
		stray := subscription(b, "stray")
		stray.SourceID += 1000
		b.is(b.st.AddSubscription(b.ctx, &stray), store.ErrNotFound)
	})
	t.Run("change", func(t *testing.T) { testChangeSubscription(newBench(t, fresh)) })
	t.Run("list", func(t *testing.T) {
		b := newBench(t, fresh)
		other, _, _ := b.source("two")
		one, gone, two := b.subscribe("1"), b.subscribe("2"), subscription(b, "3")
		two.SourceID = other.ID
		b.ok(b.st.AddSubscription(b.ctx, &two))
		var err error
		gone, err = b.st.ChangeSubscription(b.ctx, gone.ID, func(s *store.Subscription) error {
			s.State, s.Ended = store.SubGone, 9
			return nil
		})
		b.ok(err)
		for _, c := range []struct {
			source int64
			gone   bool
			want   []store.Subscription
		}{
			{b.src.ID, false, []store.Subscription{one}}, {b.src.ID, true, []store.Subscription{one, gone}},
			{0, false, []store.Subscription{one, two}}, {0, true, []store.Subscription{one, gone, two}}, {other.ID +
				1000, true, nil},
		} {
			got, err := b.st.Subscriptions(b.ctx, c.source, c.gone)
			b.ok(err)
			b.same(fmt.Sprintf("of source %d, gone %v", c.source, c.gone), c.want, got)
		}
		found, err := b.st.SubscriptionByToken(b.ctx, "2")
		b.ok(err)
		b.same("a tombstone by its token", gone, found)
	})
	t.Run("tally", func(t *testing.T) {
		b := newBench(t, fresh)
		sub := b.subscribe("t")
		for range 2 {
			b.ok(b.st.TallySubscription(b.ctx, sub.ID,
				store.Tally{RejectedSignature: 1, RejectedTooLarge: 2, RejectedMalformed: 3, PushMisses: 4}))
		}
		b.ok(b.st.TallySubscription(b.ctx, sub.ID, store.Tally{}))
		b.ok(b.st.TallySubscription(b.ctx, sub.ID+1000, store.Tally{PushMisses: 1}))
		sub.RejectedSignature, sub.RejectedTooLarge, sub.RejectedMalformed, sub.PushMisses, sub.Missed = 2, 4, 6, 8, 8
		b.same("counted", sub, b.subscription(sub.ID))
	})
}

func testChangeSubscription(b *bench) {
	sub := b.subscribe("t")
	b.ok(b.st.TallySubscription(b.ctx, sub.ID, store.Tally{PushMisses: 3}))
	b.ok(b.st.Deliver(b.ctx, []*store.Delivery{b.delivery(sub, "x")}, nil))
	counted := b.subscription(sub.ID)
	want := counted
	want.State, want.Reason, want.Cause, want.Next, want.Secret, want.Granted = store.SubActive, "", "", store.NoTime, "s2", 99
	got, err := b.st.ChangeSubscription(b.ctx, sub.ID, func(s *store.Subscription) error {
		b.same("what the function is given", counted, *s)
		*s = want
		s.ID, s.Delivered, s.Duplicates, s.LastDelivery, s.PushMisses, s.Missed = 99, 0, 9, store.NoTime, 0, 17
		s.RejectedSignature, s.RejectedTooLarge, s.RejectedMalformed = 9, 9, 9
		return nil
	})
	b.ok(err)
	b.same("returned", want, got)
	b.same("kept", want, b.subscription(sub.ID))

	refused := errors.New("no")
	_, err = b.st.ChangeSubscription(b.ctx, sub.ID,
		func(s *store.Subscription) error { s.Reason = "changed"; return refused })
	b.is(err, refused)
	b.same("after a refusal", want, b.subscription(sub.ID))
	_, err = b.st.ChangeSubscription(b.ctx, sub.ID+1000,
		func(*store.Subscription) error { b.Error("called"); return nil })
	b.is(err, store.ErrNotFound)
	func() {
		defer func() {
			if recover() == nil {
				b.Error("the panic was swallowed")
			}
		}()
		_, _ = b.st.ChangeSubscription(b.ctx, sub.ID, func(*store.Subscription) error { panic("oh") })
	}()

	// Changes from everywhere, with deliveries and tallies between them: nothing is lost.
	const each = 20
	errs := make(chan error)
	other := b.reopen()
	for n, st := range []store.Store{b.st, other, b.st} {
		go func() {
			var err error
			for i := 0; i < each && err == nil; i++ {
				_, err = st.ChangeSubscription(b.ctx, sub.ID,
					func(s *store.Subscription) error { s.Attempts++; return nil })
				if err == nil {
					err = st.TallySubscription(b.ctx, sub.ID, store.Tally{PushMisses: 1})
				}
				if err == nil {
					err = st.Deliver(b.ctx, []*store.Delivery{b.delivery(sub, fmt.Sprint(n, " ", i))}, nil)
				}
			}
			errs <- err
		}()
	}
	for range 3 {
		b.ok(<-errs)
	}
	got = b.subscription(sub.ID)
	if got.Attempts != want.Attempts+3*each || got.PushMisses != want.PushMisses+3*each ||
		got.Delivered != want.Delivered+3*each {
		b.Fatalf("lost updates: %+v", got)
	}
}
