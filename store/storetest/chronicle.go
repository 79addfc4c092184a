package storetest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"resyncd/store"
)

const everything = store.Micros(math.MaxInt64)

const (
	minute = store.Micros(time.Minute / time.Microsecond)
	hour   = 60 * minute
	day    = 24 * hour
)

func (b *bench) points(source int64, w store.Width, from, until store.Micros) []store.Point {
	b.Helper()
	got, err := b.st.Points(b.ctx, source, w, from, until)
	b.ok(err)
	return got
}

func (b *bench) spans(set int64) []store.Span {
	b.Helper()
	got, err := b.st.Spans(b.ctx, set, store.NoTime, everything, 100_000)
	b.ok(err)
	return got
}

func (b *bench) steps(source int64) []store.SubscriptionEvent {
	b.Helper()
	got, err := b.st.SubscriptionEvents(b.ctx, source, 100_000)
	b.ok(err)
	return got
}

func testPoints(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	other, _, _ := b.source("two")
	one, two := b.src.ID, other.ID
	at := store.MicrosOf(time.Date(2026, 3, 4, 5, 6, 7, 8000, time.UTC))
	full := store.Point{SourceID: one, At: at, Changes: 1, Failed: 2, Bytes: 3, Pushes: 4, Latency: 5, LatencyMost: 6,
		Misses: 7}
	b.ok(b.st.AddPoints(b.ctx, nil))
	b.ok(b.st.AddPoints(b.ctx, []store.Point{
		full, {SourceID: two, At: at, Bytes: 1}, {SourceID: one, At: at + minute, LatencyMost: 9}, {SourceID: one,
			At: at, Changes: 10, LatencyMost: 2},
		{SourceID: two + 1000, At: at, Changes: 1}, {SourceID: two, At: at + 2*minute},
	}))
	b.ok(b.st.AddPoints(b.ctx, []store.Point{{SourceID: one, At: at - 7e6, Changes: 100},
		{SourceID: one, At: at - 8e6, Misses: 1}}))
	sum := full
	sum.At, sum.Changes = store.MicrosOf(time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC)), 111
	first := sum.At
	b.same("minutes", []store.Point{
		{SourceID: one, At: first - minute, Misses: 1}, sum, {SourceID: one, At: first + minute,
			LatencyMost: 9}, {SourceID: two, At: first, Bytes: 1},
	}, b.points(0, store.Minute, store.NoTime, everything))
	sum.At, sum.LatencyMost, sum.Misses = store.MicrosOf(time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)), 9, 8
	b.same("an hour", []store.Point{sum}, b.points(one, store.Hour, sum.At, sum.At+1))
	sum.At = store.MicrosOf(time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC))
	b.same("a day", []store.Point{sum}, b.points(one, store.Day, 0, everything))
	b.same("of the other", []store.Point{{SourceID: two, At: first, Bytes: 1}},
		b.points(two, store.Minute, 0, everything))
	for _, c := range []struct {
		from, until store.Micros
		n           int
	}{{first - minute, first + minute, 2}, {first - minute + 1, first + minute, 1}, {first + 1, first + minute, 0},
		{first + minute, first + minute + 1, 1}, {everything, 0, 0}} {
		if got := b.points(one, store.Minute, c.from, c.until); len(got) != c.n {
			t.Errorf("%d points in [%d, %d): %+v", len(got), c.from-first, c.until-first, got)
		}
	}
	b.ok(b.st.AddPoints(b.ctx, []store.Point{{SourceID: two, At: -1, Changes: 1}}))
	b.same("before 1970", []store.Point{{SourceID: two, At: -day, Changes: 1}},
		b.points(two, store.Day, store.NoTime, 0))
	if err := b.st.AddPoints(b.ctx, []store.Point{{SourceID: one, At: store.NoTime, Changes: 1}}); err == nil {
		t.Error("a point of no time was taken")
	}
	// More at once than a statement takes, from two sides.
	var many []store.Point
	for i := range 64 {
		many = append(many, store.Point{SourceID: two, At: 10*day + store.Micros(i)*minute, Changes: 1})
	}
	errs := make(chan error)
	for _, st := range []store.Store{b.st, b.reopen()} {
		go func() { errs <- st.AddPoints(b.ctx, many) }()
	}
	b.ok(<-errs)
	b.ok(<-errs)
	got := b.points(two, store.Minute, 10*day, 11*day)
	if len(got) != 64 || slices.ContainsFunc(got, func(p store.Point) bool { return p.Changes != 2 }) {
		t.Errorf("%d points: %+v", len(got), got)
	}
}

