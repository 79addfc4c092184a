package sync

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

// item is what a topic brings for one resource: an entry of a feed, an edit of a record, a link of an entry, or the
// topic's own document.
type item struct {
	// inline: the bytes are content, or what a record's edits make; else the URI is fetched like any other.
	inline  bool
	content []byte
	// natural is the key that it gets where nothing stands in its way; "": that of its URI.
	natural string
	meta    merge.ItemMeta
	edit    *store.Edit
	from    merge.ItemFrom
	latest  bool // newer than whatever is known, whatever the clocks say
	// fresh: it was not there at the last pull, so that others before it may be lost; old: it is no newer than what was known then.
	fresh, old bool
	// unlinked is the entry that links to this resource no more, "" for what is linked to.
	unlinked string
}

// mergeItem lets an item meet its row.
func (p *planner) mergeItem(r *row, e *entry) {
	it := e.item
	r.natural = it.natural
	if it.edit != nil {
		r.edits = append(r.edits, *it.edit)
		switch {
		case it.fresh && it.old:
			r.fresh = append(r.fresh, it.edit.Digest)
		case it.fresh:
			p.unheard++
		}
		if r.note == nil {
			r.note = e.note
		}
		return
	}
	var current *store.Want
	if r.had || r.changed {
		current = &r.want
	}
	if current != nil && current.Inline != it.inline && !it.latest { // an entry is called what another one links to
		if !it.inline || e.cand.State == store.WantAbsent {
			return
		}
		current = nil
	}
	if it.unlinked != "" {
		r.unlink(it.unlinked)
		return
	}
	if it.fresh && !(it.old && merge.ToldBefore(current, e.cand)) {
		p.unheard++
	}
	if it.latest && current != nil && e.cand.Version.From <= current.Version.From {
		e.cand.Version.From = current.Version.From + 1
		e.cand.Version.Until = e.cand.Version.From
	}
	decision := merge.MergeItem(current, e.cand, it.from)
	if decision == merge.Repeat && current != nil && it.retold(current) {
		decision = merge.Replace
		if e.cand.Version.From = current.Version.From + 1; !current.Version.From.Known() { // or the file would do
			e.cand.Version.From = it.from.Now
		}
		e.cand.Version.Until = e.cand.Version.From
	}
	if decision == merge.Replace && it.from.Pushed && it.inline && !p.heard.mayChange(p, e, current) {
		decision = merge.Ask
	}
	switch decision {
	case merge.Ask:
		p.contest(it.from.Page, e.uri)
	case merge.Repeat:
		r.same = true
		if !r.changed {
			r.content = it.content // in case what was brought before was lost
		}
	case merge.Replace:
		if v := &e.cand.Version; current != nil && v.From.Known() && v.From < current.Version.From && current.Version.From <= it.from.Limit {
			v.From = current.Version.From + 1 // or it would pass for older than what it replaces
			v.Until = v.From
		}
		w := e.cand.Want(p.set.ID)
		w.Inline, w.Meta = it.inline, it.metaBeside(current).String()
		if it.inline && current != nil {
			p.unlink(e.uri, current.Links, w.Links)
		}
		if current != nil && !w.Version.From.Known() { // later than what it replaces
			w.Version.From, w.Version.Until = current.Version.From, current.Version.Until
		}
		if w.State != store.WantAbsent {
			w.Refused = p.judge(e.uri, it.inline)
		}
		if p.news != nil && !it.from.Pushed && !(current != nil && merge.SameItem(current, e.cand)) {
			p.news(e.cand.Version)
		}
		r.want, r.changed, r.content = w, true, it.content
		if r.note = e.note; w.State == store.WantAbsent {
			r.content = nil
		}
	}
}

// retold: an entry that links to this resource says something else than it did, under whatever date. What it links to may have changed
// with it, and is asked; with nothing to be believed, in any case.
func (it *item) retold(row *store.Want) bool {
	if it.inline || len(it.meta.Links) == 0 {
		return false
	}
	was := merge.MetaOf(row).Links
	for entry, says := range it.meta.Links {
		if told, known := was[entry]; known && told != says || !known && len(was) < linkersMost {
			return true
		}
	}
	return it.from.Full
}

// linkersMost bounds the entries of which a row keeps what they said (P8).
const linkersMost = 64

// metaBeside is what the row of an item tells, beside what it told before of other entries that link to it.
func (it *item) metaBeside(row *store.Want) merge.ItemMeta {
	m := it.meta
	if it.inline || row == nil {
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
func (p *planner) unlink(entry, was, is string) {
	names := parsed.ParseLinks(is)
	if was == "" || len(names) == parsed.MaxLinks { // then what else it names is not known
		return
	}
	for _, l := range parsed.ParseLinks(was) {
		named := slices.ContainsFunc(names, func(n parsed.Link) bool { return n.Href == l.Href && p.follows(n.Rel) })
		if p.follows(l.Rel) && !named {
			p.unlinked = append(p.unlinked, unlinkOf(l.Href, entry), unlinkOf(besideEntry(l.Href, l.Rel), entry))
		}
	}
}

func (p *planner) follows(rel string) bool {
	return slices.Contains(p.s.t.Follow, strings.ToLower(rel))
}

func unlinkOf(uri, from string) entry {
	return entry{uri: uri, item: &item{unlinked: linker(from)}}
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
func (p *planner) contest(page, uri string) {
	if p.contested == nil {
		p.contested = map[string]map[string]bool{}
	}
	if p.contested[page] == nil {
		p.contested[page] = map[string]bool{}
	}
	p.contested[page][uri] = true
}

// judge is the rule by which a URI is refused. What comes with its document lies within the scope by itself.
func (p *planner) judge(uri string, inline bool) string {
	if inline {
		return p.filter(uri)
	}
	return p.scope(uri)
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

// inlineDigest is how a row names bytes at hand.
func inlineDigest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha-256:" + hex.EncodeToString(sum[:])
}
