package websub

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
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
	return targets(links, func(l Link) bool { return l.Has(rel) })
}

func targets(links []Link, wanted func(Link) bool) []string {
	var all []string
	for _, l := range links {
		if l.Anchor == "" && wanted(l) && !slices.Contains(all, l.Target) {
			all = append(all, l.Target)
		}
	}
	return all
}

const maxFeeds = 20

// FeedTargets lists the feeds that links name as other forms of the document itself: relation alternate, of a media
// type that only feeds have.
func FeedTargets(links []Link) []string {
	all := targets(links, func(l Link) bool {
		return l.Has("alternate") && isFeedType(l.Params["type"]) && OnWeb(l.Target)
	})
	return all[:min(len(all), maxFeeds)]
}

var feedTypes = []string{"application/atom+xml", "application/rss+xml", "application/rdf+xml"}

func isFeedType(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	return slices.Contains(feedTypes, strings.ToLower(strings.TrimSpace(media)))
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
	l := Link{Rels: relations(values(params).get("rel"))} // the first one (RFC 8288 3.3)
	var ok bool
	if l.Target, ok = resolve(target, base); !ok {
		return l, false
	}
	if anchor, given := values(params).lookup("anchor"); given {
		if l.Anchor, ok = anchorOf(anchor, base); !ok {
			return l, false // of an unknown context
		}
	}
	for _, p := range params {
		if _, twice := l.Params[p.name]; twice || p.name == "rel" || p.name == "anchor" {
			continue
		}
		if l.Params == nil {
			l.Params = make(map[string]string)
		}
		l.Params[p.name] = p.value
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

// LinkHeader returns the one Link header of distributed content and of a topic (H-11, P-01): hub, self and further
// links. Empty ones are left out.
func LinkHeader(hub, self string, more ...Link) string {
	var all []string
	own := []Link{{Target: hub, Rels: []string{"hub"}}, {Target: self, Rels: []string{"self"}}}
	for _, l := range append(own, more...) {
		if l.Target != "" && len(l.Rels) > 0 {
			all = append(all, l.header())
		}
	}
	return strings.Join(all, ", ")
}

var (
	token = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	// unfit is what would end a target or the header early (S-04).
	unfit = regexp.MustCompile("[^!-~]|[<>]")
	// Control characters, which a header may not hold, become blanks.
	control   = regexp.MustCompile("[\x00-\x1f\x7f]")
	backslash = strings.NewReplacer(`"`, `\"`, `\`, `\\`)
)

func quoted(s string) string { return `"` + backslash.Replace(control.ReplaceAllString(s, " ")) + `"` }

func (l Link) header() string {
	target := unfit.ReplaceAllStringFunc(l.Target, func(found string) string {
		return "%" + strings.ReplaceAll(fmt.Sprintf("% X", found), " ", "%")
	})
	out := "<" + target + ">; rel=" + quoted(strings.Join(l.Rels, " "))
	if l.Anchor != "" {
		out += "; anchor=" + quoted(l.Anchor)
	}
	for _, name := range slices.Sorted(maps.Keys(l.Params)) {
		value := l.Params[name]
		encoded := strings.HasSuffix(name, "*") // never quoted (RFC 8187)
		switch {
		case !token.MatchString(name), encoded && !token.MatchString(value):
		case encoded:
			out += "; " + name + "=" + value
		case value == "":
			out += "; " + name
		default:
			out += "; " + name + "=" + quoted(value)
		}
	}
	return out
}

// maxHead bounds how much of a page is read (P8).
const maxHead = 512 << 10

// HTMLLinks reads the link elements in the head of a page, and nothing behind it, because a user may have written a
// link in the body (S-07). The links found before a read error are returned with it.
func HTMLLinks(r io.Reader, base *url.URL) ([]Link, error) {
	h := headReader{z: html.NewTokenizer(io.LimitReader(r, maxHead))}
	h.z.SetMaxBuf(maxHead)
	err := h.read()
	at := base
	if abs, ok := resolve(h.base, base); ok && strings.TrimSpace(h.base) != "" {
		if u, err := url.Parse(abs); err == nil {
			at = u
		}
	}
	var links []Link
	for _, attrs := range h.found {
		href := strings.TrimSpace(values(attrs).get("href"))
		rest := slices.DeleteFunc(attrs, func(a param) bool { return a.name == "href" || a.name == "anchor" })
		if l, ok := makeLink(href, rest, at); ok && href != "" {
			links = append(links, l)
		}
	}
	return links, err
}

const markupBlanks = " \t\r\n\f\ufeff"

type headReader struct {
	z        *html.Tokenizer
	found    [][]param
	base     string
	template int // depth of template elements, which are inert
	text     atom.Atom
}

func (h *headReader) read() error {
	for len(h.found) < maxLinks {
		switch h.z.Next() {
		case html.ErrorToken:
			if err := h.z.Err(); !errors.Is(err, io.EOF) && !errors.Is(err, html.ErrBufferExceeded) {
				return fmt.Errorf("read the head of a page: %w", err)
			}
			return nil
		case html.TextToken:
			if h.text == 0 && h.template == 0 && strings.Trim(string(h.z.Raw()), markupBlanks) != "" {
				return nil // text outside an element opens the body
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			if !h.start() {
				return nil
			}
		case html.EndTagToken:
			if !h.end() {
				return nil
			}
		}
	}
	return nil
}

// start takes a start tag; false if it opens the body.
func (h *headReader) start() bool {
	tag := h.z.Token()
	switch tag.DataAtom {
	case atom.Html, atom.Head, atom.Meta, atom.Basefont, atom.Bgsound:
	case atom.Link:
		if h.template == 0 {
			h.found = append(h.found, attributes(tag))
		}
	case atom.Base:
		if h.base == "" && h.template == 0 {
			h.base = values(attributes(tag)).get("href")
		}
	case atom.Title, atom.Script, atom.Style, atom.Noscript, atom.Noframes:
		h.text = tag.DataAtom
	case atom.Template:
		h.template++
	default:
		return h.template > 0
	}
	return true
}

// end takes an end tag; false if it closes the head.
func (h *headReader) end() bool {
	name, _ := h.z.TagName()
	switch tag := atom.Lookup(name); tag {
	case atom.Head, atom.Html, atom.Body:
		return h.template > 0
	case atom.Template:
		h.template = max(0, h.template-1)
	case h.text:
		h.text = 0
	}
	return true
}

// attributes are the first ones; of repeated ones the first counts wherever they are read.
func attributes(tag html.Token) []param {
	var all []param
	for _, a := range tag.Attr[:min(len(tag.Attr), maxParams)] {
		all = append(all, param{a.Key, a.Val})
	}
	return all
}