func testSpans(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	two := b.ensureSet(b.claim, "two")
	put := func(spans ...store.Span) {
		t.Helper()
		for i := range spans {
			s := &spans[i]
			if s.SetID == 0 {
				s.SetID = b.set.ID
			}
		}
		b.commit(store.Commit{Spans: spans})
	}
	expect := func(what string, set int64, want ...store.Span) {
		t.Helper()
		got := b.spans(set)
		for i := range got {
			if got[i].ID == 0 || i > 0 && got[i].ID == got[i-1].ID {
				t.Errorf("%s: ids %+v", what, got)
			}
			if got[i].ID = 0; i < len(want) {
				want[i].SetID = set
			}
		}
		b.same(what, want, got)
	}
	t.Run("documents", func(t *testing.T) {
		list := store.Span{Kind: store.SpanChangeList, From: 10, Until: 20, First: 5, Last: 5, Count: 1, Entries: 3,
			Document: "l"}
		grown := list
		put(list)
		grown.Until, grown.First, grown.Last, grown.Entries, grown.Count = 30, 6, 7, 9, 0
		put(grown)
		grown.First, grown.Count = 5, 1
		archive, next, other, late := list, list, list, list
		archive.Kind, next.From, next.Until, other.Document, late.SetID = store.SpanArchive, 20, 25, "m", two.ID
		late.Until = 12
		put(archive, next, other, late, store.Span{Kind: store.SpanChangeList, From: 10, Until: 12, First: 4, Last: 4,
			Entries: 9, Document: "l"})
		grown.First = 4
		expect("grown, never shrunk", b.set.ID, archive, other, grown, next)
		expect("of the other set", two.ID, late)
	})
	t.Run("baselines", func(t *testing.T) {
		b.set = b.ensureSet(b.claim, "three")
		base := store.Span{Kind: store.SpanBaseline, From: store.NoTime, Until: 20, First: 5, Last: 5, Count: 1,
			Entries: 3, Document: "l"}
		next := base
		next.Until, next.Last = 21, store.NoTime
		put(base, next, base)
		base.Last, base.Entries = 9, 4
		put(base)
		base.First = 5
		expect("each is one of its own", b.set.ID, base, next)
		put(store.Span{Kind: store.SpanBaseline, From: 1, Until: store.NoTime})
		expect("without an end", b.set.ID, base, next)
	})
	t.Run("notifications", func(t *testing.T) {
		b.set = b.ensureSet(b.claim, "four")
		n := func(from, until store.Micros, count, entries int64) store.Span {
			return store.Span{Kind: store.SpanNotification, From: from, Until: until, First: from, Last: from,
				Count: count, Entries: entries}
		}
		put(n(5*minute, 6*minute, 0, 2), n(6*minute, 7*minute, 1, 1), n(6*minute, 6*minute, 3, 1))
		want := n(5*minute, 7*minute, 5, 4)
		want.Last = 6 * minute
		expect("one after another", b.set.ID, want)
		put(n(8*minute, 9*minute, 0, 1))
		behind := n(8*minute, 9*minute, 1, 1)
		expect("behind a hole", b.set.ID, want, behind)
		put(n(7*minute, 8*minute, 0, 1)) // late: it touches the last one
		behind.From, behind.First, behind.Count, behind.Entries = 7*minute, 7*minute, 2, 2
		behind.Last = 8 * minute
		expect("a late one", b.set.ID, want, behind)
		put(n(1*minute, 2*minute, 0, 1)) // later still: what lies between is not covered
		early := n(1*minute, 2*minute, 1, 1)
		expect("a very late one", b.set.ID, early, want, behind)
		put(n(9*minute, 2*hour, 0, 0), n(hour, hour+minute, 0, 0)) // within the last one, but of the next hour
		behind.Until, behind.Count, behind.Last = 2*hour, 3, 9*minute
		nextHour := n(hour, hour+minute, 1, 0)
		expect("another hour", b.set.ID, early, want, behind, nextHour)
	})
	t.Run("feeds", func(t *testing.T) {
		b.set = b.ensureSet(b.claim, "five")
		f := func(from, until store.Micros, document string) store.Span {
			return store.Span{Kind: store.SpanFeed, From: from, Until: until, First: 1, Last: 1, Entries: 1,
				Document: document}
		}
		put(f(1, 2, "a"), f(2, 3, "a"), f(3, 4, "b"), f(4, 5, "b"))
		one, two := f(1, 3, "a"), f(3, 5, "b")
		one.Count, one.Entries, two.Count, two.Entries = 2, 2, 2, 2
		expect("by document", b.set.ID, one, two)
	})
	t.Run("windows", func(t *testing.T) { testSpanWindows(newBench(t, fresh)) })
	t.Run("claimed", func(t *testing.T) {
		_, claim, _ := b.source("other")
		foreign := b.ensureSet(claim, "x")
		for _, c := range []store.Commit{
			{Claim: b.claim, Spans: []store.Span{{SetID: foreign.ID, Kind: store.SpanFeed, From: 1, Until: 2}}},
			{Claim: b.claim, Spans: []store.Span{{SetID: b.set.ID, Kind: store.SpanFeed, From: 1, Until: 2}},
				Gaps: []*store.Gap{{ID: 1 << 40, SetID: b.set.ID}}},
		} {
			before := b.spans(b.set.ID)
			if err := b.st.Commit(b.ctx, &c); err == nil {
				t.Error("a commit that must fail went through")
			}
			b.same("after a failed commit", before, b.spans(b.set.ID))
		}
		if got := b.spans(foreign.ID); len(got) != 0 {
			t.Errorf("of another source: %+v", got)
		}
	})
}

