package rsdoc

import (
	"bytes"
	"strings"
)

// Equal IDs in force together are equal URIs.
type nsID int64

const (
	nsNone nsID = iota
	nsSitemap
	nsRS
	nsXML
	nsOther // the first of the other namespaces
)

const (
	namespaceXML   = "http://www.w3.org/XML/1998/namespace"
	namespaceXMLNS = "http://www.w3.org/2000/xmlns/"
)

// scopes are the namespace declarations in force, innermost last, on one byte stack, so that a document that declares
// its prefixes on each entry makes no garbage.
type scopes struct {
	bindings []binding
	bytes    []byte
	last     nsID // given to an unknown URI
}

type binding struct {
	prefix, uri, end int // offsets in scopes.bytes
	ns               nsID
}

type scopeMark struct{ bindings, bytes int }

func (s *scopes) mark() scopeMark { return scopeMark{len(s.bindings), len(s.bytes)} }

func (s *scopes) leave(m scopeMark) {
	s.bindings, s.bytes = s.bindings[:m.bindings], s.bytes[:m.bytes]
}

func (s *scopes) count() int { return len(s.bindings) }

// declare adds a declaration to the scope that began at m, and returns what is wrong with it.
func (s *scopes) declare(m scopeMark, prefix, uri []byte) string {
	switch {
	case string(prefix) == "xmlns" || string(uri) == namespaceXMLNS:
		return "a declaration of the namespace of declarations"
	case (string(prefix) == "xml") != (string(uri) == namespaceXML):
		return "a declaration that changes the prefix xml"
	case prefix != nil && len(uri) == 0:
		return "a declaration that takes a prefix away"
	}
	for _, b := range s.bindings[m.bindings:] {
		if bytes.Equal(s.bytes[b.prefix:b.uri], prefix) {
			return "a namespace declared twice in one tag"
		}
	}
	ns := s.identify(uri)
	b := binding{prefix: len(s.bytes), ns: ns}
	s.bytes = append(s.bytes, prefix...)
	b.uri = len(s.bytes)
	s.bytes = append(s.bytes, uri...)
	b.end = len(s.bytes)
	s.bindings = append(s.bindings, b)
	return ""
}

func (s *scopes) identify(uri []byte) nsID {
	switch string(uri) {
	case "":
		return nsNone
	case NamespaceSitemap:
		return nsSitemap
	case NamespaceRS:
		return nsRS
	case namespaceXML:
		return nsXML
	}
	for _, b := range s.bindings {
		if b.ns >= nsOther && bytes.Equal(s.bytes[b.uri:b.end], uri) {
			return b.ns
		}
	}
	s.last = max(s.last, nsOther-1) + 1
	return s.last
}

func (s *scopes) uriOf(ns nsID) []byte {
	for _, b := range s.bindings {
		if b.ns == ns {
			return s.bytes[b.uri:b.end]
		}
	}
	return nil
}

// nearSitemap reports namespaces that are meant as that of Sitemaps: with https or a slash behind it, of another
// version, or Google's from before.
func nearSitemap(uri []byte) bool {
	const most = 200
	if len(uri) > most {
		return false
	}
	low := string(bytes.ToLower(uri)) + "/"
	return strings.Contains(low, "sitemaps.org/") || strings.Contains(low, "/schemas/sitemap/")
}

// lookup is the namespace of an element's prefix; false for an undeclared one.
func (s *scopes) lookup(prefix []byte) (nsID, bool) {
	for i := len(s.bindings) - 1; i >= 0; i-- {
		if b := &s.bindings[i]; string(s.bytes[b.prefix:b.uri]) == string(prefix) {
			return b.ns, true
		}
	}
	switch string(prefix) {
	case "":
		return nsNone, true
	case "xml":
		return nsXML, true
	}
	return nsNone, false
}
