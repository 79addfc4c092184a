package feed

import (
	"fmt"
	"slices"
	"strings"
)

const (
	maxHeadElement = 256 << 10 // bytes of an element of the feed itself; a larger one is ignored
	maxHubs        = 32
	maxText        = 2 << 10 // bytes of the feed's id
)

func (r *reader) element(n *node) {
	h := r.head
	if n.name(atomVocabulary) == "link" {
		r.link(n)
		return
	}
	if r.linksOnly {
		return
	}
	switch n.name(history) {
	case "archive":
		h.Archive = true
	case "complete":
		h.Complete = true
	}
	own := atomVocabulary
	if r.p.kind == RSS {
		own = rssVocabulary
	}
	switch n.name(own) {
	case "id":
		r.id(n)
	case "updated", "modified", "lastbuilddate", "pubdate":
		r.date(n)
	}
	if n.name(dublinCore) == "date" || own == rssVocabulary && n.name(atomVocabulary) == "updated" {
		r.date(n)
	}
	if own == rssVocabulary && n.name(atomVocabulary) == "id" {
		r.id(n)
	}
}

func (r *reader) id(n *node) {
	if s := strings.TrimSpace(n.content()); r.head.ID == "" && len(s) <= maxText {
		r.head.ID = s
	}
}

func (r *reader) date(n *node) {
	if r.head.Updated.IsZero() {
		r.head.Updated = parseDate(n.content())
	}
}

// link takes a link of the feed itself (S-08): its topic, its hubs, and its neighbours by RFC 5005.
func (r *reader) link(n *node) {
	h := r.head
	href := strings.TrimSpace(n.attr("href"))
	if href == "" || len(href) > maxReference {
		return
	}
	href = n.at.resolve(href)
	for _, rel := range strings.Fields(n.attr("rel")) {
		rel = relation(rel)
		if rel == "hub" && len(h.Hubs) < maxHubs && !slices.Contains(h.Hubs, href) {
			h.Hubs = append(h.Hubs, href)
		}
		if to := h.single(rel); to != nil && *to == "" {
			*to = href
		}
	}
}

// single is where the link of a relation is kept of which a feed has one, nil for others.
func (h *Head) single(rel string) *string {
	return map[string]*string{
		"self": &h.Self, "first": &h.First, "last": &h.Last, "current": &h.Current, "next": &h.Next,
		"previous": &h.Previous, "prev": &h.Previous, "prev-archive": &h.PrevArchive, "next-archive": &h.NextArchive,
	}[rel]
}

func (h *Head) problem(line int, text string) {
	if len(h.Problems) < maxProblems {
		h.Problems = append(h.Problems, fmt.Sprintf("line %d: %s", line, text))
	}
}
