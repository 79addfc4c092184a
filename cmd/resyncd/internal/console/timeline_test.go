package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"resyncd/store"
	"resyncd/sync/report"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestWindow(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		query string
		age   time.Duration // of what there is to see
		zoom  string
		until time.Time // zero: live
	}{
		{"", 30 * time.Second, "minute", time.Time{}},
		{"", 5 * time.Minute, "10-minutes", time.Time{}},
		{"", 57 * time.Minute, "6-hours", time.Time{}},
		{"", 400 * day, "day", time.Time{}},
		{"zoom=year", time.Minute, "year", time.Time{}},
		{"zoom=century", 400 * day, "day", time.Time{}},
		{"zoom=hour&until=2026-11-21T10:00:00Z", day, "hour", noon.Add(-2 * time.Hour)},
		{"zoom=hour&until=2026-11-21T11:00:00%2B01:00", day, "hour", noon.Add(-2 * time.Hour)},
		{"zoom=hour&until=yesterday", day, "hour", time.Time{}},
		{"zoom=hour&until=0001-01-01T00:00:00Z", day, "hour", time.Time{}},
		{"zoom=hour&until=9999-01-01T00:00:00Z", day, "hour", time.Time{}},
	} {
		q, err := url.ParseQuery(tc.query)
		if err != nil {
			t.Fatal(err)
		}
		w := newWindow(q, noon.Add(-tc.age), noon)
		if zooms[w.zoom].Name != tc.zoom || w.live != tc.until.IsZero() || !w.live && !w.Until.Equal(tc.until) || w.live && !w.Until.After(noon) || w.Until.Sub(w.From) != w.width() {
			t.Errorf("%q: %s, %v to %v", tc.query, zooms[w.zoom].Name, w.From, w.Until)
		}
	}
	if w := newWindow(nil, time.Time{}, noon); zooms[w.zoom].Name != "day" {
		t.Errorf("without anything to see: %s", zooms[w.zoom].Name)
	}
}

// TestAroundAges: what is longer than any window is shown in the widest, also where no Duration holds its length.
func TestAroundAges(t *testing.T) {
	t.Parallel()
	for _, from := range []time.Time{{}, noon.AddDate(-100, 0, 0), noon.AddDate(-2, 0, 0)} {
		if got := around("a", 1, from, noon); !strings.Contains(got, "zoom=year&") {
			t.Errorf("from %v: %s", from, got)
		}
	}
}

// TestTicks: at each step there are a few, in order and on round instants.
func TestTicks(t *testing.T) {
	t.Parallel()
	for _, z := range zooms {
		w := newWindow(url.Values{"zoom": {z.Name}, "until": {"2026-11-21T12:34:56Z"}}, noon, noon)
		ticks := w.ticks()
		if len(ticks) < 5 || len(ticks) > 13 {
			t.Errorf("%s: %d ticks", z.Name, len(ticks))
		}
		labels := map[string]bool{}
		for _, k := range ticks {
			if k.Label != "" && labels[k.Label] {
				t.Errorf("%s: %q twice", z.Name, k.Label)
			}
			labels[k.Label] = true
		}
	}
	year := newWindow(url.Values{"zoom": {"year"}, "until": {"2026-11-21T12:34:56Z"}}, noon, noon).ticks()
	var got []string
	for _, k := range year {
		got = append(got, k.Label)
	}
	if want := "Dec 2026 Feb Mar Apr May Jun Jul Aug Sep Oct Nov"; strings.Join(got, " ") != want {
		t.Errorf("a year: %q", got)
	}
}

// TestMerge: however many pieces there are, few bars are drawn; together they stand for all pieces and cover no more time
// outside of holes that cannot be seen, in order.
func TestMerge(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWindow(url.Values{"zoom": {"hour"}, "until": {"2026-11-21T12:00:00Z"}}, noon, noon)
		v := &timelineView{window: w}
		var spans []store.Span
		var pieces, entries int64
		for range rapid.IntRange(0, 600).Draw(t, "spans") {
			from := w.From.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "from")))
			s := store.Span{Kind: "notification", From: store.MicrosOf(from), Until: store.MicrosOf(from.Add(time.Duration(rapid.Int64Range(0, int64(20*time.Minute)).Draw(t, "length")))), Count: rapid.Int64Range(0, 9).Draw(t, "count"), Entries: 3}
			spans = append(spans, s)
			pieces, entries = pieces+max(1, s.Count), entries+3
		}
		bars := v.spans("Notifications", spans)
		if len(bars) > mostShapes {
			t.Fatalf("%d bars", len(bars))
		}
		last := time.Time{}
		for _, b := range bars {
			pieces, entries = pieces-b.Count, entries-b.Entries
			if b.From.Before(last) || b.Until.Before(b.From) {
				t.Fatalf("%v to %v after %v", b.From, b.Until, last)
			}
			last = b.From
		}
		if pieces != 0 || entries != 0 {
			t.Fatalf("%d pieces and %d entries are lost", pieces, entries)
		}
	})
}

