package rsdoc

import "strings"

const (
	namespaceXML   = "http://www.w3.org/XML/1998/namespace"
	namespaceXMLNS = "http://www.w3.org/2000/xmlns/"
)

// binding is a namespace declaration in force.
type binding struct{ prefix, uri string }

// declare adds a declaration to those of the tag, which begin at first, and returns what is wrong with it.
func (s *scanner) declare(first int, prefix, uri []byte) string {
	switch {
	case string(prefix) == "xmlns" || string(uri) == namespaceXMLNS:
		return "a declaration of the namespace of declarations"
	case (string(prefix) == "xml") != (string(uri) == namespaceXML):
		return "a declaration that changes the prefix xml"
	case prefix != nil && len(uri) == 0:
		return "a declaration that takes a prefix away"
	}
	for _, b := range s.bindings[first:] {
		if b.prefix == string(prefix) {
			return "a namespace declared twice in one tag"
		}
	}
	s.bindings = append(s.bindings, binding{s.intern(prefix), s.intern(uri)})
	return ""
}

// namespace is that of an element's prefix; false for an undeclared one.
func (s *scanner) namespace(prefix []byte) (string, bool) {
	for i := len(s.bindings) - 1; i >= 0; i-- {
		if s.bindings[i].prefix == string(prefix) {
			return s.bindings[i].uri, true
		}
	}
	switch string(prefix) {
	case "":
		return "", true
	case "xml":
		return namespaceXML, true
	}
	return "", false
}

// nearSitemap reports namespaces that are meant as that of Sitemaps: with https or a slash behind it, of another
// version, or Google's from before.
func nearSitemap(uri string) bool {
	const most = 200
	if len(uri) > most {
		return false
	}
	low := strings.ToLower(uri) + "/"
	return strings.Contains(low, "sitemaps.org/") || strings.Contains(low, "/schemas/sitemap/")
}