// testSpanWindows: which spans touch a stretch of time.
func testSpanWindows(b *bench) {
	c := store.Commit{}
	for _, iv := range [][2]store.Micros{{0, 10}, {10, 20}, {15, 40}, {30, 30}, {store.NoTime, 25}, {store.NoTime, 5}} {
		kind := store.SpanArchive
		if !iv[0].Known() {
			kind = store.SpanBaseline
		}
		c.Spans = append(c.Spans, store.Span{SetID: b.set.ID, Kind: kind, From: iv[0], Until: iv[1]})
	}
	b.commit(c)
	for _, w := range []struct {
		from, until store.Micros
		limit       int
		want        string
	}{
		{store.NoTime, everything, 10, "-5 -25 0-10 10-20 15-40 30-30"}, {store.NoTime, everything, 3,
			"-25 15-40 30-30"},
		{10, 10, 10, "0-10 10-20"}, {11, 14, 10, "10-20"}, {20, 25, 10, "-25 10-20 15-40"}, {20, 24, 10, "10-20 15-40"},
		{41, everything, 10, ""}, {store.NoTime, -1, 10, ""}, {-5, 5, 10, "-5 0-10"}, {0, everything, 0, ""}, {0,
			everything, -1, ""},
	} {
		got, err := b.st.Spans(b.ctx, b.set.ID, w.from, w.until, w.limit)
		b.ok(err)
		var told []string
		for _, s := range got {
			from := ""
			if s.From.Known() {
				from = fmt.Sprint(s.From)
			}
			told = append(told, fmt.Sprintf("%s-%d", from, s.Until))
		}
		b.same(fmt.Sprintf("%d spans in [%d, %d]", w.limit, w.from, w.until), w.want, strings.Join(told, " "))
	}
}

