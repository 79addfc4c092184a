package websub

import (
	"net/url"
	"slices"
	"strings"
)

// Link is one link found in an HTTP header or an HTML page.
type Link struct {
	// Target is absolute: as written if it was, because identity is the exact string (S-04).
	Target string
	// Rels are in lower case, at least one.
	Rels []string
	// Anchor is "" for a link of the document itself, else the URI that the link is about (S-09).
	Anchor string
	// Params are the other parameters by lower-case name, first one wins, as sent.
	Params map[string]string
}

// Has reports whether the link is of relation rel (lower case).
func (l Link) Has(rel string) bool { return slices.Contains(l.Rels, rel) }

// Targets lists the targets of relation rel (lower case) of the document itself, each once.
func Targets(links []Link, rel string) []string {
	var all []string
	for _, l := range links {
		if l.Anchor == "" && l.Has(rel) && !slices.Contains(all, l.Target) {
			all = append(all, l.Target)
		}
	}
	return all
}

const maxFeeds = 20

// FeedTargets lists the feeds that links name as other forms of the document itself: relation alternate, of a media
// type that only feeds have.
func FeedTargets(links []Link) []string {
	var all []string
	for _, l := range links {
		if l.Anchor == "" && l.Has("alternate") && isFeedType(l.Params["type"]) && OnWeb(l.Target) &&
			!slices.Contains(all, l.Target) &&
			len(all) < maxFeeds {
			all = append(all, l.Target)
		}
	}
	return all
}

func isFeedType(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	switch strings.ToLower(strings.TrimSpace(media)) {
	case "application/atom+xml", "application/rss+xml", "application/rdf+xml":
		return true
	}
	return false
}

// OnWeb reports whether a target can be requested. A user name would be a secret in a URL (P10).
func OnWeb(target string) bool {
	u, err := url.Parse(target)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil
}

// Bounds on what one answer may make us keep (P8).
const (
	maxLinks  = 500
	maxRels   = 20
	maxParams = 20
	maxURI    = 8 << 10
)

// resolve returns the absolute form of ref; false if it has none.
func resolve(ref string, base *url.URL) (string, bool) {
	ref = strings.TrimSpace(ref)
	if len(ref) > maxURI {
		return "", false
	}
	u, err := url.Parse(ref)
	if err != nil {
		return "", false
	}
	if u.IsAbs() {
		return ref, true
	}
	if base == nil || !base.IsAbs() {
		return "", false
	}
	return base.ResolveReference(u).String(), true
}

// An anchor that names base, with or without its fragment, is the document; a fragment alone names something else.
func anchorOf(ref string, base *url.URL) (string, bool) {
	abs, ok := resolve(ref, base)
	if !ok || base == nil {
		return abs, ok
	}
	own := *base
	own.Fragment, own.RawFragment = "", ""
	if u, err := url.Parse(abs); err == nil && (abs == own.String() || u.String() == own.String()) {
		return "", true
	}
	return abs, true
}

// Relation types compare without letter case (RFC 8288 2.1.2).
func relations(value string) []string {
	var rels []string
	for _, r := range strings.Fields(value) {
		if r = strings.ToLower(r); len(rels) < maxRels && !slices.Contains(rels, r) {
			rels = append(rels, r)
		}
	}
	return rels
}
