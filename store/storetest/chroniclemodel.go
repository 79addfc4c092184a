package storetest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"resyncd/store"
)

// chronicleModel is the chronicle in its plainest form: spans in the order of their ids, and points
// by what they add to.
type chronicleModel struct {
	epoch  store.Micros // the points lie around it
	spans  []store.Span
	points map[[3]int64]*store.Point // by width, beginning and Source
}

// testChronicleModel lets random evidence and points run against the store and the model.
func testChronicleModel(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++ // each time Sources of their own
		b.src, b.claim, _ = b.source(fmt.Sprint("chronicle ", n))
		other, err := b.st.EnsureSource(b.ctx, fmt.Sprint("beside ", n), "u")
		if err != nil {
			rt.Fatal(err)
		}
		b.set = b.ensureSet(b.claim, "one")
		two := b.ensureSet(b.claim, "two")
		m := &chronicleModel{epoch: store.Micros(n-50) * 100 * day, points: map[[3]int64]*store.Point{}}
		sets, sources := []int64{b.set.ID, two.ID}, []int64{b.src.ID, other.ID}
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			if rapid.Bool().Draw(rt, "evidence") {
				m.prove(rt, b, sets)
			} else {
				m.count(rt, b, sources)
			}
		}
		m.compareSpans(rt, b, sets)
		m.comparePoints(rt, b, sources)
	})
}

func (m *chronicleModel) prove(rt *rapid.T, b *bench, sets []int64) {
	c := &store.Commit{Claim: b.claim}
	for range rapid.IntRange(1, 12).Draw(rt, "spans") {
		s := store.Span{
			SetID: rapid.SampledFrom(sets).Draw(rt, "set"),
			Kind: rapid.SampledFrom([]store.SpanKind{store.SpanNotification, store.SpanNotification,
				store.SpanChangeList, store.SpanBaseline, store.SpanFeed}).Draw(rt, "kind"),
			From:     store.Micros(rapid.Int64Range(-8, 8).Draw(rt, "from")) * 10 * minute,
			First:    store.Micros(rapid.Int64Range(0, 9).Draw(rt, "first")),
			Count:    rapid.Int64Range(0, 2).Draw(rt, "count"),
			Entries:  rapid.Int64Range(0, 9).Draw(rt, "entries"),
			Document: rapid.SampledFrom([]string{"", "d"}).Draw(rt, "document"),
		}
		s.Until = s.From + store.Micros(rapid.Int64Range(0, 3).Draw(rt, "length"))*10*minute
		s.Last = s.First + 1
		if s.Kind == store.SpanBaseline {
			s.From = store.NoTime
		}
		c.Spans = append(c.Spans, s)
		s.Count = max(s.Count, 1)
		m.add(s)
	}
	if err := b.st.Commit(b.ctx, c); err != nil {
		rt.Fatal(err)
	}
}

// add merges as store.Span describes.
func (m *chronicleModel) add(s store.Span) {
	stream := s.Kind == store.SpanNotification || s.Kind == store.SpanFeed
	at := -1
	for i, was := range m.spans {
		if was.SetID != s.SetID || was.Kind != s.Kind || was.Document != s.Document {
			continue
		}
		switch {
		case !stream:
			if was.From == s.From && (s.From.Known() || was.Until == s.Until) {
				at = i
			}
		case at < 0 || was.From > m.spans[at].From || was.From == m.spans[at].From && was.Until >= m.spans[at].Until:
			at = i
		}
	}
	hourOf := func(m store.Micros) float64 { return math.Floor(float64(m) / float64(hour)) }
	if at >= 0 && stream {
		if was := m.spans[at]; hourOf(was.From) != hourOf(s.From) || s.From > was.Until || s.Until < was.From {
			at = -1
		}
	}
	if at < 0 {
		m.spans = append(m.spans, s)
		return
	}
	was := &m.spans[at]
	was.Until, was.First, was.Last = max(was.Until, s.Until), min(was.First, s.First), max(was.Last, s.Last)
	if stream {
		was.From, was.Count, was.Entries = min(was.From, s.From), was.Count+s.Count, was.Entries+s.Entries
	} else {
		was.Entries = s.Entries
	}
}

