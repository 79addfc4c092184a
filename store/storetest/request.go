package storetest

import (
	"testing"
	"time"

	"resyncd/store"
)

func testRequests(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	command := b.reopen() // as a command does it
	take := func(at store.Micros) []store.Request {
		t.Helper()
		rs, err := b.st.TakeRequests(b.ctx, at)
		b.ok(err)
		return rs
	}
	request := func(id int64, from int) store.Request {
		t.Helper()
		r, err := command.Request(b.ctx, id, from)
		b.ok(err)
		return r
	}
	if got := take(1); len(got) != 0 {
		t.Fatalf("taken from nothing: %+v", got)
	}
	now := store.MicrosOf(time.Now())
	one := store.Request{Source: "one", Command: "sync", Args: []byte(`{"force":true}`), Created: now}
	two := store.Request{Command: "pause", State: store.RequestDone, Problem: "x"}
	back := store.Request{Command: "sync", Created: now}
	for _, r := range []*store.Request{&one, &two, &back} {
		b.ok(command.AddRequest(b.ctx, r))
	}
	want := store.Request{ID: one.ID, Source: "one", Command: "sync", Args: one.Args, State: store.RequestWaiting,
		Created: now, Beat: store.NoTime}
	b.same("recorded", want, one)
	b.same("waiting", want, request(one.ID, 0))
	if two.Created < now || two.State != store.RequestWaiting || two.Problem != "" {
		t.Errorf("recorded with what was not said: %+v", two)
	}
	if taken, err := command.DropRequest(b.ctx, back.ID); err != nil || taken {
		t.Fatalf("taking one back: %v, %v", taken, err)
	}
	_, err := command.Request(b.ctx, back.ID, 0)
	b.is(err, store.ErrNotFound)

	one.State, one.Beat, two.State, two.Beat = store.RequestTaken, now+1, store.RequestTaken, now+1
	b.same("taken, oldest first", []store.Request{one, two}, take(now+1))
	if got := take(now + 2); len(got) != 0 {
		t.Fatalf("taken twice: %+v", got)
	}
	if taken, err := command.DropRequest(b.ctx, one.ID); err != nil || !taken {
		t.Fatalf("taking back what was taken: %v, %v", taken, err)
	}
	if taken, err := command.DropRequest(b.ctx, one.ID+1000); err != nil || taken {
		t.Fatalf("taking nothing back: %v, %v", taken, err)
	}

	b.ok(b.st.AnswerRequest(b.ctx, one.ID, []string{"a", ""}, []byte(`{"n":1}`), now+3))
	b.ok(b.st.AnswerRequest(b.ctx, two.ID, []string{"other"}, nil, now+3))
	b.ok(b.st.AnswerRequest(b.ctx, one.ID, []string{"c"}, nil, now+4))
	b.ok(b.st.AnswerRequest(b.ctx, one.ID, nil, nil, now+5))
	one.Output, one.Progress, one.Beat = []string{"a", "", "c"}, []byte(`{"n":1}`), now+5
	b.same("answered", one, request(one.ID, 0))
	one.Output = one.Output[2:]
	b.same("the lines from the third", one, request(one.ID, 2))
	one.Output = nil
	b.same("no more lines", one, request(one.ID, 3))
	b.ok(b.st.EndRequest(b.ctx, one.ID, 3, "it failed"))
	one.State, one.ExitCode, one.Problem = store.RequestDone, 3, "it failed"
	b.same("ended", one, request(one.ID, 3))
	b.same("the other", []string{"other"}, request(two.ID, 0).Output)

	b.is(b.st.AnswerRequest(b.ctx, one.ID+1000, []string{"x"}, nil, now), store.ErrNotFound)
	b.is(b.st.EndRequest(b.ctx, one.ID+1000, 0, ""), store.ErrNotFound)

	// A Source that is forgotten leaves the request that asked for it, which waits for its answer.
	b.ok(b.st.ForgetSource(b.ctx, b.claim))
	b.same("after the source was forgotten", one, request(one.ID, 3))
}

func testTidyPush(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	now := store.MicrosOf(time.Now())
	const day = store.Micros(24 * time.Hour / time.Microsecond)
	add := func(created, beat store.Micros) int64 {
		t.Helper()
		r := store.Request{Created: created}
		b.ok(b.st.AddRequest(b.ctx, &r))
		if beat.Known() {
			b.ok(b.st.AnswerRequest(b.ctx, r.ID, []string{"line"}, nil, beat))
		}
		return r.ID
	}
	requests := map[int64]bool{ // whether it stays
		add(now-2*day, store.NoTime): false, add(now-2*day, now-2*day): false, add(now-2*day, now): true,
		add(now, store.NoTime): true,
	}
	stone := func(token string, ended store.Micros) int64 {
		t.Helper()
		sub := subscription(b, token)
		sub.State, sub.Ended = store.SubGone, ended
		b.ok(b.st.AddSubscription(b.ctx, &sub))
		return sub.ID
	}
	subs := map[int64]bool{
		stone("old", now-91*day): false, stone("young", now-89*day): true, stone("undated", store.NoTime): true,
		b.subscribe("live").ID: true,
	}
	sub := b.subscribe("t")
	at := func(age store.Micros, body string) *store.Delivery {
		d := b.delivery(sub, body)
		d.Received = now - age
		return d
	}
	b.deliver(at(3*day, "old"), at(0, "new"))
	tidy(b)
	for id, stays := range requests {
		if _, err := b.st.Request(b.ctx, id, 0); (err == nil) != stays {
			t.Errorf("request %d: %v", id, err)
		}
	}
	for id, stays := range subs {
		if got, err := b.st.Subscription(b.ctx, id); (err == nil) != stays ||
			stays && got.State == store.SubGone && !got.Ended.Known() {
			t.Errorf("subscription %d: %+v, %v", id, got, err)
		}
	}
	old, again := at(0, "old"), at(0, "new")
	b.deliver(old, again)
	if old.Duplicate || !again.Duplicate {
		t.Errorf("old one %v, new one %v", old.Duplicate, again.Duplicate)
	}
	b.waits(3, 9)
	if none := b.deliveries(store.InboxQuery{Kept: true}); len(none) != 0 {
		t.Error("tidying kept deliveries")
	}
}

// tidy tidies until nothing is left to do.
func tidy(b *bench) {
	b.Helper()
	for i, more := 0, true; more; i++ {
		var err error
		if more, err = b.st.Tidy(b.ctx); err != nil || i > 100 {
			b.Fatalf("tidy, slice %d: %v", i, err)
		}
	}
}
