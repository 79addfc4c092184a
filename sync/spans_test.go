package sync

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/peer/source"
	"resyncd/store"
	"resyncd/sync/coverage"
)

// spansIn are the spans of the only set.
func spansIn(t tester, st store.Store) []store.Span {
	t.Helper()
	ctx := context.Background()
	src, err := st.Source(ctx, "test")
	if err != nil {
		t.Fatal(err)
	}
	sets, err := st.Sets(ctx, src.ID)
	if err != nil || len(sets) != 1 {
		t.Fatalf("%d sets, %v", len(sets), err)
	}
	spans, err := st.Spans(ctx, sets[0].ID, store.NoTime, math.MaxInt64, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for i := range spans {
		s := &spans[i]
		if s.First > s.Last || time.Since(s.Last.Time()).Abs() > time.Minute {
			t.Errorf("taken up at %v and %v: %+v", s.First.Time(), s.Last.Time(), s)
		}
	}
	return spans
}

// spans tells those of the mirror between runs: kind, ends in units since the epoch that is given, entries, document.
func (r *rig) spans(epoch time.Time, unit time.Duration) []string {
	r.t.Helper()
	var out []string
	r.with(func(e *Engine, _ Target) {
		for _, s := range spansIn(r.t, e.Store) {
			since := func(m store.Micros) string {
				if !m.Known() {
					return "-"
				}
				return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(m.Time().Sub(epoch))/float64(unit)), ".0")
			}
			out = append(out, fmt.Sprintf("%s %s..%s %dx%d %s", s.Kind, since(s.From), since(s.Until), s.Count, s.Entries,
				strings.TrimPrefix(s.Document, r.srv.URL)))
		}
	})
	return out
}

func (r *rig) expectSpans(what string, epoch time.Time, unit time.Duration, want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.spans(epoch, unit)); diff != "" {
		r.t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// TestSpans: what a baseline, lists and archives prove stands in the record with what it is, once.
func TestSpans(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	epoch, err := time.Parse(time.RFC3339, when(0))
	if err != nil {
		t.Fatal(err)
	}
	expect := func(what string, want ...string) {
		t.Helper()
		f.expectSpans(what, epoch, time.Minute, want...)
	}
	interval := func(from, until int) string { return `from="` + when(from) + `" until="` + when(until) + `"` }
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml", "changelist-archive", "/old.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a"), f.res("/b", "b")))
	f.page("/old.xml", list("changelist-archive", ""))
	a1, c1 := f.changed("/a", "a1", "updated", 5), f.changed("/c", "c", "created", 15)
	f.page("/cl1.xml", list("changelist", interval(0, 10), a1))
	f.page("/cl2.xml", list("changelist", `from="`+when(10)+`"`, c1))
	first, second := f.part("/cl1.xml", interval(0, 10)), f.part("/cl2.xml", `from="`+when(10)+`"`)
	f.page("/cl.xml", index("changelist", `from="`+when(0)+`"`, first, second))
	f.one(true)
	want := []string{"baseline -..0 1x2 /rl.xml", "change-list 0..10 1x1 /cl1.xml", "change-list 10..15 1x1 /cl2.xml"}
	expect("after the first run", want...)
	f.quiet()
	f.opts.Full = true
	f.one(true)
	f.opts.Full = false
	expect("all of it read once more", want...)

	c2 := f.changed("/c", "c2", "updated", 18)
	f.page("/cl2.xml", list("changelist", `from="`+when(10)+`"`, c1, c2))
	f.one(true)
	want[2] = "change-list 10..18 1x2 /cl2.xml"
	expect("the open list grew", want...)

	// It is closed and archived, and so is the next one, before anybody looked.
	f.page("/cl2.xml", list("changelist", interval(10, 20), c1, c2))
	f.page("/cl3.xml", list("changelist", interval(20, 30), f.changed("/d", "d", "created", 25)))
	f.page("/cl4.xml", list("changelist", `from="`+when(30)+`"`, f.changed("/e", "e", "created", 35)))
	f.page("/cl.xml", index("changelist", `from="`+when(30)+`"`, f.part("/cl4.xml", `from="`+when(30)+`"`)))
	f.page("/old.xml", list("changelist-archive", "", f.entry("/cl1.xml", interval(0, 10)), f.entry("/cl2.xml", interval(10, 20)),
		f.entry("/cl3.xml", interval(20, 30))))
	f.one(true)
	want = append(want, "archive 10..20 1x2 /cl2.xml", "archive 20..30 1x1 /cl3.xml", "change-list 30..35 1x1 /cl4.xml")
	expect("a hole filled from the archive", want...)
	f.quiet()
	expect("nothing new", want...)
}

// TestSpansOfNothing: what proves nothing leaves no span.
func TestSpansOfNothing(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	f.page("/rl.xml", index("resourcelist", `at="`+when(0)+`"`, f.part("/rl1.xml", ""), f.part("/rl2.xml", "")))
	f.page("/rl1.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a"))) // the other part is missing
	f.page("/cl.xml", list("changelist", "", f.changed("/a", "a1", "updated", 5))) // no from
	f.one(false)
	f.expectSpans("after the run", time.Time{}, time.Hour)
}

