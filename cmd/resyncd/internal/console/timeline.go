package console

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"resyncd/store"
	"resyncd/sync/report"
)

// Sizes of the timeline; widths are percents.
const (
	laneTop    = 24
	laneHeight = 34
	barTop     = 15 // below a lane's label
	barHeight  = 14
	axisHeight = 20
)

type timelineView struct {
	window
	Source                   string
	Set                      int64
	Height, Bottom, AxisText int
	timelineLinks
	Ticks            []tick
	Lanes            []lane
	Marks            []mark
	Position, Proven time.Time
	Outside          []report.GapStatus // open gaps that the window does not show
	MoreOutside      int                // beyond mostOutside
	Cut              bool
	Nothing          bool
}

// timelineLinks are the addresses of other windows.
type timelineLinks struct {
	Zooms         []zoomLink
	Back, Forward string
	Live          string // "" where the window is live already
	ToPosition    string // where the position is, "" where it is shown
}

type zoomLink struct {
	Words, Href string
	Here        bool
}

type lane struct {
	Name, Class       string
	LabelY, BarY, Low int
	Shapes            []shape
}

type mark struct {
	X, Label, Class, Anchor string
	Y                       int
}

// evidence names the kinds, in the order of their lanes.
var evidence = [...]struct {
	kind store.SpanKind
	name string
}{
	{store.SpanNotification, "Notifications"}, {store.SpanFeed, "Feed"}, {store.SpanChangeList, "Change Lists"},
	{store.SpanArchive, "Archives"}, {store.SpanChangeDump, "Change Dumps"}, {store.SpanBaseline, "Baselines"},
}

func newTimeline(source string, w window, now time.Time, set *SetView, t *Timeline) *timelineView {
	v := &timelineView{window: w, Source: source, Set: set.ID, Ticks: w.ticks(), Position: set.Position.Time,
		Proven: set.Proven.Time, Cut: t.Cut}
	v.navigate()
	v.Lanes = append(v.Lanes, v.known())
	kinds := map[store.SpanKind][]store.Span{}
	for _, s := range t.Spans {
		kinds[s.Kind] = append(kinds[s.Kind], s)
	}
	isFeed := len(kinds[store.SpanFeed]) > 0
	for _, e := range evidence {
		spans := kinds[e.kind]
		if len(spans) == 0 && (isFeed != (e.kind == store.SpanFeed) || e.kind == store.SpanChangeDump) {
			continue // a feed has no lists, other sets have no feed, and few have dumps
		}
		v.Lanes = append(v.Lanes, lane{Name: e.name, Class: "k-" + string(e.kind), Shapes: v.spans(e.name, spans)})
	}
	v.Lanes = append(v.Lanes, lane{Name: "Gaps", Class: "k-gap", Shapes: v.gaps(set.Gaps, set.Feed)})
	v.Nothing = true
	for i := range v.Lanes {
		l := &v.Lanes[i]
		l.LabelY, l.BarY = laneTop+i*laneHeight+11, laneTop+i*laneHeight+barTop
		l.Low = l.BarY + barHeight
		v.Nothing = v.Nothing && (i == 0 || len(l.Shapes) == 0)
	}
	v.Bottom = laneTop + len(v.Lanes)*laneHeight
	v.AxisText, v.Height = v.Bottom+14, v.Bottom+axisHeight
	v.mark(now)
	for _, g := range set.Gaps {
		if isOpen(&g) && (g.From.After(w.Until) || g.Until.Before(w.From)) {
			v.Outside = append(v.Outside, g)
		}
	}
	if n := len(v.Outside) - mostOutside; n > 0 {
		v.Outside, v.MoreOutside = v.Outside[:mostOutside], n
	}
	return v
}

// navigate makes links; closer and wider windows keep the middle.
func (v *timelineView) navigate() {
	for i, z := range zooms {
		until := time.Time{}
		if !v.live {
			until = v.Until.Add(-v.width() / 2).Add(z.Width / 2)
		}
		v.Zooms = append(v.Zooms, zoomLink{Words: z.Words, Href: link(v.Source, v.Set, i, until), Here: i == v.zoom})
	}
	v.Back = link(v.Source, v.Set, v.zoom, v.Until.Add(-v.width()/2))
	if !v.live {
		v.Forward = link(v.Source, v.Set, v.zoom, v.Until.Add(v.width()/2))
		v.Live = link(v.Source, v.Set, v.zoom, time.Time{})
	}
	if p := v.Position; !p.IsZero() && (p.Before(v.From) || p.After(v.Until)) {
		v.ToPosition = link(v.Source, v.Set, v.zoom, p.Add(v.width()/4))
	}
}

func (v *timelineView) known() lane {
	l := lane{Name: "Known", Class: "k-known"}
	if p := v.Proven; p.After(v.From) {
		l.Shapes = append(l.Shapes, v.shape("proven", time.Time{}, p, "Every change up to "+p.UTC().Format(clock)+
			" is known; the Source's own documents prove it"))
	}
	if p := v.Position; p.After(v.Proven) && p.After(v.From) {
		l.Shapes = append(l.Shapes, v.shape("pushed", v.Proven, p, "Known up to "+p.UTC().Format(clock)+
			" by what was pushed; the next pull will prove it"))
	}
	return l
}

