package console

import (
	"slices"
	"strings"
	"time"
)

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
	if b.Until.After(s.Until) {
		s.Until = b.Until
	}
	if b.Seen.After(s.Seen) {
		s.Seen = b.Seen
	}
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
	var b strings.Builder
	b.WriteString(s.Kind)
	if s.Count > 1 {
		b.WriteString(" (" + count(s.Count) + ")")
	}
	if s.From.IsZero() {
		b.WriteString(": everything up to " + s.Until.UTC().Format(clock))
	} else {
		b.WriteString(": " + s.From.UTC().Format(clock) + " to " + s.Until.UTC().Format(clock))
	}
	b.WriteString("; " + count(s.Entries) + " entries")
	if s.Document != "" {
		b.WriteString("; " + s.Document)
	}
	s.Words = b.String()
}
