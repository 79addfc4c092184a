package console

import (
	"net/url"
	"strconv"
	"time"
)

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
	w := window{zoom: -1, live: true}
	for i, z := range zooms {
		if z.Name == q.Get("zoom") {
			w.zoom = i
		}
	}
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