func (v *timelineView) shape(class string, from, until time.Time, words string) shape {
	a, b := v.x(from), v.x(until)
	return shape{X: percent(a), W: percent(b - a), Class: class, From: from, Until: until, Words: words, first: a,
		last: b}
}

func (v *timelineView) mark(now time.Time) {
	add := func(at time.Time, label, class string, y int) {
		if at.IsZero() || at.Before(v.From) || at.After(v.Until) {
			return
		}
		x := v.x(at)
		m := mark{X: percent(x), Label: label, Class: class, Anchor: "middle", Y: y}
		switch {
		case x > 85:
			m.Anchor = "end"
		case x < 15:
			m.Anchor = "start"
		}
		v.Marks = append(v.Marks, m)
	}
	add(now, "", "now", 0)
	if near := v.x(v.Position) - v.x(v.Proven); near < 22 {
		add(v.Proven, "", "proven", 14)
		if near < 0.2 {
			add(v.Position, "position, proven", "position", 14)
			return
		}
	} else {
		add(v.Proven, "proven", "proven", 14)
	}
	add(v.Position, "position", "position", 14)
}

// spans draws the evidence of one kind; pieces too small to be told apart become one.
func (v *timelineView) spans(name string, spans []store.Span) []shape {
	var all []shape
	for _, s := range spans {
		from, until := s.From.Time(), s.Until.Time()
		if until.Before(v.From) || from.After(v.Until) {
			continue
		}
		sh := v.shape(string(s.Kind), from, until, "")
		sh.Kind, sh.Seen, sh.Count, sh.Entries, sh.Document = name, s.Last.Time(), max(1, s.Count), s.Entries,
			address(s.Document)
		all = append(all, sh)
	}
	all = merge(all, func(shape, shape) bool { return true })
	for i := range all {
		all[i].describe()
	}
	return all
}

func (v *timelineView) gaps(gaps []report.GapStatus, feed bool) []shape {
	var all []shape
	for _, g := range gaps {
		if g.Until.Before(v.From) || g.From.After(v.Until) {
			continue
		}
		sh := v.shape(gapClass(&g), g.From.Time, g.Until.Time, "")
		sh.Kind, sh.Count, sh.Seen, sh.Document = "Gap", 1, g.Found.Time, gap(g, feed).Why
		sh.Label = plain(g.State)
		if g.ClosedBy != nil {
			sh.Label = "closed by " + plain(*g.ClosedBy)
		}
		sh.Href = around(v.Source, v.Set, g.From.Time, g.Until.Time)
		all = append(all, sh)
	}
	all = merge(all, func(a, b shape) bool { return a.Class == b.Class && a.Label == b.Label })
	for i := range all {
		s := &all[i]
		s.Words = fmt.Sprintf("Gap of %s: %s, %s", long(s.Until.Sub(s.From)), s.stretch(), s.Label)
		if s.Count > 1 {
			s.Words = fmt.Sprintf("%s gaps: %s, %s", count(s.Count), s.stretch(), s.Label)
		} else if s.Document != "" {
			s.Words += ". " + s.Document
		}
		if s.last-s.first < 9 {
			s.Label = ""
		}
	}
	return all
}

func isOpen(g *report.GapStatus) bool { return g.Ended.IsZero() && store.GapState(g.State).Open() }

func gapClass(g *report.GapStatus) string {
	switch {
	case isOpen(g):
		return "open"
	case g.State == string(store.GapUnprovable):
		return "lost"
	case g.ClosedBy != nil && closers[*g.ClosedBy] != "":
		return "closed by-" + *g.ClosedBy
	}
	return "closed"
}

const mostShapes = 64

type shape struct {
	X, W        string
	Class       string
	Kind        string
	From, Until time.Time
	Seen        time.Time
	Count       int64
	Entries     int64
	Document    string
	Words       string // all of it, for the title
	Label       string // in the bar, where there is room
	Href        string

	first, last float64
}

// merge joins neighbours too small to be told apart, until mostShapes are left.
func merge(all []shape, alike func(a, b shape) bool) []shape {
	slices.SortStableFunc(all, func(a, b shape) int { return a.From.Compare(b.From) })
	for small, hole := 0.4, 0.15; ; small, hole = small*2, hole*2 {
		var out []shape
		for _, s := range all {
			if n := len(out) - 1; n >= 0 && alike(out[n], s) && s.first-out[n].last <= hole &&
				(s.last-s.first <= small || out[n].last-out[n].first <= small) {
				out[n] = out[n].with(s)
				continue
			}
			out = append(out, s)
		}
		if len(out) <= mostShapes {
			return out
		}
		if hole > 100 { // the newest
			return out[len(out)-mostShapes:]
		}
	}
}

