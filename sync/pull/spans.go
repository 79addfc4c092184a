package pull

import (
	"resyncd/store"
	"resyncd/sync/coverage"
)

// What vouches for the coverage of a set is recorded a second time as spans, with the commit that records the coverage
// itself: people see by them what covered when. Nothing is decided by a span.

// span is evidence that is taken up now.
func (p *Puller) span(kind store.SpanKind, iv store.Interval, entries int64, document string) store.Span {
	now := p.Source.Site.LocalNow()
	return store.Span{
		SetID: p.Set.ID, Kind: kind, From: iv.From, Until: iv.Until, First: now, Last: now, Entries: entries, Document: document,
	}
}

// proved queues what a list proves for the next commit of the set.
func (p *Puller) proved(kind store.SpanKind, iv store.Interval, entries int64, list string) {
	if coverage.Usable(iv) {
		p.pending.spans = append(p.pending.spans, p.span(kind, iv, entries, list))
	}
}

// listKind is what a Change List counts as by where it was found.
func listKind(archived bool) store.SpanKind {
	if archived {
		return store.SpanArchive
	}
	return store.SpanChangeList
}

// topicProved is proved for a topic. What was read of it without knowing anything before is its baseline.
func (p *Puller) topicProved(iv store.Interval, entries int64) {
	kind := store.SpanFeed
	if iv.From = min(iv.From, iv.Until); !iv.From.Known() {
		kind = store.SpanBaseline
	}
	p.pending.spans = append(p.pending.spans, p.span(kind, iv, entries, p.Offer.Topic.Answer.URL))
}
