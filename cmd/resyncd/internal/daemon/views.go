package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/health"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/report"
)

func gapView(g *report.GapStatus, feed bool) console.GapView {
	v := console.GapView{
		From: g.From.Time, Until: g.Until.Time, Found: g.Found.Time, Ended: g.Ended.Time, State: g.State,
		ClosedBy: valueOf(g.ClosedBy), Level: console.Busy,
	}
	switch state := store.GapState(g.State); {
	case state == store.GapClosed:
		v.Level, v.Words = console.Good, "closed by "+closedWords(v.ClosedBy)
		if took := v.Ended.Sub(v.Found); !v.Ended.IsZero() && took >= 0 {
			v.Words += " after " + health.Span(max(took, time.Second))
		}
	case state == store.GapUnprovable && feed:
		v.Level, v.Words = console.Warn, "the feed did not reach back: entries may be missing, nobody can tell"
	case state == store.GapUnprovable:
		v.Level, v.Words = console.Warn, "nobody can prove what happened; everything is compared when the Resource "+
			"List changes"
	case state == store.GapLagging:
		v.Level, v.Words = console.Warn, "the list lags behind a notification; it is asked again"
	case state == store.GapWaiting:
		v.Words = "waiting a moment for a late notification"
	case state == store.GapBaseline:
		v.Words = "no list reaches back: everything is compared"
	default:
		v.Words = "the Source's list is asked"
	}
	return v
}

func closedWords(by string) string {
	return cmp.Or(map[string]string{
		coverage.ByNotification: "a late notification", coverage.ByChangeList: "a Change List",
		coverage.ByArchive: "an archived Change List", coverage.ByBaseline: "a baseline",
	}[by], "more evidence")
}

func channelPage(sub *store.Subscription) console.ChannelView {
	c := report.Channel(sub)
	v := console.ChannelView{
		ID: sub.ID, Kind: c.Kind, Topic: term.URL(c.Topic), Hub: term.URL(c.Hub), State: c.State,
		Level: health.ChannelLevel(c.State), Reason: logging.Redact(sub.Reason),
		RenewAt: c.RenewAt.Time, LastDelivery: c.LastDelivery.Time, Delivered: c.Delivered, Duplicates: c.Duplicates,
		Misses:       c.PushMisses,
		BadSignature: c.RejectedBy.Signature, TooLarge: c.RejectedBy.TooLarge, Malformed: c.RejectedBy.Malformed,
	}
	if sub.Live() {
		v.LeaseFrom, v.LeaseEnds = c.VerifiedAt.Time, c.ExpiresAt.Time
	}
	return v
}

// How much of each kind the page of a Source shows.
const (
	shownItems  = 50
	shownEvents = 50
	shownRuns   = 20 // of each set
	shownDays   = 30
)

func (k *dashboard) events(ctx context.Context, source int64) ([]console.ChannelEvent, error) {
	events, err := k.d.st.SubscriptionEvents(ctx, source, shownEvents)
	var out []console.ChannelEvent
	for i := range events {
		e := &events[i]
		out = append(out, console.ChannelEvent{
			At: e.At.Time(), Kind: string(e.Kind), Topic: term.URL(e.Topic), Hub: term.URL(e.Hub), From: string(e.From),
			To:     string(e.To),
			Reason: logging.Redact(e.Reason), Lease: time.Duration(e.Lease) * time.Second,
			Level: health.ChannelLevel(string(e.To)),
		})
	}
	return out, err
}

// runs are those of all sets, newest first.
func (k *dashboard) runs(ctx context.Context, s *health.Standing) ([]console.RunView, error) {
	var out []console.RunView
	for i := range s.Status.Sets {
		set := &s.Status.Sets[i]
		runs, err := k.d.st.Runs(ctx, set.ID, shownRuns)
		if err != nil {
			return nil, err
		}
		for j := range runs {
			r := &runs[j]
			out = append(out, console.RunView{
				Set: term.URL(set.CapabilityList), Kind: r.Kind, Started: r.Started.Time(),
				Took:    r.Ended.Time().Sub(r.Started.Time()),
				Fetched: r.Fetched, Deleted: r.Deleted, Unchanged: r.Unchanged, Failed: r.Failed, Bytes: r.Bytes,
				Requests: r.Requests,
				Problem:  logging.Redact(r.Problem),
			})
		}
	}
	slices.SortStableFunc(out, func(a, b console.RunView) int { return b.Started.Compare(a.Started) })
	return out[:min(len(out), 2*shownRuns)], nil
}

func (k *dashboard) items(ctx context.Context, source int64, f store.Filter) ([]console.Item, error) {
	rs, err := k.d.st.Scan(ctx, store.ScanQuery{SourceID: source, Filter: f, Limit: shownItems})
	var out []console.Item
	for _, r := range rs {
		it := itemOf(r)
		switch f {
		case store.FilterHeld:
			it = console.Item{URI: r.URI, Reason: "the new list lacks it, as it lacks many"}
		case store.FilterRefused:
			it = console.Item{URI: r.URI}
			for i := range r.Wants {
				it.Reason = cmp.Or(it.Reason, logging.Redact(r.Wants[i].Refused))
			}
		}
		out = append(out, it)
	}
	return out, err
}

// itemOf is an owed resource.
func itemOf(r *store.Resource) console.Item {
	it := console.Item{URI: r.URI, Reason: logging.Redact(r.Work.Reason), Cause: cmp.Or(r.Work.Cause, r.Work.Class),
		Attempts: r.Work.Attempts}
	if it.Reason == "" {
		it.Reason = "not tried yet"
	}
	if r.Work.Attempts > 0 {
		it.NextTry = r.Work.Due.Time()
		if r.Work.Since != 0 {
			it.Since = r.Work.Since.Time()
		}
	}
	return it
}

// documentsMost is how many documents of a set are shown, spansLooked how many pieces of evidence are asked for their
// names.
const documentsMost, spansLooked = 20, 200

// documents are those that a set was last read from: its Capability List, and what its newest evidence names.
func (k *dashboard) documents(ctx context.Context, source int64, set *report.SetStatus) ([]console.DocumentView,
	error) {
	spans, err := k.d.st.Spans(ctx, set.ID, firstInstant, lastInstant, spansLooked)
	if err != nil {
		return nil, err
	}
	urls := []string{set.CapabilityList}
	for _, s := range slices.Backward(spans) {
		if s.Document != "" && len(urls) < documentsMost && !slices.Contains(urls, s.Document) {
			urls = append(urls, s.Document)
		}
	}
	var out []console.DocumentView
	for _, u := range urls {
		doc, err := k.d.st.Document(ctx, source, u)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read document: %w", err)
		}
		out = append(out, console.DocumentView{
			URL: term.URL(doc.URL), Kind: doc.Kind, From: doc.From.Time(), Until: doc.Until.Time(),
			Entries: doc.Entries, Read: doc.Read.Time(),
		})
	}
	return out, nil
}

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
