package plan

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"resyncd/destination/feed"
	"resyncd/store"
	"resyncd/sync/keymap"
	"resyncd/sync/merge"
	"resyncd/sync/parsed"
	"resyncd/sync/report"
	"resyncd/sync/transfer"
	"resyncd/sync/window"
)

// Item is one resource of a topic: an entry, an edit of a record, a link, or the topic's own document.
type Item struct {
	// Inline: the bytes are Content, or are made of edits; otherwise the URI is fetched.
	Inline  bool
	Content []byte
	// natural is the preferred key; "" for the key of the URI.
	natural string
	meta    merge.ItemMeta
	edit    *store.Edit
	From    merge.ItemFrom
	Latest  bool // newer than the row, whatever the clocks say
	// fresh: the last pull did not see the item; old: it is not newer than the position.
	fresh, old bool
	// unlinked is the entry that no longer links to this resource.
	unlinked string
}

func (p *Planner) mergeItem(r *row, e *Entry) {
	it := e.Item
	r.natural = it.natural
	if it.edit != nil {
		r.edits = append(r.edits, *it.edit)
		switch {
		case it.fresh && it.old:
			r.fresh = append(r.fresh, it.edit.Digest)
		case it.fresh:
			p.Topic.Unheard++
		}
		if r.note == nil {
			r.note = e.Note
		}
		return
	}
	current := r.current()
	if current != nil && current.Inline != it.Inline && !it.Latest { // a link leads to an entry's own URI
		if !it.Inline || e.Cand.State == store.WantAbsent {
			return
		}
		current = nil
	}
	if it.unlinked != "" {
		r.unlink(it.unlinked)
		return
	}
	if it.fresh && !(it.old && merge.ToldBefore(current, e.Cand)) {
		p.Topic.Unheard++
	}
	if it.Latest && current != nil {
		e.date(max(e.Cand.Version.From, current.Version.From+1))
	}
	decision := merge.MergeItem(current, e.Cand, it.From)
	if decision == merge.Repeat && current != nil && it.retold(current) {
		decision = merge.Replace
		if e.date(current.Version.From + 1); !current.Version.From.Known() {
			e.date(it.From.Now) // an equal instant lets the file pass as current
		}
	}
	if decision == merge.Replace && it.From.Pushed && it.Inline && !p.Topic.Hub.MayChange(e.URI, e.Cand, current) {
		decision = merge.Ask
	}
	switch decision {
	case merge.Ask:
		page := it.From.Page
		if p.Topic.Contested[page] == nil {
			p.Topic.Contested[page] = map[string]bool{}
		}
		p.Topic.Contested[page][e.URI] = true
	case merge.Repeat:
		r.same = true
		if !r.changed {
			r.content = it.Content // the earlier bytes may be lost
		}
	case merge.Replace:
		if v := e.Cand.Version; current != nil && v.From.Known() && v.From < current.Version.From &&
			current.Version.From <= it.From.Limit {
			e.date(current.Version.From + 1) // an older instant would lose
		}
		w := e.Cand.Want(p.o.Set.ID)
		w.Inline, w.Meta = it.Inline, it.metaBeside(current).String()
		if it.Inline && current != nil {
			p.unlink(e.URI, current.Links, w.Links)
		}
		if current != nil && !w.Version.From.Known() { // undated: as late as its predecessor
			w.Version.From, w.Version.Until = current.Version.From, current.Version.Until
		}
		if w.State != store.WantAbsent {
			w.Refused = p.Judge(e.URI, it.Inline)
		}
		if p.News != nil && !it.From.Pushed && !(current != nil && merge.SameItem(current, e.Cand)) {
			p.News(e.Cand.Version)
		}
		r.want, r.changed, r.content = w, true, it.Content
		if r.note = e.Note; w.State == store.WantAbsent {
			r.content = nil
		}
	}
}

func (e *Entry) date(at store.Micros) { e.Cand.Version.From, e.Cand.Version.Until = at, at }

// retold reports whether a linking entry changed its text, so that the linked resource may have changed too.
func (it *Item) retold(row *store.Want) bool {
	if it.Inline || len(it.meta.Links) == 0 {
		return false
	}
	was := merge.MetaOf(row).Links
	for entry, says := range it.meta.Links {
		if told, known := was[entry]; known && told != says || !known && len(was) < linkersMost {
			return true
		}
	}
	return it.From.Full
}

// linkersMost bounds the linking entries in a row (P8).
const linkersMost = 64

func (it *Item) metaBeside(row *store.Want) merge.ItemMeta {
	m := it.meta
	if it.Inline || row == nil {
		return m
	}
	was := merge.MetaOf(row).Links
	m.Links = maps.Clone(m.Links)
	for entry, says := range was {
		if _, now := m.Links[entry]; !now && len(m.Links) < linkersMost {
			m.Links[entry] = says
		}
	}
	return m
}

// unlink queues the removal of links that an entry lost.
func (p *Planner) unlink(entry, was, is string) {
	names := parsed.ParseLinks(is)
	if was == "" || len(names) == parsed.MaxLinks { // a full list of links may leave some out
		return
	}
	for _, l := range parsed.ParseLinks(was) {
		named := slices.ContainsFunc(names, func(n parsed.Link) bool { return n.Href == l.Href && p.follows(n.Rel) })
		if p.follows(l.Rel) && !named {
			p.Topic.unlinked = append(p.Topic.unlinked, unlinkOf(l.Href, entry),
				unlinkOf(besideEntry(l.Href, l.Rel), entry))
		}
	}
}

