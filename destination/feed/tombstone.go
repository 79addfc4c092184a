package feed

import "strings"

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
