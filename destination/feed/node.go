package feed

import (
	"net/url"
	"strings"
)

// node is a part of an entry: an element, a processing instruction, or text, which has neither name.
type node struct {
	prefix, local, uri string
	vocabulary         vocabulary
	attrs              []attribute
	uses               []binding // prefixes named in attribute values
	target             string    // of a processing instruction
	text               string
	kids               []*node
	at                 inherited
	outer              int // bindings in scope around it
}

type attribute struct{ prefix, local, uri, value string }

type binding struct{ prefix, uri string }

// inherited is what an element has from those around it.
type inherited struct {
	base     *url.URL // nil: unknown
	declared bool     // base comes from an xml:base
	lang     string
}

func (n *node) isElement() bool { return n.local != "" }

// name is the element's name in lower case if it belongs to v, else "".
func (n *node) name(v vocabulary) string {
	if n.vocabulary != v {
		return ""
	}
	return strings.ToLower(n.local)
}

// child is the first child of a name, nil for none.
func (n *node) child(v vocabulary, name string) *node {
	for _, k := range n.kids {
		if k.isElement() && k.name(v) == name {
			return k
		}
	}
	return nil
}

// childText is the trimmed text of the first child of a name that has text.
func (n *node) childText(v vocabulary, name string) string {
	for _, k := range n.kids {
		if k.isElement() && k.name(v) == name {
			if s := strings.TrimSpace(k.content()); s != "" {
				return s
			}
		}
	}
	return ""
}

// attr is the value of an attribute without a namespace in any letter case; the exact name goes first.
func (n *node) attr(name string) string {
	found := ""
	for _, a := range n.attrs {
		if a.uri != "" || !strings.EqualFold(a.local, name) {
			continue
		}
		if a.local == name {
			return a.value
		}
		found = a.value
	}
	return found
}

func (n *node) content() string {
	if !n.isElement() {
		if n.target != "" {
			return ""
		}
		return n.text
	}
	if len(n.kids) == 1 && !n.kids[0].isElement() {
		return n.kids[0].content()
	}
	var b strings.Builder
	n.appendText(&b)
	return b.String()
}

func (n *node) appendText(b *strings.Builder) {
	for _, k := range n.kids {
		if k.isElement() {
			k.appendText(b)
		} else if k.target == "" {
			b.WriteString(k.text)
		}
	}
}

// resolve makes ref absolute. An absolute or unresolvable one stays as it is.
func (p inherited) resolve(ref string) string {
	ref = strings.TrimSpace(ref)
	if p.base == nil || len(ref) > maxReference || absolute(ref) {
		return ref
	}
	u, err := p.base.Parse(ref)
	if err != nil {
		return ref
	}
	return u.String()
}

// maxReference bounds what is resolved; longer references stay as they are.
const maxReference = 8 << 10

func absolute(ref string) bool {
	for i := range len(ref) {
		switch c := ref[i]; {
		case c == ':':
			return i > 0
		case 'a' <= c|0x20 && c|0x20 <= 'z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		default:
			return false
		}
	}
	return false
}

// withBase is what elements below inherit under an xml:base.
func (p inherited) withBase(value string) inherited {
	value = strings.TrimSpace(value)
	u, err := url.Parse(value)
	if err != nil || len(value) > maxReference {
		return p
	}
	if p.base != nil {
		u = p.base.ResolveReference(u)
	}
	u.Fragment, u.RawFragment = "", ""
	p.base, p.declared = u, true
	return p
}

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
