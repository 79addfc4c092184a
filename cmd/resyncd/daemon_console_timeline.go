package main

import (
	"context"
	"slices"
	"time"

	"resyncd/cmd/resyncd/internal/console"
	"resyncd/store"
	syncengine "resyncd/sync"
)

// shownSpans is how many pieces of evidence a timeline shows.
const shownSpans = 2000

// firstInstant and lastInstant enclose all that documents may tell of.
const firstInstant, lastInstant = store.Micros(-1) << 61, store.Micros(1) << 61

// Timeline implements console.Data.
func (k *consoleDesk) Timeline(ctx context.Context, name string, set int64, from, until time.Time) (console.Timeline, error) {
	out := console.Timeline{Set: set, From: from, Until: until}
	s, _, err := k.at(ctx, name)
	if err != nil {
		return out, err
	}
	i := slices.IndexFunc(s.status.Sets, func(st syncengine.SetStatus) bool { return st.ID == set })
	if i < 0 {
		return out, console.ErrUnknown
	}
	st := &s.status.Sets[i]
	out.Position, out.Proven = at(st.Position), at(st.Proven)
	first, last := store.MicrosOf(from), store.MicrosOf(until)
	if !first.Known() {
		first = firstInstant
	}
	if !last.Known() {
		last = lastInstant
	}
	spans, err := k.d.st.Spans(ctx, set, first, last, shownSpans+1)
	if err != nil {
		return out, err
	}
	if len(spans) > shownSpans {
		out.Cut, spans = true, newestSpans(spans)
	}
	for j := range spans {
		sp := &spans[j]
		out.Spans = append(out.Spans, console.SpanView{
			Kind: string(sp.Kind), From: sp.From.Time(), Until: sp.Until.Time(), Seen: sp.Last.Time(), Count: sp.Count,
			Entries: sp.Entries, Document: shownURL(sp.Document),
		})
	}
	for j := range slices.Backward(st.Gaps) {
		g := gapView(&st.Gaps[j], s.feeds[set])
		if g.Until.Before(from) || !until.IsZero() && g.From.After(until) {
			continue
		}
		out.Gaps = append(out.Gaps, g)
	}
	return out, nil
}

// newestSpans leaves the one out that ends first.
func newestSpans(spans []store.Span) []store.Span {
	oldest := 0
	for i := range spans {
		if spans[i].Until < spans[oldest].Until {
			oldest = i
		}
	}
	return slices.Delete(spans, oldest, oldest+1)
}