func (m *chronicleModel) count(rt *rapid.T, b *bench, sources []int64) {
	small := func(label string) int64 { return rapid.Int64Range(0, 3).Draw(rt, label) }
	var points []store.Point
	for range rapid.IntRange(0, 12).Draw(rt, "points") {
		p := store.Point{
			SourceID: rapid.SampledFrom(append(sources, 1<<30)).Draw(rt, "source"),
			At:       m.epoch + store.Micros(rapid.Int64Range(-50, 50).Draw(rt, "at"))*40e6,
			Changes:  small("changes"), LatencyMost: small("most"),
		}
		p.Failed, p.Bytes, p.Pushes, p.Latency, p.Misses = p.Changes/2, 10*p.Changes, p.LatencyMost/2, p.LatencyMost,
			p.Changes/3

		points = append(points, p)
		if p.SourceID == 1<<30 || p == (store.Point{SourceID: p.SourceID, At: p.At}) {
			continue
		}
		for _, w := range []store.Width{store.Minute, store.Hour, store.Day} {
			begin := store.Micros(math.Floor(float64(p.At)/float64(w*1e6))) * store.Micros(w) * 1e6
			key := [3]int64{int64(w), int64(begin), p.SourceID}
			if m.points[key] == nil {
				m.points[key] = &store.Point{SourceID: p.SourceID, At: begin}
			}
			to := m.points[key]
			to.Changes, to.Failed, to.Bytes, to.Pushes = to.Changes+p.Changes, to.Failed+p.Failed, to.Bytes+p.Bytes,
				to.Pushes+p.Pushes
			to.Latency, to.LatencyMost, to.Misses = to.Latency+p.Latency, max(to.LatencyMost,
				p.LatencyMost), to.Misses+p.Misses
		}
	}
	if err := b.st.AddPoints(b.ctx, points); err != nil {
		rt.Fatal(err)
	}
}

func (m *chronicleModel) compareSpans(rt *rapid.T, b *bench, sets []int64) {
	for _, set := range sets {
		from := store.Micros(rapid.Int64Range(-10, 10).Draw(rt, "window from")) * 10 * minute
		until := from + store.Micros(rapid.Int64Range(0, 10).Draw(rt, "window"))*10*minute
		limit := rapid.IntRange(0, 20).Draw(rt, "limit")
		got, err := b.st.Spans(b.ctx, set, from, until, limit)
		if err != nil {
			rt.Fatal(err)
		}
		var want []store.Span
		for _, s := range m.spans {
			begin := s.From
			if !begin.Known() {
				begin = s.Until
			}
			if s.SetID == set && s.Until >= from && begin <= until {
				want = append(want, s)
			}
		}
		if len(got) != min(len(want), limit) {
			rt.Fatalf("%d spans of %d, %d asked for", len(got), len(want), limit)
		}
		// Which of several with one Until are left out is open; those with a later one are not.
		slices.SortFunc(want, func(a, b store.Span) int { return -cmp.Compare(a.Until, b.Until) })
		if len(got) < len(want) {
			edge := want[len(got)].Until
			above := func(s store.Span) bool { return s.Until <= edge }
			want, got = slices.DeleteFunc(want, above), slices.DeleteFunc(got, above)
		}
		order := func(a, b store.Span) int { return cmp.Compare(a.From, b.From) }
		if !slices.IsSortedFunc(got, order) {
			rt.Fatalf("not in order: %+v", got)
		}
		for i := range got {
			got[i].ID = 0
		}
		total := func(a, b store.Span) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }
		slices.SortFunc(want, total)
		slices.SortFunc(got, total)
		if diff := gocmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
			rt.Fatalf("spans (-want +got):\n%s", diff)
		}
	}
}

func (m *chronicleModel) comparePoints(rt *rapid.T, b *bench, sources []int64) {
	from := m.epoch + store.Micros(rapid.Int64Range(-50, 50).Draw(rt, "points from"))*40e6
	until := from + store.Micros(rapid.Int64Range(0, 100).Draw(rt, "points for"))*40e6
	for _, w := range []store.Width{store.Minute, store.Hour, store.Day} {
		var all []store.Point
		for _, source := range sources {
			got, err := b.st.Points(b.ctx, source, w, from, until)
			if err != nil {
				rt.Fatal(err)
			}
			want := []store.Point{}
			for key, p := range m.points {
				if key[0] == int64(w) && key[2] == source && p.At >= from && p.At < until {
					want = append(want, *p)
				}
			}
			slices.SortFunc(want, func(a, b store.Point) int { return cmp.Compare(a.At, b.At) })
			if diff := gocmp.Diff(want, append([]store.Point{}, got...)); diff != "" {
				rt.Fatalf("points of %d seconds of source %d (-want +got):\n%s", w, source, diff)
			}
			all = append(all, got...)
		}
		got, err := b.st.Points(b.ctx, 0, w, from, until)
		if err != nil {
			rt.Fatal(err)
		}
		if diff := gocmp.Diff(append([]store.Point{}, all...), append([]store.Point{}, got...)); diff != "" {
			rt.Fatalf("points of all sources (-want +got):\n%s", diff)
		}
	}
}
