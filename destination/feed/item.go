package feed

import "strings"

func (r *reader) rssItem(e *Entry, n *node) error {
	q := question{title: n.child(rssVocabulary, "title"), author: n.child(rssVocabulary, "author")}
	if q.title == nil {
		q.title = n.child(dublinCore, "title")
	}
	if q.author == nil {
		q.author = n.child(dublinCore, "creator")
	}
	if q.author == nil {
		q.author = n.child(itunes, "author")
	}
	if a := n.child(atomVocabulary, "author"); a != nil && q.author == nil {
		q.author = a.child(atomVocabulary, "name")
	}
	if source := n.child(atomVocabulary, "source"); source != nil {
		e.SourceID = source.childText(atomVocabulary, "id")
	}
	changed := dates(n, nil, atomVocabulary, "updated")
	changed = dates(n, changed, dublinTerms, "modified")
	changed = dates(n, changed, dublinCore, "date")
	appeared := dates(n, nil, rssVocabulary, "pubdate")
	appeared = dates(n, appeared, atomVocabulary, "published")
	q.dates = append(changed, appeared...)
	for _, k := range n.kids {
		name := k.name(rssVocabulary)
		if (name == "link" && linkOf(k) != "" || name == "enclosure" && k.attr("url") != "") &&
			len(q.links) < maxEntryLinks {
			q.links = append(q.links, k)
		}
	}
	f, err := r.lib.askRSS(q)
	if err != nil {
		return err
	}
	e.setFields(f, len(changed))
	for _, k := range n.kids { // Atom's links in an item, as some feeds have them
		if href := k.attr("href"); k.name(atomVocabulary) == "link" && href != "" && len(e.Links) < maxEntryLinks {
			e.Links = append(e.Links, makeLink(k.attr("rel"), k.at.resolve(href), k.attr("type"), k.attr("length")))
		}
	}
	r.rssIdentity(e, n, q.links)
	return nil
}

// tombstone makes an Entry of an at:deleted-entry (RFC 6721).
func (r *reader) tombstone(n *node) (*Entry, error) {
	e := &Entry{Deleted: true}
	e.identify(fromID, strings.TrimSpace(n.attr("ref")))
	if e.Key == "" {
		return nil, entryError("a deleted-entry that does not say which (no ref)")
	}
	q := question{author: n.child(tombstones, "by")}
	if when := strings.TrimSpace(n.attr("when")); when != "" {
		q.dates = []string{when}
	}
	f, err := r.lib.askAtom(q)
	if err != nil {
		return nil, err
	}
	e.Author, e.Updated = f.author, first(f.times)
	if source := n.child(atomVocabulary, "source"); source != nil {
		e.SourceID = source.childText(atomVocabulary, "id")
	}
	return e, nil
}