func testSubscriptionEvents(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	began := store.MicrosOf(time.Now())
	sub := subscription(b, "t")
	sub.State, sub.Verified, sub.Granted, sub.Reason = store.SubWanted, store.NoTime, 0, ""
	b.ok(b.st.AddSubscription(b.ctx, &sub))
	change := func(fn func(*store.Subscription)) {
		t.Helper()
		_, err := b.st.ChangeSubscription(b.ctx, sub.ID, func(s *store.Subscription) error { fn(s); return nil })
		b.ok(err)
	}
	change(func(s *store.Subscription) { s.Attempts, s.Next, s.Granted = 5, 9, 77 })
	change(func(s *store.Subscription) { s.State, s.Verified, s.Granted = store.SubActive, 8, 3600 })
	change(func(*store.Subscription) {})
	change(func(s *store.Subscription) { s.Verified, s.Granted = 9, 7200 })
	change(func(s *store.Subscription) { s.State, s.Reason = store.SubDenied, "<no>" })
	b.ok(b.st.TallySubscription(b.ctx, sub.ID, store.Tally{PushMisses: 1}))
	_, err := b.st.ChangeSubscription(b.ctx, sub.ID,
		func(s *store.Subscription) error { s.State = store.SubGone; return store.ErrFull })
	b.is(err, store.ErrFull)
	of := func(from, to store.SubscriptionState, lease int64, reason string) store.SubscriptionEvent {
		return store.SubscriptionEvent{SubscriptionID: sub.ID, SourceID: b.src.ID, SetID: sub.SetID, Kind: sub.Kind,
			Topic: sub.Topic, Hub: sub.Hub,
			From: from, To: to, Lease: lease, Reason: reason}
	}
	want := []store.SubscriptionEvent{
		of(store.SubActive, store.SubDenied, 0, "<no>"), of(store.SubActive, store.SubActive, 7200, ""),
		of(store.SubWanted, store.SubActive, 3600, ""),
		of("", store.SubWanted, 0, ""),
	}
	got := b.steps(b.src.ID)
	last := store.SubscriptionEvent{ID: math.MaxInt64, At: store.MicrosOf(time.Now())}
	for i, e := range got {
		if e.At < began || e.At > last.At || e.ID >= last.ID {
			t.Errorf("event %d is %+v", i, e)
		}
		last = e
		got[i].ID, got[i].At = 0, 0
	}
	b.same("events", want, got)
	newest, err := b.st.SubscriptionEvents(b.ctx, b.src.ID, 1)
	b.ok(err)
	if len(newest) != 1 || newest[0].To != store.SubDenied {
		t.Errorf("the newest: %+v", newest)
	}
	other, _, _ := b.source("two")
	if got := b.steps(other.ID); len(got) != 0 {
		t.Errorf("of the other: %+v", got)
	}
	stray := subscription(b, "t") // the token is taken
	if err := b.st.AddSubscription(b.ctx, &stray); err == nil || len(b.steps(b.src.ID)) != 4 {
		t.Errorf("after a failed one: %v, %+v", err, b.steps(b.src.ID))
	}
}

func testTidyChronicle(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	two := b.ensureSet(b.claim, "two")
	other, _, _ := b.source("two")
	now := store.MicrosOf(time.Now())
	ages := []store.Micros{0, 2*day - hour, 2*day + hour, 99 * day, 102 * day, 5 * 365 * day, 7 * 365 * day}
	for _, age := range ages {
		b.ok(b.st.AddPoints(b.ctx, []store.Point{{SourceID: b.src.ID, At: now - age, Changes: 1},
			{SourceID: other.ID, At: now - age, Changes: 1}}))
	}
	c := store.Commit{}
	for i := range store.Micros(12_100) {
		c.Spans = append(c.Spans, store.Span{SetID: b.set.ID, Kind: store.SpanArchive, From: i, Until: i + 1})
		if i < 100 {
			c.Spans = append(c.Spans, store.Span{SetID: two.ID, Kind: store.SpanArchive, From: i, Until: i + 1})
		}
	}
	b.commit(c)
	sub := b.subscribe("t")
	for i := range 510 {
		_, err := b.st.ChangeSubscription(b.ctx, sub.ID,
			func(s *store.Subscription) error { s.Verified = store.Micros(1000 + i); return nil })
		b.ok(err)
	}
	tidy(b)
	days := map[store.Micros]bool{} // some of the ages share one, depending on the time of day
	for _, age := range ages[:len(ages)-1] {
		days[(now-age)/day] = true
	}
	for w, n := range map[store.Width]int{store.Minute: 2, store.Hour: 4, store.Day: len(days)} {
		for _, id := range []int64{b.src.ID, other.ID} {
			if got := b.points(id, w, store.NoTime, everything); len(got) != n {
				t.Errorf("%d points of %d seconds, want %d", len(got), w, n)
			}
		}
	}
	spans := b.spans(b.set.ID)
	if len(spans) != 10_000 || spans[0].From != 2100 || len(b.spans(two.ID)) != 100 {
		t.Errorf("%d spans from %+v, %d of the other set", len(spans), spans[0], len(b.spans(two.ID)))
	}
	if got := b.steps(b.src.ID); len(got) != 500 {
		t.Errorf("%d events of subscriptions", len(got))
	}
	before := spans[len(spans)-1].ID
	b.commit(store.Commit{Spans: []store.Span{{SetID: b.set.ID, Kind: store.SpanArchive, From: 1 << 40,
		Until: 1 << 41}}})
	if spans = b.spans(b.set.ID); len(spans) != 10_001 || spans[10_000].ID <= before {
		t.Errorf("%d spans after one more", len(spans))
	}
}
