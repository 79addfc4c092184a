package pull

import (
	"resyncd/store"
	"resyncd/sync/coverage"
)

// Spans record the evidence of coverage for display, in the commit of the coverage. No decision depends on a span.

func (p *Puller) span(kind store.SpanKind, iv store.Interval, entries int64, document string) store.Span {
	now := p.LocalNow()
	return store.Span{
		SetID: p.Set.ID, Kind: kind, From: iv.From, Until: iv.Until, First: now, Last: now, Entries: entries,
		Document: document,
	}
}

func (p *Puller) proved(kind store.SpanKind, iv store.Interval, entries int64, list string) {
	if coverage.Usable(iv) {
		p.pending.spans = append(p.pending.spans, p.span(kind, iv, entries, list))
	}
}

func listKind(archived bool) store.SpanKind {
	if archived {
		return store.SpanArchive
	}
	return store.SpanChangeList
}

// topicProved queues the span of a topic. A first reading is its baseline.
func (p *Puller) topicProved(iv store.Interval, entries int64) {
	kind := store.SpanFeed
	if iv.From = min(iv.From, iv.Until); !iv.From.Known() {
		kind = store.SpanBaseline
	}
	p.pending.spans = append(p.pending.spans, p.span(kind, iv, entries, p.Offer.Topic.Answer.URL))
}
