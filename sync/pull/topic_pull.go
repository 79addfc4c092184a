package pull

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"resyncd/destination"
	"resyncd/destination/feed"
	"resyncd/destination/fetch"
	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/parsed"
	"resyncd/sync/plan"
	"resyncd/sync/window"
)

// Topic reads the entries of a feed, or the one document of another topic.
func (p *Puller) Topic(ctx context.Context) error {
	a := &p.Offer.Topic.Answer
	if a.URL == "" { // the offer tells why
		return nil
	}
	if date := store.Micros(a.Date); date.Known() {
		p.Offset = date - p.LocalNow()
	}
	id, err := p.Store.EnsureDocument(ctx, p.Claim, p.Set.ID, a.URL, string(destination.KindFeed))
	if err != nil {
		return err
	}
	p.Plan.Topic.Document, p.Plan.News = id, p.heardItem
	switch {
	case a.NotModified:
		p.Out.Usable = true
		if err := p.rememberTopic(); err != nil { // the page that led here
			return err
		}
		return p.resume(ctx)
	case a.Format != feed.None:
		return p.feed(ctx)
	}
	was := false
	if was, err = p.RecallJSON(ctx, TopicWindow+p.Set.CapabilityList, &window.Window{}); err != nil {
		return err
	}
	if was { // a page of maintenance or error with status 200 (F58)
		p.Fail(fmt.Errorf("%s answered with %s in place of its feed: nothing was changed",
			fetch.RedactURL(a.URL), cmp.Or(a.ContentType, "a document of no type")))
		return nil
	}
	return p.page(ctx)
}

// heardItem counts a change that a subscription missed.
func (p *Puller) heardItem(at store.Version) {
	if p.Holes.Missed != nil && p.Based() {
		p.Holes.Missed(at, false)
	}
}

// ItemFrom returns the origin of entries. A cached Date may be old, so the local clock limits the future too (P6).
func (p *Puller) ItemFrom(uncached bool) merge.ItemFrom {
	now := p.LocalNow()
	return merge.ItemFrom{Uncached: uncached, Full: p.Full, Now: now,
		Limit: max(now, p.SourceNow()) + merge.Skew, Shown: store.NoTime}
}

// page takes up a topic that is no feed as one resource.
func (p *Puller) page(ctx context.Context) error {
	t := p.Offer.Topic
	a := &t.Answer
	p.Out.Usable = true
	at := store.Micros(a.Date)
	if lm, ok := parsed.HTTPTime(a.LastModified); ok {
		at = lm
	}
	if !at.Known() {
		at = p.SourceNow()
	}
	entries := int64(0)
	if !a.Empty {
		entries = 1
		uri, had, err := p.pageOf(ctx)
		if err != nil {
			return err
		}
		now := p.SourceNow()
		c := merge.Candidate{State: store.WantPresent,
			Version: store.Version{From: now, Until: now, Document: p.Plan.Topic.Document},
			Length:  -1, LastMod: store.NoTime, Type: a.ContentType}
		if had != nil {
			c.Version = had.Version
		}
		if err := p.Plan.Add(ctx,
			plan.Entry{URI: uri, Cand: c, Item: &plan.Item{From: p.ItemFrom(false), Latest: had == nil}}); err != nil {
			return err
		}
		if err := p.Plan.Flush(ctx); err != nil {
			return err
		}
	}
	if err := p.settle(ctx, nil); err != nil {
		return err
	}
	return p.topicRead(ctx, at, p.Cover.ProvenPosition(), entries)
}

// pageOf returns the resource of a page: the topic, or the URL that answered. had is its want if validators match the
// file.
func (p *Puller) pageOf(ctx context.Context) (uri string, had *store.Want, err error) {
	t := p.Offer.Topic
	a := &t.Answer
	r, err := p.Store.Resource(ctx, p.SourceID, t.URL)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", nil, err
	}
	if uri = t.URL; a.URL != t.URL && a.Final != t.URL && (err != nil || r.WantFor(p.Set.ID) == nil) {
		uri = a.URL
		if r, err = p.Store.Resource(ctx, p.SourceID, uri); err != nil &&
			!errors.Is(err, store.ErrNotFound) {
			return "", nil, err
		}
	}
	if err != nil || r.Have.State != store.HavePresent || r.Work.Action != store.ActionNone {
		return uri, nil, nil
	}
	h := &r.Have
	if a.ETag != "" && h.ETag == a.ETag ||
		a.ETag == "" && h.ETag == "" && a.LastModified != "" && h.LastModified == a.LastModified {
		had = r.WantFor(p.Set.ID)
	}
	return uri, had, nil
}
