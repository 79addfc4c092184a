package feed

import "strings"

func (r *reader) rssItem(e *Entry, n *node) {
	for _, name := range []elementName{{rssVocabulary, "title"}, {dublinCore, "title"}} {
		if title := n.child(name.vocabulary, name.local); title != nil {
			e.Title = plainTitle(title)
			break
		}
	}
	if author := n.child(atomVocabulary, "author"); author != nil {
		e.Author = author.childText(atomVocabulary, "name")
	}
	for _, name := range []elementName{{rssVocabulary, "author"}, {dublinCore, "creator"}, {itunes, "author"}} {
		if author := n.child(name.vocabulary, name.local); author != nil {
			e.Author = strings.TrimSpace(author.content())
			break
		}
	}
	if source := n.child(atomVocabulary, "source"); source != nil {
		e.SourceID = source.childText(atomVocabulary, "id")
	}
	e.setDates(n, rssChanged, rssAppeared)
	var enclosures []Link
	for _, k := range n.kids {
		if len(e.Links)+len(enclosures) == maxEntryLinks {
			break
		}
		switch k.name(rssVocabulary) {
		case "link":
			if to := linkOf(k); to != "" {
				e.Links = append(e.Links, Link{Rel: "alternate", Href: k.at.resolve(to), Length: -1})
			}
		case "enclosure":
			if to := k.attr("url"); to != "" {
				enclosures = append(enclosures, makeLink(k, "enclosure", to))
			}
		}
	}
	page := ""
	if len(e.Links) > 0 {
		page = e.Links[0].Href
	}
	e.Links = append(e.Links, enclosures...)
	e.atomLinks(n)
	r.rssIdentity(e, n, page)
}

// tombstone makes an Entry of an at:deleted-entry (RFC 6721).
func (r *reader) tombstone(n *node) (*Entry, error) {
	e := &Entry{Deleted: true}
	e.identify(fromID, strings.TrimSpace(n.attr("ref")))
	if e.Key == "" {
		return nil, entryError("a deleted-entry that does not say which (no ref)")
	}
	e.Author, e.Updated = personName(n.child(tombstones, "by")), parseDate(n.attr("when"))
	if source := n.child(atomVocabulary, "source"); source != nil {
		e.SourceID = source.childText(atomVocabulary, "id")
	}
	return e, nil
}
