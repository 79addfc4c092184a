package websub

import (
	"net/url"
	"strings"
)

// ParseLinks parses the Link headers of one answer (RFC 8288) with the tolerance of S-09: one
// header or several, tokens or quoted strings, commas and semicolons inside <…> and quotes, any
// order and letter case of parameters, a missing semicolon before the first, empty elements. A link
// without target or relation is skipped; nothing is an error. base is the final URL of the answer;
// with nil only absolute targets are found.
func ParseLinks(values []string, base *url.URL) []Link {
	var links []Link
	for _, v := range values {
		s := scanner{rest: v}
		for len(links) < maxLinks {
			target, ok := s.target()
			if !ok {
				break
			}
			if l, ok := makeLink(target, s.params(), base); ok {
				links = append(links, l)
			}
		}
	}
	return links
}

// param is one parameter of a link; a flag without value has an empty one.
type param struct{ name, value string }

func makeLink(target string, params []param, base *url.URL) (Link, bool) {
	var l Link
	var ok, sawRel, sawAnchor bool
	if l.Target, ok = resolve(target, base); !ok {
		return l, false
	}
	for _, p := range params {
		switch p.name {
		case "rel": // a second one MUST be ignored (RFC 8288 3.3)
			if !sawRel {
				l.Rels, sawRel = relations(p.value), true
			}
		case "anchor":
			if !sawAnchor {
				if l.Anchor, ok = anchorOf(p.value, base); !ok {
					return l, false // its context is unknown, so it is not the document
				}
				sawAnchor = true
			}
		default:
			if l.Params == nil {
				l.Params = make(map[string]string)
			}
			if _, twice := l.Params[p.name]; !twice {
				l.Params[p.name] = p.value
			}
		}
	}
	return l, len(l.Rels) > 0
}

type scanner struct{ rest string }

const blanks = " \t\r\n"

// target moves past the next <…> that opens an element of the list.
func (s *scanner) target() (string, bool) {
	for {
		s.rest = strings.TrimLeft(s.rest, blanks+",;")
		if s.rest == "" {
			return "", false
		}
		if s.rest[0] != '<' {
			s.params() // no link: skip its parameters to the next comma
			continue
		}
		end := strings.IndexByte(s.rest, '>')
		if end < 0 {
			s.rest = ""
			return "", false
		}
		t := s.rest[1:end]
		s.rest = s.rest[end+1:]
		return t, true
	}
}

// params moves past the parameters up to and over the comma that ends the element.
func (s *scanner) params() []param {
	var all []param
	for {
		s.rest = strings.TrimLeft(s.rest, blanks+";")
		if s.rest == "" {
			return all
		}
		if s.rest[0] == ',' {
			s.rest = s.rest[1:]
			return all
		}
		p := param{name: strings.ToLower(s.until("=;," + blanks))}
		s.rest = strings.TrimLeft(s.rest, blanks)
		if s.rest != "" && s.rest[0] == '=' {
			s.rest = strings.TrimLeft(s.rest[1:], blanks)
			p.value = s.value()
		}
		if p.name != "" && len(all) < maxParams {
			all = append(all, p)
		}
	}
}

func (s *scanner) value() string {
	switch {
	case s.rest == "":
		return ""
	case s.rest[0] == '"':
		return s.quoted()
	case s.rest[0] == '\'': // no syntax of RFC 8288, but seen
		if end := strings.IndexByte(s.rest[1:], '\''); end >= 0 {
			v := s.rest[1 : 1+end]
			s.rest = s.rest[end+2:]
			return v
		}
	}
	return s.until(";," + blanks)
}

// quoted reads a quoted-string with its escapes. An unclosed one ends with the header.
func (s *scanner) quoted() string {
	var b strings.Builder
	for i := 1; i < len(s.rest); i++ {
		switch c := s.rest[i]; {
		case c == '"':
			s.rest = s.rest[i+1:]
			return b.String()
		case c == '\\' && i+1 < len(s.rest):
			i++
			b.WriteByte(s.rest[i])
		default:
			b.WriteByte(c)
		}
	}
	s.rest = ""
	return b.String()
}

func (s *scanner) until(stops string) string {
	end := strings.IndexAny(s.rest, stops)
	if end < 0 {
		end = len(s.rest)
	}
	v := s.rest[:end]
	s.rest = s.rest[end:]
	return v
}