// TestSpansOfPushes: signed notifications are counted together while they follow one another; a hint proves nothing.
func TestSpansOfPushes(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, many(3))
	pushed := func() (out []store.Span) {
		t.Helper()
		for _, s := range spansIn(t, p.store) {
			if s.Kind == store.SpanNotification {
				out = append(out, s)
			}
		}
		return out
	}
	before := pushed()
	if len(before) == 0 {
		t.Fatal("the first push left no span")
	}
	last := before[len(before)-1]
	p.put("a.txt", "2")
	p.put("b.txt", "2")
	p.push()
	p.eventually("quiet", func() bool { return p.same() && p.quiet() })
	got := pushed()
	if whole, parted := last.From/3600e6 == got[len(got)-1].From/3600e6, len(got) > len(before); whole == parted {
		t.Fatalf("an hour is one span: %+v, then %+v", before, got)
	}
	entries, end := int64(0), store.NoTime
	for _, s := range got {
		entries, end = entries+s.Entries, max(end, s.Until)
	}
	if set := p.theSet(); entries != 3 || end != (&coverage.Coverage{Floor: set.Floor, Proven: set.Proven, Joint: set.Joint}).Position() {
		t.Errorf("%d entries up to %v of %+v", entries, end.Time(), set)
	}

	p.put("c.txt", "3")
	changes, iv := p.taken()
	p.deliver(iv, p.document(iv, changes), false)
	p.eventually("the hint was followed", func() bool { return p.same() && p.quiet() })
	if diff := cmp.Diff(got, pushed()); diff != "" {
		t.Errorf("an unsigned notification (-want +got):\n%s", diff)
	}
}

// TestSpansOfTopics: each reading of a feed proves what lies between the last one and its newest entry, but no more than
// it reaches back.
func TestSpansOfTopics(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, posts(1, 3)...)
	expect := func(what string, want ...string) {
		t.Helper()
		s.expectSpans(what, on(0), 24*time.Hour, want...)
	}
	s.sync()
	want := []string{"baseline -..3 1x3 " + feedPath}
	expect("the first reading", want...)
	s.sync()
	s.set(feedPath, page{typ: "application/atom+xml", body: atom("<subtitle>again</subtitle>", posts(1, 3)...)})
	s.sync()
	expect("nothing new", want...)
	s.feed(posts(2, 5)...)
	s.sync()
	want = append(want, "feed 3..5 1x2 "+feedPath)
	expect("two more", want...)
	s.feed(posts(8, 9)...) // it does not reach back to 5
	if res, err := s.run(); err != nil || res.GapsFound != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	want = append(want, "feed 8..9 1x2 "+feedPath)
	expect("a hole before it", want...)
}
