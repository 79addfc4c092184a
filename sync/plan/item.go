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

// Item is what a topic brings for one resource: an entry of a feed, an edit of a record, a link of an entry, or the
// topic's own document.
type Item struct {
	// inline: the bytes are content, or what a record's edits make; else the URI is fetched like any other.
	Inline  bool
	Content []byte
	// natural is the key that it gets where nothing stands in its way; "": that of its URI.
	natural string
	meta    merge.ItemMeta
	edit    *store.Edit
	From    merge.ItemFrom
	Latest  bool // newer than whatever is known, whatever the clocks say
	// fresh: it was not there at the last pull, so that others before it may be lost; old: it is no newer than what was known then.
	fresh, old bool
	// unlinked is the entry that links to this resource no more, "" for what is linked to.
	unlinked string
}

// mergeItem lets an item meet its row.
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
	if current != nil && current.Inline != it.Inline && !it.Latest { // an entry is called what another one links to
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
		if e.Cand.Version.From = current.Version.From + 1; !current.Version.From.Known() { // or the file would do
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
			r.content = it.Content // in case what was brought before was lost
		}
	case merge.Replace:
		if v := &e.Cand.Version; current != nil && v.From.Known() && v.From < current.Version.From && current.Version.From <= it.From.Limit {
			v.From = current.Version.From + 1 // or it would pass for older than what it replaces
			v.Until = v.From
		}
		w := e.Cand.Want(p.o.Set.ID)
		w.Inline, w.Meta = it.Inline, it.metaBeside(current).String()
		if it.Inline && current != nil {
			p.unlink(e.URI, current.Links, w.Links)
		}
		if current != nil && !w.Version.From.Known() { // later than what it replaces
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

// retold: an entry that links to this resource says something else than it did, under whatever date. What it links to may have changed
// with it, and is asked; with nothing to be believed, in any case.
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

// linkersMost bounds the entries of which a row keeps what they said (P8).
const linkersMost = 64

// metaBeside is what the row of an item tells, beside what it told before of other entries that link to it.
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

// unlink has what an entry named and names no more forget that entry.
func (p *Planner) unlink(entry, was, is string) {
	names := parsed.ParseLinks(is)
	if was == "" || len(names) == parsed.MaxLinks { // then what else it names is not known
		return
	}
	for _, l := range parsed.ParseLinks(was) {
		named := slices.ContainsFunc(names, func(n parsed.Link) bool { return n.Href == l.Href && p.follows(n.Rel) })
		if p.follows(l.Rel) && !named {
			p.Topic.unlinked = append(p.Topic.unlinked, unlinkOf(l.Href, entry), unlinkOf(besideEntry(l.Href, l.Rel), entry))
		}
	}
}

func (p *Planner) follows(rel string) bool {
	return slices.Contains(p.o.Follow, strings.ToLower(rel))
}

func unlinkOf(uri, from string) Entry {
	return Entry{URI: uri, Item: &Item{unlinked: linker(from)}}
}

// unlink forgets an entry that linked to the row. What never came is not owed for the sake of nobody; what came stays.
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

// contest notes an item that can only be decided by reading its document.
func (p *Planner) contest(page, uri string) {
	if p.Topic.Contested == nil {
		p.Topic.Contested = map[string]map[string]bool{}
	}
	if p.Topic.Contested[page] == nil {
		p.Topic.Contested[page] = map[string]bool{}
	}
	p.Topic.Contested[page][uri] = true
}

// Judge is the rule by which a URI is refused. What comes with its document lies within the scope by itself.
func (p *Planner) Judge(uri string, inline bool) string {
	if inline {
		return p.o.Filtered(uri)
	}
	return p.o.Refused(uri)
}

// refill: the bytes of an item were lost before they reached the mirror, and here they are again.
func (r *row) refill() bool {
	return r.content != nil && !r.changed && r.want.Inline && r.res.Work.Action == store.ActionFetch
}

// keep puts bytes at hand into the change of their resource, or drops those that are not wanted any more.
func (r *row) keep(rc *store.ResourceChange) {
	switch {
	case !r.want.Inline && (r.res.WantFor(r.want.SetID) == nil || !r.res.WantFor(r.want.SetID).Inline):
	case rc.Work.Action == store.ActionFetch && r.content != nil:
		rc.Content = r.content
	case (rc.Work.Action != store.ActionFetch || r.changed) && r.res.ID != 0: // also those of another kind of want
		rc.DropContent = true
	}
}

// InlineDigest is how a row names bytes at hand.
func InlineDigest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha-256:" + hex.EncodeToString(sum[:])
}
