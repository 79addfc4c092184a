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
	return vocabularies[strings.TrimPrefix(u, "www.")]
}

var vocabularies = map[string]vocabulary{
	"w3.org/2005/atom":                     atomVocabulary,
	"purl.org/atom/ns":                     atomVocabulary,
	"purl.org/rss/1.0":                     rssVocabulary,
	"channel.netscape.com/rdf/simple/0.9":  rssVocabulary,
	"my.netscape.com/rdf/simple/0.9":       rssVocabulary,
	"w3.org/1999/02/22-rdf-syntax-ns":      rdfVocabulary,
	"purl.org/dc/elements/1.1":             dublinCore,
	"purl.org/dc/terms":                    dublinTerms,
	"itunes.com/dtds/podcast-1.0.dtd":      itunes,
	"purl.org/atompub/tombstones/1.0":      tombstones,
	"purl.org/syndication/history/1.0":     history,
	"schemas.google.com/report/2010":       report,
	"schemas.google.com/spreadsheets/2006": sheet,
}

// usual holds the usual namespaces of prefixes, for documents that do not declare them; of two prefixes of one
// namespace the first is written.
var usual = [...]binding{
	{"atom", nsAtom}, {"atom10", nsAtom}, {"at", nsTomb}, {"fh", nsFH}, {"report", nsReport}, {"gs", nsSheet},
	{"rdf", "http://www.w3.org/1999/02/22-rdf-syntax-ns#"},
	{"dc", "http://purl.org/dc/elements/1.1/"},
	{"dcterms", "http://purl.org/dc/terms/"},
	{"content", "http://purl.org/rss/1.0/modules/content/"},
	{"slash", "http://purl.org/rss/1.0/modules/slash/"},
	{"sy", "http://purl.org/rss/1.0/modules/syndication/"},
	{"wfw", "http://wellformedweb.org/CommentAPI/"},
	{"media", "http://search.yahoo.com/mrss/"},
	{"itunes", "http://www.itunes.com/dtds/podcast-1.0.dtd"},
	{"thr", "http://purl.org/syndication/thread/1.0"},
	{"georss", "http://www.georss.org/georss"},
	{"yt", "http://www.youtube.com/xml/schemas/2015"},
}

func usualNamespace(prefix string) string {
	for _, b := range usual {
		if strings.EqualFold(b.prefix, prefix) {
			return b.uri
		}
	}
	return undeclared + prefix
}

// usualPrefix is the usual prefix of a namespace, else the one read.
func usualPrefix(read, uri string) string {
	for _, b := range usual {
		if b.uri == uri {
			return b.prefix
		}
	}
	return read
}
