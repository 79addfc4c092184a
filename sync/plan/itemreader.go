package plan

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

// RecordsResourceFinder is the only value of Target.Records besides "".
const RecordsResourceFinder = "resource-finder"

// Media types of the file of an entry (RFC 5023, 12.1) and of an RSS item.
const (
	entryType = "application/atom+xml;type=entry"
	rssType   = "application/rss+xml"
)

// ItemReader turns entries of a feed into wants.
type ItemReader struct {
	Planner *Planner
	From    merge.ItemFrom
	// Folder is the URL that names the set's folder.
	Folder   string
	Document int64
	Evidence string // URL of the document
	Kind     feed.Kind
	Note     *transfer.Note
	// Own reports whether a URI is the key of an entry, whose name no link may take; nil for no keys.
	Own func(uri string) bool
	// Fresh: the last pull did not see the entry; Old: it is not newer than the position.
	Fresh, Old bool
}

// MicrosOf returns a time as store.Micros; NoTime for the zero time.
func MicrosOf(t time.Time) store.Micros {
	if t.IsZero() {
		return store.NoTime
	}
	return store.MicrosOf(t)
}

// Take queues one entry and its links. Its error is one of the store.
func (v *ItemReader) Take(ctx context.Context, e *feed.Entry) error {
	if e.Edit != nil && v.Planner.o.Records {
		return v.edit(ctx, e)
	}
	when := MicrosOf(e.Updated)
	if e.Deleted {
		if !when.Known() {
			when = v.From.Limit - merge.Skew
		}
		return v.Planner.Add(ctx, v.entry(e, when, store.WantAbsent))
	}
	if err := v.Planner.Add(ctx, v.entry(e, when, store.WantPresent)); err != nil {
		return err
	}
	return v.follow(ctx, e, when)
}

func (v *ItemReader) version(when store.Micros, e *feed.Entry) store.Version {
	return store.Version{From: when, Until: when, Ordinal: int64(e.Ordinal), Document: v.Document}
}

// inline returns an item whose bytes the document itself brings.
func (v *ItemReader) inline(key string, err error) *Item {
	if err != nil {
		key = "" // AssignKeys refuses it
	}
	return &Item{Inline: true, natural: key, From: v.From, fresh: v.Fresh, old: v.Old}
}

func (v *ItemReader) entry(e *feed.Entry, when store.Micros, state store.WantState) Entry {
	it := v.inline(keymap.EntryKey(v.Folder, e.Key))
	it.meta = v.meta(e)
	c := merge.Candidate{State: state, Version: v.version(when, e), Length: -1, LastMod: when}
	if state == store.WantPresent {
		it.Content = e.XML
		c.Digests, c.Length, c.Type, c.Links = InlineDigest(e.XML), int64(len(e.XML)), entryType,
			entryLinks(e.Links, v.Planner.o.Follow)
		if v.Kind == feed.RSS {
			c.Type = rssType
		}
	}
	return Entry{URI: e.Key, Cand: c, Item: it, Note: v.Note}
}

// metaMost bounds each text of an entry in a row (P8).
const metaMost = 500

func (v *ItemReader) meta(e *feed.Entry) merge.ItemMeta {
	m := merge.ItemMeta{Title: transfer.Clip(e.Title, metaMost), Author: transfer.Clip(e.Author, metaMost),
		Source: transfer.Clip(e.SourceID, metaMost)}
	if s := report.RFC3339(MicrosOf(e.Published)); s != nil {
		m.Published = *s
	}
	if s := report.RFC3339(MicrosOf(e.Updated)); s != nil {
		m.Updated = *s
	}
	if v.From.Pushed {
		now := v.From.Now.Time()
		m.Pushed = &now
	}
	return m
}

func (v *ItemReader) edit(ctx context.Context, e *feed.Entry) error {
	it := v.inline(keymap.RecordKey(v.Folder, e.Edit.Subject))
	it.edit = &store.Edit{
		SourceID: v.Planner.o.Site.SourceID, URI: e.Edit.Subject, Digest: e.Edit.Digest(),
		Observed: MicrosOf(e.Edit.Observed), Author: e.Edit.Author,
		Body: e.Edit.Marshal(), Received: v.From.Now, Evidence: v.Evidence,
	}
	return v.Planner.Add(ctx, Entry{URI: e.Edit.Subject, Item: it, Note: v.Note})
}

// FollowMost bounds the mirrored links of one entry (P8).
const FollowMost = 500

// follow queues the mirrored links of an entry. What is linked outlives the entry: another one may link to it.
func (v *ItemReader) follow(ctx context.Context, e *feed.Entry, when store.Micros) error {
	n := 0
	saying := merge.ItemMeta{Links: map[string]string{linker(e.Key): linker(string(e.XML))}}
	for _, l := range e.Links {
		rel := strings.ToLower(l.Rel)
		if !slices.Contains(v.Planner.o.Follow, rel) || l.Href == "" {
			continue
		}
		if n++; n > FollowMost {
			v.Planner.Topic.Crowded++
			continue
		}
		uri := l.Href
		if uri == e.Key || v.Own != nil && v.Own(uri) {
			uri = besideEntry(uri, rel)
		}
		c := merge.Candidate{State: store.WantPresent, Version: v.version(when, e), Length: -1, LastMod: store.NoTime,
			Type: l.Type}
		if err := v.Planner.Add(ctx,
			Entry{URI: uri, Cand: c, Item: &Item{From: v.From, meta: saying}, Note: v.Note}); err != nil {
			return err
		}
	}
	return nil
}

// besideEntry names a linked resource whose URI is the key of an entry.
func besideEntry(uri, rel string) string {
	uri, _, _ = strings.Cut(uri, "#")
	return uri + "#" + strings.ToLower(rel)
}

func linker(s string) string { return fmt.Sprintf("%016x", window.KeyHash(s)) }

// entryLinks returns the links that a row keeps. Followed links come first, because a cut would hide their removal.
func entryLinks(links []feed.Link, follow []string) string {
	var out, others []parsed.Link
	for _, l := range links {
		into := &others
		if slices.Contains(follow, strings.ToLower(l.Rel)) {
			into = &out
		}
		*into = append(*into, parsed.Link{Rel: l.Rel, Href: l.Href, Type: l.Type})
	}
	out = append(out, others...)
	return parsed.JoinLinks(out[:min(len(out), parsed.MaxLinks)])
}
