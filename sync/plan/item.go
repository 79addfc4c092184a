package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/parsed"
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
	var current *store.Want
	if r.had || r.changed {
		current = &r.want
	}
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
	if it.Latest && current != nil && e.Cand.Version.From <= current.Version.From {
		e.Cand.Version.From = current.Version.From + 1
		e.Cand.Version.Until = e.Cand.Version.From
	}
	decision := merge.MergeItem(current, e.Cand, it.From)
	if decision == merge.Repeat && current != nil && it.retold(current) {
		decision = merge.Replace
		if e.Cand.Version.From = current.Version.From + 1; !current.Version.From.Known() {
			// an equal instant lets the file pass as current
			e.Cand.Version.From = it.From.Now
		}
		e.Cand.Version.Until = e.Cand.Version.From
	}
	if decision == merge.Replace && it.From.Pushed && it.Inline && !p.Topic.Hub.MayChange(e.URI, e.Cand, current) {
		decision = merge.Ask
	}
	switch decision {
	case merge.Ask:
		p.contest(it.From.Page, e.URI)
	case merge.Repeat:
		r.same = true
		if !r.changed {
			r.content = it.Content // the earlier bytes may be lost
		}
	case merge.Replace:
		if v := &e.Cand.Version; current != nil && v.From.Known() && v.From < current.Version.From &&
			current.Version.From <= it.From.Limit {
			v.From = current.Version.From + 1 // an older instant would lose
			v.Until = v.From
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

// retold reports whether a linking entry changed its text: the linked resource may have changed too. A full run asks in
// any case.
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

// unlink removes a linking entry. A file that never came is no longer owed once no entry links to it.
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

func (p *Planner) contest(page, uri string) {
	if p.Topic.Contested == nil {
		p.Topic.Contested = map[string]map[string]bool{}
	}
	if p.Topic.Contested[page] == nil {
		p.Topic.Contested[page] = map[string]bool{}
	}
	p.Topic.Contested[page][uri] = true
}

// Judge returns why a URI is refused. Inline content lies within the scope by itself.
func (p *Planner) Judge(uri string, inline bool) string {
	if inline {
		return p.o.Filtered(uri)
	}
	return p.o.Refused(uri)
}

// refill reports whether lost bytes came again.
func (r *row) refill() bool {
	return r.content != nil && !r.changed && r.want.Inline && r.res.Work.Action == store.ActionFetch
}

// keep stores content in the change of its resource, or drops unwanted content.
func (r *row) keep(rc *store.ResourceChange) {
	switch {
	case !r.want.Inline && (r.res.WantFor(r.want.SetID) == nil || !r.res.WantFor(r.want.SetID).Inline):
	case rc.Work.Action == store.ActionFetch && r.content != nil:
		rc.Content = r.content
	case (rc.Work.Action != store.ActionFetch || r.changed) && r.res.ID != 0:
		rc.DropContent = true
	}
}

// InlineDigest returns the digest of inline content.
func InlineDigest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha-256:" + hex.EncodeToString(sum[:])
}
