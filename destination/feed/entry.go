package feed

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"time"
)

// The values of KeyFrom.
const (
	fromID     = "id"
	fromGUID   = "guid"
	fromLink   = "link"
	fromDigest = "digest"
)

// digestKey begins the key of an entry that nothing else identifies.
const digestKey = "sha-256:"

func (r *reader) entry(n *node) (*Entry, error) {
	e := &Entry{}
	var err error
	if r.p.kind == Atom {
		err = r.atomEntry(e, n)
	} else {
		err = r.rssItem(e, n)
	}
	if err != nil {
		return nil, err
	}
	if e.XML, err = r.lib.canon.writeDocument(n, baseOf(n), mostGrowth*r.size+mostAdded); err != nil {
		return nil, err
	}
	if e.Edit, err = readEdit(n); err != nil {
		return nil, err
	}
	switch {
	case e.Edit != nil: // an atom:id may be the record's, the same for all its edits
		sum := e.Edit.Digest()
		e.Key, e.KeyFrom = digestKey+hex.EncodeToString(sum[:]), fromDigest
	case e.Key == "":
		sum := sha256.Sum256(e.XML)
		e.Key, e.KeyFrom = digestKey+hex.EncodeToString(sum[:]), fromDigest
	}
	return e, nil
}

func (r *reader) atomEntry(e *Entry, n *node) error {
	q := question{title: n.child(atomVocabulary, "title")}
	author := n.child(atomVocabulary, "author")
	if source := n.child(atomVocabulary, "source"); source != nil {
		e.SourceID = source.childText(atomVocabulary, "id")
		if author == nil {
			author = source.child(atomVocabulary, "author")
		}
	}
	q.setAuthor(author)
	if q.title == nil {
		q.title = n.child(dublinCore, "title")
	}
	changed := dates(n, nil, atomVocabulary, "updated", "modified")
	changed = dates(n, changed, dublinTerms, "modified")
	changed = dates(n, changed, dublinCore, "date")
	appeared := dates(n, nil, atomVocabulary, "published", "issued", "created")
	q.dates = append(changed, appeared...)
	f, err := r.lib.ask(q)
	if err != nil {
		return err
	}
	e.setFields(f, len(changed))
	e.atomLinks(n)
	e.identify(fromID, n.childText(atomVocabulary, "id"))
	e.identify(fromLink, alternate(e.Links))
	for i, l := range e.Links { // resources are known by the escaped form, keys by the written one
		if u, err := url.Parse(l.Href); err == nil {
			e.Links[i].Href = u.String()
		}
	}
	return nil
}

// setFields takes gofeed's fields. The first changed times are those of the last change, the others of publication.
func (e *Entry) setFields(f fields, changed int) {
	e.Title, e.Author = f.title, f.author
	e.Updated, e.Published = first(f.times[:changed]), first(f.times[changed:])
	if e.Updated.IsZero() {
		e.Updated = e.Published
	}
}

func first(times []time.Time) time.Time {
	for _, t := range times {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// dates appends the texts of the named children, in the order of the names.
func dates(n *node, found []string, v vocabulary, names ...string) []string {
	const most, longest = 8, 100
	for _, name := range names {
		for _, k := range n.kids {
			if len(found) == most {
				return found
			}
			if k.name(v) != name {
				continue
			}
			if s := strings.TrimSpace(k.content()); s != "" && len(s) <= longest {
				found = append(found, s)
			}
		}
	}
	return found
}

// rssIdentity finds the key of an item: guid, rdf:about, atom:id, the link to its page.
func (r *reader) rssIdentity(e *Entry, n *node, page string) {
	e.identify(fromGUID, n.childText(rssVocabulary, "guid"))
	for _, a := range n.attrs {
		if strings.EqualFold(a.local, "about") && (a.uri == "" || vocabularyOf(a.uri) == rdfVocabulary) {
			e.identify(fromID, strings.TrimSpace(a.value))
		}
	}
	e.identify(fromID, n.childText(atomVocabulary, "id"))
	e.identify(fromLink, page)
	guid := n.child(rssVocabulary, "guid")
	if guid == nil || strings.EqualFold(strings.TrimSpace(guid.attr("isPermaLink")), "false") {
		return
	}
	if slices.ContainsFunc(e.Links, Link.isAlternate) {
		return
	}
	if at := strings.TrimSpace(guid.content()); strings.HasPrefix(at, "http://") || strings.HasPrefix(at, "https://") {
		e.Links = append(e.Links, Link{Rel: "alternate", Href: at, Length: -1})
	}
}

// maxKey bounds a key in bytes; a longer one is replaced by its digest (P8).
const maxKey = 2000

// identify sets the key unless it is set.
func (e *Entry) identify(from, key string) {
	if e.Key != "" || key == "" {
		return
	}
	if len(key) > maxKey {
		sum := sha256.Sum256([]byte(key))
		key = digestKey + hex.EncodeToString(sum[:])
	}
	e.Key, e.KeyFrom = key, from
}

// linkOf is the target of an RSS link: its text, or its href as in Atom.
func linkOf(n *node) string {
	if s := strings.TrimSpace(n.content()); s != "" {
		return s
	}
	return strings.TrimSpace(n.attr("href"))
}

// alternate is the target of the link to the entry's page, else of the first link.
func alternate(links []Link) string {
	if len(links) == 0 {
		return ""
	}
	return links[max(0, slices.IndexFunc(links, Link.isAlternate))].Href
}

func (l Link) isAlternate() bool { return l.Rel == "alternate" }

// baseOf is the xml:base of an entry's own document: the feed's declared one, else the feed's URL if anything in the
// entry needs it, else "". Without need none is set, because an entry must be equal bytes from every URL.
func baseOf(n *node) string {
	if n.at.base == nil || !n.at.declared && !relative(n) {
		return ""
	}
	return n.at.base.String()
}

// relative reports whether n has a known reference that needs a base.
func relative(n *node) bool {
	needs := func(ref string) bool { ref = strings.TrimSpace(ref); return ref != "" && !absolute(ref) }
	for _, a := range n.attrs {
		switch {
		case a.uri == nsXML && a.local == "base",
			a.uri == "" && (a.local == "href" || a.local == "src" || a.local == "url"):
			if needs(a.value) {
				return true
			}
		}
	}
	if n.name(rssVocabulary) == "link" && needs(linkOf(n)) {
		return true
	}
	for _, k := range n.kids {
		if k.isElement() && relative(k) {
			return true
		}
	}
	return false
}
