package websub

import (
	"net/url"
	"strings"
)

// ParseLinks parses Link headers (RFC 8288) with the tolerance of S-09. A link without target or relation is skipped;
// nothing is an error. base is the final URL of the answer, or nil.
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

type param struct{ name, value string }

func makeLink(target string, params []param, base *url.URL) (Link, bool) {
	var l Link
	var ok, sawRel, sawAnchor bool
	if l.Target, ok = resolve(target, base); !ok {
		return l, false
	}
	for _, p := range params {
		switch p.name {
		case "rel": // RFC 8288 3.3
			if !sawRel {
				l.Rels, sawRel = relations(p.value), true
			}
		case "anchor":
			if !sawAnchor {
				if l.Anchor, ok = anchorOf(p.value, base); !ok {
					return l, false // of an unknown context
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

func (s *scanner) target() (string, bool) {
	for {
		s.rest = strings.TrimLeft(s.rest, blanks+",;")
		if s.rest == "" {
			return "", false
		}
		if s.rest[0] != '<' {
			s.params() // no link: skip to the next comma
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
	case s.rest[0] == '\'': // seen, but not in RFC 8288
		if end := strings.IndexByte(s.rest[1:], '\''); end >= 0 {
			v := s.rest[1 : 1+end]
			s.rest = s.rest[end+2:]
			return v
		}
	}
	return s.until(";," + blanks)
}

// An unclosed quoted-string ends with the header.
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
