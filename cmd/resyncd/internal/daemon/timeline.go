package daemon

import (
	"context"
	"slices"
	"time"

	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
)

// shownSpans is how many pieces of evidence a timeline shows.
const shownSpans = 2000

// firstInstant and lastInstant enclose all that documents may tell of.
const firstInstant, lastInstant = store.Micros(-1) << 61, store.Micros(1) << 61

// Timeline implements console.Data.
func (k *dashboard) Timeline(ctx context.Context, name string, set int64, from, until time.Time) (console.Timeline,
	error) {
	var out console.Timeline
	known, err := k.source(ctx, name)
	if err != nil {
		return out, err
	}
	sets, err := k.d.st.Sets(ctx, known.ID)
	if err != nil {
		return out, err
	}
	if !slices.ContainsFunc(sets, func(s store.Set) bool { return s.ID == set }) {
		return out, console.ErrUnknown
	}
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
	for i := range spans {
		sp := &spans[i]
		out.Spans = append(out.Spans, console.SpanView{
			Kind: string(sp.Kind), From: sp.From.Time(), Until: sp.Until.Time(), Seen: sp.Last.Time(), Count: sp.Count,
			Entries: sp.Entries, Document: term.URL(sp.Document),
		})
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
