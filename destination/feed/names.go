package feed

import "strings"

// Namespaces that are written.
const (
	nsAtom   = "http://www.w3.org/2005/Atom"
	nsTomb   = "http://purl.org/atompub/tombstones/1.0"
	nsFH     = "http://purl.org/syndication/history/1.0"
	nsReport = "http://schemas.google.com/report/2010"
	nsSheet  = "http://schemas.google.com/spreadsheets/2006"
	nsXHTML  = "http://www.w3.org/1999/xhtml"
	nsXML    = "http://www.w3.org/XML/1998/namespace"
)

// undeclared begins the namespace of a prefix without a declaration: two such prefixes stay apart, and the output is
// well-formed.
const undeclared = "urn:x-undeclared:"

// vocabulary is what an element belongs to, however its namespace is written.
type vocabulary uint8

const (
	foreign vocabulary = iota
	unnamed            // no namespace
	atomVocabulary
	rssVocabulary
	rdfVocabulary
	dublinCore
	dublinTerms
	itunes
	tombstones
	history
	report
	sheet
)

// maxKnown is more than the bytes of any known namespace.
const maxKnown = 100

// vocabularyOf knows namespaces also in the wrong letter case, with https and without their last character, because
// feeds have all of that.
func vocabularyOf(uri string) vocabulary {
	switch {
	case uri == "":
		return unnamed
	case uri == nsAtom:
		return atomVocabulary
	case len(uri) > maxKnown:
		return foreign
	}
	u := strings.TrimRight(strings.ToLower(uri), "/#")
	u = strings.TrimPrefix(strings.TrimPrefix(u, "https://"), "http://")
	switch strings.TrimPrefix(u, "www.") {
	case "w3.org/2005/atom", "purl.org/atom/ns":
		return atomVocabulary
	case "purl.org/rss/1.0", "channel.netscape.com/rdf/simple/0.9", "my.netscape.com/rdf/simple/0.9":
		return rssVocabulary
	case "w3.org/1999/02/22-rdf-syntax-ns":
		return rdfVocabulary
	case "purl.org/dc/elements/1.1":
		return dublinCore
	case "purl.org/dc/terms":
		return dublinTerms
	case "itunes.com/dtds/podcast-1.0.dtd":
		return itunes
	case "purl.org/atompub/tombstones/1.0":
		return tombstones
	case "purl.org/syndication/history/1.0":
		return history
	case "schemas.google.com/report/2010":
		return report
	case "schemas.google.com/spreadsheets/2006":
		return sheet
	}
	return foreign
}

// usualNamespace is the usual namespace of a prefix, for documents that do not declare it.
func usualNamespace(prefix string) string {
	switch strings.ToLower(prefix) {
	case "atom", "atom10":
		return nsAtom
	case "at":
		return nsTomb
	case "fh":
		return nsFH
	case "report":
		return nsReport
	case "gs":
		return nsSheet
	case "rdf":
		return "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
	case "dc":
		return "http://purl.org/dc/elements/1.1/"
	case "dcterms":
		return "http://purl.org/dc/terms/"
	case "content":
		return "http://purl.org/rss/1.0/modules/content/"
	case "slash":
		return "http://purl.org/rss/1.0/modules/slash/"
	case "sy":
		return "http://purl.org/rss/1.0/modules/syndication/"
	case "wfw":
		return "http://wellformedweb.org/CommentAPI/"
	case "media":
		return "http://search.yahoo.com/mrss/"
	case "itunes":
		return "http://www.itunes.com/dtds/podcast-1.0.dtd"
	case "thr":
		return "http://purl.org/syndication/thread/1.0"
	case "georss":
		return "http://www.georss.org/georss"
	case "yt":
		return "http://www.youtube.com/xml/schemas/2015"
	}
	return undeclared + prefix
}

// usualPrefix is the reverse of usualNamespace, "" for none.
func usualPrefix(uri string) string {
	for _, prefix := range [...]string{
		"atom", "at", "fh", "report", "gs", "rdf", "dc", "dcterms", "content", "slash", "sy", "wfw", "media", "itunes",
		"thr",
		"georss", "yt",
	} {
		if usualNamespace(prefix) == uri {
			return prefix
		}
	}
	return ""
}