func (p *Planner) follows(rel string) bool {
	return slices.Contains(p.o.Follow, strings.ToLower(rel))
}

func unlinkOf(uri, from string) Entry {
	return Entry{URI: uri, Item: &Item{unlinked: linker(from)}}
}

// unlink removes a linking entry. Without another one, a file that never came is owed no longer.
func (r *row) unlink(entry string) {
	m := merge.MetaOf(&r.want)
	if _, linked := m.Links[entry]; !linked || r.want.Inline || !r.had && !r.changed {
		return
	}
	many := len(m.Links) >= linkersMost
	delete(m.Links, entry)
	r.want.Meta, r.changed = m.String(), true
	if len(m.Links) == 0 && !many && r.res.Have.State == store.HaveNone && r.want.State == store.WantPresent {
		r.want.State = store.WantAbsent
	}
}

// TakeContested returns the contested items and forgets them.
func (p *Planner) TakeContested() map[string]map[string]bool {
	contested := p.Topic.Contested
	p.Topic.Contested = map[string]map[string]bool{}
	return contested
}

// Judge returns why a URI is refused. Inline content lies within the scope by itself.
func (p *Planner) Judge(uri string, inline bool) string {
	if inline {
		return p.o.Filtered(uri)
	}
	return p.o.Refused(uri)
}

// InlineDigest returns the digest of inline content.
func InlineDigest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha-256:" + hex.EncodeToString(sum[:])
}

// RecordType is the media type of a record's file.
const RecordType = "application/json"

// foldRecords makes records of all their edits, so that order, repetition and batching do not matter (T-03).
func (p *Planner) foldRecords(ctx context.Context, rows map[string]*row, c *store.Commit) error {
	var subjects []string
	for i := range p.Batch {
		if uri := p.Batch[i].URI; len(rows[uri].edits) > 0 {
			subjects = append(subjects, uri)
		}
	}
	if len(subjects) == 0 {
		return nil
	}
	slices.Sort(subjects)
	subjects = slices.Compact(subjects)
	known, err := p.o.Site.Store.EditsOf(ctx, p.o.Site.SourceID, subjects)
	for i := 0; i < len(subjects) && err == nil; i++ {
		p.foldRecord(subjects[i], rows[subjects[i]], known[i], c)
	}
	return err
}

func (p *Planner) foldRecord(subject string, r *row, known []store.Edit, c *store.Commit) {
	has, pushed := make(map[[32]byte]bool, len(known)), make(map[[32]byte]bool)
	for i := range known {
		has[known[i].Digest], pushed[known[i].Digest] = true, known[i].Evidence == store.EvidencePush
	}
	for _, digest := range r.fresh {
		if !has[digest] || pushed[digest] { // an edit before it may be missing
			p.Topic.Unheard++
		}
	}
	var fresh []store.Edit
	for _, e := range r.edits {
		if !has[e.Digest] {
			has[e.Digest] = true
			fresh = append(fresh, e)
		}
	}
	if len(fresh) == 0 {
		r.same = true
		if r.current() != nil {
			return
		}
	}
	record, content := FoldEdits(p.o.Site.Log, subject, append(slices.Clip(known), fresh...))
	for i := range fresh {
		if e, err := feed.UnmarshalEdit(fresh[i].Body); err == nil && len(e.Odd) > 0 {
			p.Topic.Odd += int64(len(e.Odd))
			p.o.Site.Log.Warn("an edit is not as its format has it; it is kept as it is",
				"subject", subject, "odd", strings.Join(e.Odd, "; "))
		}
	}
	c.Edits = append(c.Edits, fresh...)
	observed := store.MicrosOf(record.Observed)
	w := store.Want{
		SetID: p.o.Set.ID, State: store.WantPresent,
		Version: store.Version{From: observed, Until: observed, Document: p.Topic.Document},
		Digests: InlineDigest(content), Length: int64(len(content)), LastMod: observed, Type: RecordType,
		Inline: true, Refused: p.o.Filtered(subject),
	}
	if p.News != nil && len(fresh) > 0 {
		p.News(w.Version)
	}
	r.want, r.changed, r.content = w, true, nil // made of the edits when needed
}

// FoldEdits makes a record and its file without the unreadable edits, which must not stop the others (P11).
func FoldEdits(log *slog.Logger, subject string, edits []store.Edit) (*feed.Record, []byte) {
	parsed := make([]*feed.Edit, 0, len(edits))
	for i := range edits {
		e, err := feed.UnmarshalEdit(edits[i].Body)
		if err != nil {
			log.Error("an edit of a record cannot be read back from the state; it is left out",
				"subject", subject, "err", err)
			continue
		}
		parsed = append(parsed, e)
	}
	record := feed.Merge(subject, parsed)
	return record, record.JSON()
}

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

// Take queues one entry and its links. Its error is one of the store.
func (v *ItemReader) Take(ctx context.Context, e *feed.Entry) error {
	if e.Edit != nil && v.Planner.o.Records {
		return v.edit(ctx, e)
	}
	when := store.MicrosOf(e.Updated)
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
	m := merge.ItemMeta{
		Title: transfer.Clip(e.Title, metaMost), Author: transfer.Clip(e.Author, metaMost),
		Published: report.RFC3339(store.MicrosOf(e.Published)), Updated: report.RFC3339(store.MicrosOf(e.Updated)),
		Source: transfer.Clip(e.SourceID, metaMost),
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
		Observed: store.MicrosOf(e.Edit.Observed), Author: e.Edit.Author,
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
