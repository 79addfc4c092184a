package feed

import "strings"

func (r *reader) rssItem(e *Entry, n *node) error {
	q := question{title: n.child(rssVocabulary, "title"), plain: true}
	if q.title == nil {
		q.title = n.child(dublinCore, "title")
	}
	author := n.child(rssVocabulary, "author")
	if author == nil {
		author = n.child(dublinCore, "creator")
	}
	if author == nil {
		author = n.child(itunes, "author")
	}
	if a := n.child(atomVocabulary, "author"); a != nil && author == nil {
		author = a.child(atomVocabulary, "name")
	}
	if author != nil {
		q.name = author.content()
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
	f, err := r.lib.ask(q)
	if err != nil {
		return err
	}
	e.setFields(f, len(changed))
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
	return nil
}

// tombstone makes an Entry of an at:deleted-entry (RFC 6721).
func (r *reader) tombstone(n *node) (*Entry, error) {
	e := &Entry{Deleted: true}
	e.identify(fromID, strings.TrimSpace(n.attr("ref")))
	if e.Key == "" {
		return nil, entryError("a deleted-entry that does not say which (no ref)")
	}
	var q question
	q.setAuthor(n.child(tombstones, "by"))
	if when := strings.TrimSpace(n.attr("when")); when != "" {
		q.dates = []string{when}
	}
	f, err := r.lib.ask(q)
	if err != nil {
		return nil, err
	}
	e.Author, e.Updated = f.author, first(f.times)
	if source := n.child(atomVocabulary, "source"); source != nil {
		e.SourceID = source.childText(atomVocabulary, "id")
	}
	return e, nil
}