// TestMergeKeepsHoles: what can be seen stays apart, what cannot becomes one.
func TestMergeKeepsHoles(t *testing.T) {
	t.Parallel()
	w := newWindow(url.Values{"zoom": {"hour"}, "until": {"2026-11-21T12:00:00Z"}}, noon, noon)
	v := &timelineView{window: w}
	at := func(minutes float64) time.Time { return w.From.Add(time.Duration(minutes * float64(time.Minute))) }
	span := func(from, until float64) store.Span {
		return store.Span{Kind: "notification", From: store.MicrosOf(at(from)), Until: store.MicrosOf(at(until)), Count: 1}
	}
	got := v.spans("Notifications", []store.Span{
		span(-9, -1), span(0, 10), span(10, 20), span(30, 30.01), span(30.02, 30.03), span(30.04, 30.05), span(31, 31.01), span(61, 70),
	})
	var counts []int64
	for _, s := range got {
		counts = append(counts, s.Count)
	}
	if diff := cmp.Diff([]int64{1, 1, 3, 1}, counts); diff != "" {
		t.Error(diff)
	}
	if want := "Notifications (3): 2026-11-21 11:30:00 to 2026-11-21 11:30:03; 0 entries"; got[2].Words != want {
		t.Errorf("%q", got[2].Words)
	}
}

// TestMergeBounds: pieces that could be told apart become one all the same where there are hundreds.
func TestMergeBounds(t *testing.T) {
	t.Parallel()
	w := newWindow(url.Values{"zoom": {"hour"}, "until": {"2026-11-21T12:00:00Z"}}, noon, noon)
	var spans []store.Span
	var gaps []report.GapStatus
	for i := range 300 {
		from := w.From.Add(time.Duration(i) * 12 * time.Second)
		spans = append(spans, store.Span{Kind: "notification", From: store.MicrosOf(from), Until: store.MicrosOf(from.Add(6 * time.Second))})
		gaps = append(gaps, report.GapStatus{From: report.Time{Time: from}, Until: report.Time{Time: from.Add(6 * time.Second)}, State: []string{"waiting", "lagging"}[i%2]})
	}
	v := &timelineView{window: w}
	if n := len(v.spans("Notifications", spans)); n > mostShapes {
		t.Errorf("%d bars", n)
	}
	if n := len(v.gaps(gaps, false)); n > mostShapes {
		t.Errorf("%d gaps", n)
	}
}

// TestTimelineOfTheYear: with all the evidence of months the picture stays small, at every step.
func TestTimelineOfTheYear(t *testing.T) {
	t.Parallel()
	h := New(Options{Data: newFake(time.Now(), "")})
	for _, z := range zooms {
		page := ask(h, http.MethodGet, "/source/archive.example?set=10&zoom="+z.Name).Body.String()
		from := strings.Index(page, `<figure class="time"`)
		picture := page[from : from+strings.Index(page[from:], "</figure>")]
		if n := strings.Count(picture, "<rect") + strings.Count(picture, "<line") + strings.Count(picture, "<text"); n > 400 || len(picture) > 100<<10 {
			t.Errorf("%s: %d shapes, %d bytes", z.Name, n, len(picture))
		}
	}
}

// TestTimelinePicture: the lanes, marks and links of one window.
func TestTimelinePicture(t *testing.T) {
	t.Parallel()
	f := newFake(noon, "")
	w := newWindow(url.Values{"zoom": {"hour"}, "until": {"2026-11-21T12:00:00Z"}}, noon, noon)
	tl, err := f.Timeline(t.Context(), "archive.example", 10, w.From, w.Until)
	if err != nil {
		t.Fatal(err)
	}
	at := func(d time.Duration) report.Time { return report.Time{Time: noon.Add(-d)} }
	set := &SetView{SetStatus: report.SetStatus{ID: 10, Position: at(14 * time.Minute), Proven: at(31 * time.Minute),
		Gaps: append(f.gaps(true), report.GapStatus{From: at(99 * day), Until: at(98 * day), State: "waiting"})}}
	v := newTimeline("archive.example", w, noon, set, &tl)
	var lanes, marks, gaps []string
	for _, l := range v.Lanes {
		lanes = append(lanes, l.Name)
	}
	for _, m := range v.Marks {
		marks = append(marks, m.Class+" "+m.X+" "+m.Label)
	}
	for _, s := range v.Lanes[len(v.Lanes)-1].Shapes {
		gaps = append(gaps, s.Class+" "+s.X+" "+s.W+" "+s.Label)
	}
	if diff := cmp.Diff([]string{"Known", "Notifications", "Change Lists", "Archives", "Baselines", "Gaps"}, lanes); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"now 100% ", "proven 48.33% proven", "position 76.67% position"}, marks); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"closed by-change-list 21.67% 11.67% closed by change-list", "open 76.67% 13.33% lagging"}, gaps); diff != "" {
		t.Error(diff)
	}
	if len(v.Outside) != 1 || !v.Outside[0].From.Equal(noon.Add(-99*day)) {
		t.Errorf("outside: %v", v.Outside)
	}
	if want := "/source/archive.example?set=10&zoom=hour&until=2026-11-21T11%3A30%3A00Z#timeline"; v.Back != want {
		t.Errorf("back: %s", v.Back)
	}
	if got, want := around("a", 1, noon, noon.Add(40*time.Minute)), "/source/a?set=1&zoom=hour&until=2026-11-21T12%3A50%3A00Z#timeline"; got != want {
		t.Errorf("around: %s", got)
	}
	feed := Timeline{Spans: []store.Span{{Kind: "feed", From: store.MicrosOf(noon.Add(-time.Hour)), Until: store.MicrosOf(noon)}}}
	lanes = nil
	for _, l := range newTimeline("a", w, noon, &SetView{}, &feed).Lanes {
		lanes = append(lanes, l.Name)
	}
	if diff := cmp.Diff([]string{"Known", "Feed", "Gaps"}, lanes); diff != "" {
		t.Error(diff)
	}
}
