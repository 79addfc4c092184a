package inspect

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"resyncd/destination"
	"resyncd/destination/feed"
	"resyncd/destination/fetch"
	"resyncd/store"
)

// pagesMost bounds the older documents of a feed that are read.
const pagesMost = 10_000

// readTopic puts a feed and its archives on the shelf, newest document first, or a topic that is one resource.
func (p *pass) readTopic(ctx context.Context, n int) error {
	s := &p.sets[n]
	a := &s.offer.Topic.Answer
	switch {
	case a.URL == "":
		return p.unusable(s.offer.ID, errors.New("its topic does not answer"))
	case a.Format == feed.None:
		return p.readDocument(ctx, n)
	}
	seen := map[string]bool{a.URL: true, a.Final: true, s.offer.ID: true}
	archive := "" // comes after the pages of the feed as it is now
	for page := 0; ; page++ {
		head, err := p.readPage(ctx, n, page, a)
		if err != nil {
			return err
		}
		if page == 0 {
			s.entries = head.Complete && head.Skipped == 0 && head.Next == "" && head.PrevArchive == ""
		}
		older := head.Next
		if archive = cmp.Or(head.PrevArchive, archive); older == "" || seen[older] {
			older, archive = archive, ""
		}
		if older == "" || seen[older] {
			return nil
		}
		if seen[older] = true; page == pagesMost {
			p.incomplete("the history of a feed has too many documents; the older ones were not read",
				"feed", fetch.RedactURL(s.offer.ID))
			return nil
		}
		if a, err = p.reader().Page(ctx, older); ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			p.incomplete("an older document of a feed could not be read",
				"feed", fetch.RedactURL(s.offer.ID), "err", err)
			return nil
		}
	}
}

// readPage takes one document of a feed. Of one that cannot be read the head is empty.
func (p *pass) readPage(ctx context.Context, n, page int, a *destination.TopicAnswer) (*feed.Head, error) {
	base, err := url.Parse(a.Final)
	if err != nil {
		return nil, fmt.Errorf("read feed %s: answered from an address that is no URL: %w", fetch.RedactURL(a.URL), err)
	}
	options := feed.Options{Base: base, ContentType: a.ContentType}
	head, err := feed.Read(bytes.NewReader(a.Body), options, func(e *feed.Entry) error {
		return p.entry(n, page, e)
	})
	switch {
	case err != nil && page == 0:
		return nil, p.unusable(p.sets[n].offer.ID, err)
	case err != nil:
		p.incomplete("an older document of a feed could not be read", "page", fetch.RedactURL(a.URL), "err", err)
		return &feed.Head{}, nil
	case head.Skipped > 0:
		p.incomplete("entries of a feed cannot be read; what they tell is unknown",
			"page", fetch.RedactURL(a.URL), "entries", head.Skipped)
	}
	return head, ctx.Err()
}

// entry takes one entry of a feed, and what it links to.
func (p *pass) entry(n, page int, e *feed.Entry) error {
	at := store.MicrosOf(e.Updated)
	if e.Edit != nil && p.Records {
		return p.keep(&said{
			URI: e.Edit.Subject, Set: n, What: edit, Length: -1, At: at, LastMod: store.NoTime, Page: page,
			Edit: e.Edit.Marshal(),
		})
	}
	d := &said{
		URI: e.Key, Set: n, What: entry, Absent: e.Deleted, Length: -1, At: at, LastMod: store.NoTime, Page: page,
	}
	if e.Deleted {
		return p.keep(d)
	}
	sum := sha256.Sum256(e.XML)
	d.Digest, d.Length = "sha-256:"+hex.EncodeToString(sum[:]), int64(len(e.XML))
	if err := p.keep(d); err != nil {
		return err
	}
	for _, l := range e.Links {
		if rel := strings.ToLower(l.Rel); l.Href != "" && slices.Contains(p.Follow, rel) {
			if err := p.keep(&said{
				URI: l.Href, Set: n, What: link, Length: -1, At: at, LastMod: store.NoTime, Page: page, Rel: rel,
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// readDocument takes a topic that is no feed: one resource, by whichever name the mirror has it.
func (p *pass) readDocument(ctx context.Context, n int) error {
	s := &p.sets[n]
	a := &s.offer.Topic.Answer
	uri, elsewhere := s.offer.Topic.URL, a.URL != s.offer.Topic.URL && a.Final != s.offer.Topic.URL
	for after := int64(0); s.id != 0; {
		rs, err := p.Store.Scan(ctx, store.ScanQuery{
			SourceID: p.src.ID, SetID: s.id, Filter: store.FilterMirrored, After: after, Limit: batch,
		})
		if err != nil {
			return err
		}
		if len(rs) == 0 {
			break
		}
		after = rs[len(rs)-1].ID
		for _, r := range rs {
			if inline(r) { // a page of maintenance, or of an error with status 200
				return p.unusable(s.offer.ID,
					fmt.Errorf("it answered with a document of type %q in place of its feed", a.ContentType))
			}
			elsewhere = elsewhere && r.URI != uri
		}
	}
	if elsewhere {
		uri = a.URL
	}
	if a.Empty {
		return nil
	}
	return p.keep(&said{URI: uri, Set: n, What: link, Length: -1, At: store.NoTime, LastMod: store.NoTime})
}