func (s shape) with(b shape) shape {
	s.Until = slices.MaxFunc([]time.Time{s.Until, b.Until}, time.Time.Compare)
	s.Seen = slices.MaxFunc([]time.Time{s.Seen, b.Seen}, time.Time.Compare)
	s.Count += b.Count
	s.Entries += b.Entries
	s.last = max(s.last, b.last)
	s.W = percent(s.last - s.first)
	if s.Document != b.Document {
		s.Document = "several"
	}
	return s
}

func (s *shape) describe() {
	s.Words = s.Kind
	if s.Count > 1 {
		s.Words += " (" + count(s.Count) + ")"
	}
	s.Words += ": " + s.stretch() + "; " + count(s.Entries) + " entries"
	if s.Document != "" {
		s.Words += "; " + s.Document
	}
}

func (s *shape) stretch() string {
	if s.From.IsZero() {
		return "everything up to " + s.Until.UTC().Format(clock)
	}
	return s.From.UTC().Format(clock) + " to " + s.Until.UTC().Format(clock)
}

type zoom struct {
	Name  string // in addresses
	Words string
	Width time.Duration
}

const day = 24 * time.Hour

// zooms, the closest first.
var zooms = [...]zoom{
	{"minute", "minute", time.Minute},
	{"10-minutes", "10 min", 10 * time.Minute},
	{"hour", "hour", time.Hour},
	{"6-hours", "6 hours", 6 * time.Hour},
	{"day", "day", day},
	{"week", "week", 7 * day},
	{"month", "month", 30 * day},
	{"year", "year", 365 * day},
}

var (
	earliest = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

type window struct {
	From, Until time.Time
	zoom        int
	live        bool
}

// newWindow reads ?zoom= and ?until=, and chooses what makes no sense.
func newWindow(q url.Values, begin, end time.Time) window {
	w := window{live: true}
	w.zoom = slices.IndexFunc(zooms[:], func(z zoom) bool { return z.Name == q.Get("zoom") })
	if w.zoom < 0 { // the closest that shows all
		for w.zoom = 0; zooms[w.zoom].Width < day && (begin.IsZero() || end.Sub(begin) > zooms[w.zoom].Width*9/10); {
			w.zoom++
		}
	}
	w.Until = end.Add(w.width() / 25)
	if at, err := time.Parse(time.RFC3339, q.Get("until")); err == nil && at.After(earliest) && at.Before(latest) {
		w.Until, w.live = at.UTC(), false
	}
	w.Until = w.Until.UTC()
	w.From = w.Until.Add(-w.width())
	return w
}

func (w window) width() time.Duration { return zooms[w.zoom].Width }

func (w window) x(t time.Time) float64 {
	switch {
	case !t.After(w.From):
		return 0
	case !t.Before(w.Until):
		return 100
	}
	return 100 * float64(t.Sub(w.From)) / float64(w.Until.Sub(w.From))
}

// link with a zero until means now.
func link(source string, set int64, z int, until time.Time) string {
	q := "?set=" + strconv.FormatInt(set, 10) + "&zoom=" + zooms[z].Name
	if !until.IsZero() {
		q += "&until=" + url.QueryEscape(until.UTC().Format(time.RFC3339))
	}
	return sourcePath(source) + q + "#timeline"
}

// around shows all between two instants.
func around(source string, set int64, from, until time.Time) string {
	z := 0
	for z < len(zooms)-1 && zooms[z].Width/3*2 < until.Sub(from) {
		z++
	}
	middle := from.Add(until.Sub(from) / 2)
	return link(source, set, z, middle.Add(zooms[z].Width/2))
}

type tick struct {
	X, Label string
	Alt      bool
	Edge     bool
}

func (w window) ticks() []tick {
	var out []tick
	add := func(t time.Time, layout string) {
		x := w.x(t)
		label := t.Format(layout)
		if x < 2.5 || x > 97 {
			label = ""
		}
		out = append(out, tick{X: percent(x), Label: label, Alt: len(out)%2 == 1, Edge: x < 8 || x > 92})
	}
	if w.width() >= 300*day {
		for t := time.Date(w.From.Year(), w.From.Month()+1, 1, 0, 0, 0, 0,
			time.UTC); t.Before(w.Until); t = t.AddDate(0, 1, 0) {
			if t.Month() == time.January {
				add(t, "2006")
			} else {
				add(t, "Jan")
			}
		}
		return out
	}
	step := 10 * day
	for _, s := range []time.Duration{
		5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 10 * time.Minute,
		30 * time.Minute,
		time.Hour, 2 * time.Hour, 6 * time.Hour, day, 3 * day,
	} {
		if s >= w.width()/12 {
			step = s
			break
		}
	}
	for t := w.From.Truncate(step).Add(step); t.Before(w.Until); t = t.Add(step) {
		switch {
		case step >= day || t.Equal(t.Truncate(day)) && w.width() > time.Hour:
			add(t, "2 Jan")
		case step < time.Minute:
			add(t, "15:04:05")
		default:
			add(t, "15:04")
		}
	}
	return out
}
