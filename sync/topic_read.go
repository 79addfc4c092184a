package sync

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"resyncd/destination/feed"
	"resyncd/store"
	"resyncd/sync/keymap"
	"resyncd/sync/merge"
	"resyncd/sync/parsed"
	"resyncd/sync/report"
	"resyncd/sync/transfer"
	"resyncd/sync/window"
)

// RecordsResourceFinder is the only value of Target.Records beside none.
const RecordsResourceFinder = "resource-finder"

// entryType is the type of an entry's file (RFC 5023, 12.1), rssType that of an item's.
const (
	entryType = "application/atom+xml;type=entry"
	rssType   = "application/rss+xml"
)

// itemReader turns entries of a feed into wants.
type itemReader struct {
	p    *planner
	from merge.ItemFrom
	// folder is the URL that the set's folder is named after.
	folder   string
	document int64
	evidence string // the document that told it, for history
	kind     feed.Kind
	note     *transfer.Note
	// own tells the keys of entries, which what entries link to must not be taken for; nil: none are known.
	own func(uri string) bool
	// fresh: the entry at hand was not in the feed at the last pull; old: it is no newer than what was known then.
	fresh, old bool
}

// microsOf is a time as a version has it.
func microsOf(t time.Time) store.Micros {
	if t.IsZero() {
		return store.NoTime
	}
	return store.MicrosOf(t)
}

// take queues one entry with what it links to. The error is one of the store.
func (v *itemReader) take(ctx context.Context, e *feed.Entry) error {
	if e.Edit != nil && v.p.s.t.Records == RecordsResourceFinder {
		return v.edit(ctx, e)
	}
	when := microsOf(e.Updated)
	if e.Deleted {
		if !when.Known() {
			when = v.from.Limit - merge.Skew
		}
		return v.p.add(ctx, v.entry(e, when, store.WantAbsent))
	}
	if err := v.p.add(ctx, v.entry(e, when, store.WantPresent)); err != nil {
		return err
	}
	return v.follow(ctx, e, when)
}

func (v *itemReader) version(when store.Micros, e *feed.Entry) store.Version {
	return store.Version{From: when, Until: when, Ordinal: int64(e.Ordinal), Document: v.document}
}

func (v *itemReader) entry(e *feed.Entry, when store.Micros, state store.WantState) entry {
	key, err := keymap.EntryKey(v.folder, e.Key)
	if err != nil {
		key = "" // then no file name can stand for it, and it is refused
	}
	it := &item{inline: true, natural: key, from: v.from, meta: v.meta(e), fresh: v.fresh, old: v.old}
	c := merge.Candidate{State: state, Version: v.version(when, e), Length: -1, LastMod: when}
	if state == store.WantPresent {
		it.content = e.XML
		c.Digests, c.Length, c.Type, c.Links = inlineDigest(e.XML), int64(len(e.XML)), entryType, entryLinks(e.Links, v.p.s.t.Follow)
		if v.kind == feed.RSS {
			c.Type = rssType
		}
	}
	return entry{uri: e.Key, cand: c, item: it, note: v.note}
}

// metaMost bounds each text that a row keeps of an entry (P8).
const metaMost = 500

func (v *itemReader) meta(e *feed.Entry) merge.ItemMeta {
	m := merge.ItemMeta{Title: transfer.Clip(e.Title, metaMost), Author: transfer.Clip(e.Author, metaMost), Source: transfer.Clip(e.SourceID, metaMost)}
	if s := report.RFC3339(microsOf(e.Published)); s != nil {
		m.Published = *s
	}
	if s := report.RFC3339(microsOf(e.Updated)); s != nil {
		m.Updated = *s
	}
	if v.from.Pushed {
		now := v.from.Now.Time()
		m.Pushed = &now
	}
	return m
}

// edit queues one edit of a record.
func (v *itemReader) edit(ctx context.Context, e *feed.Entry) error {
	key, err := keymap.RecordKey(v.folder, e.Edit.Subject)
	if err != nil {
		key = ""
	}
	edit := &store.Edit{
		SourceID: v.p.s.src.ID, URI: e.Edit.Subject, Digest: e.Edit.Digest(), Observed: microsOf(e.Edit.Observed), Author: e.Edit.Author,
		Body: e.Edit.Marshal(), Received: v.from.Now, Evidence: v.evidence,
	}
	return v.p.add(ctx, entry{uri: e.Edit.Subject, item: &item{inline: true, natural: key, edit: edit, from: v.from, fresh: v.fresh, old: v.old}, note: v.note})
}

// followMost bounds the links of one entry that are mirrored (P8).
const followMost = 500

// follow queues what an entry links to, as far as the configuration asks for it. It is fetched like any other resource, and
// stays when the entry goes: another one may link to it.
func (v *itemReader) follow(ctx context.Context, e *feed.Entry, when store.Micros) error {
	n := 0
	saying := merge.ItemMeta{Links: map[string]string{linker(e.Key): linker(string(e.XML))}}
	for _, l := range e.Links {
		rel := strings.ToLower(l.Rel)
		if !slices.Contains(v.p.s.t.Follow, rel) || l.Href == "" {
			continue
		}
		if n++; n > followMost {
			v.p.crowded++
			continue
		}
		uri := l.Href
		if uri == e.Key || v.own != nil && v.own(uri) {
			uri = besideEntry(uri, rel)
		}
		c := merge.Candidate{State: store.WantPresent, Version: v.version(when, e), Length: -1, LastMod: store.NoTime, Type: l.Type}
		if err := v.p.add(ctx, entry{uri: uri, cand: c, item: &item{from: v.from, meta: saying}, note: v.note}); err != nil {
			return err
		}
	}
	return nil
}

// besideEntry names what is linked to where an entry itself goes by that name.
func besideEntry(uri, rel string) string {
	uri, _, _ = strings.Cut(uri, "#")
	return uri + "#" + strings.ToLower(rel)
}

// linker is how a row names an entry that links to it, and what that said.
func linker(s string) string { return fmt.Sprintf("%016x", window.KeyHash(s)) }

// entryLinks is what a row keeps of an entry's links: those that are followed first, for they are missed when they go.
func entryLinks(links []feed.Link, follow []string) string {
	followed := func(l parsed.Link) bool { return slices.Contains(follow, strings.ToLower(l.Rel)) }
	out := make([]parsed.Link, 0, len(links))
	for _, l := range links {
		out = append(out, parsed.Link{Rel: l.Rel, Href: l.Href, Type: l.Type})
	}
	slices.SortStableFunc(out, func(a, b parsed.Link) int {
		switch x, y := followed(a), followed(b); {
		case x == y:
			return 0
		case x:
			return -1
		}
		return 1
	})
	return parsed.JoinLinks(out[:min(len(out), parsed.MaxLinks)])
}
