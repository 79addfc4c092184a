package feed

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const nsDC = "http://purl.org/dc/elements/1.1/"

// infoset is an element, or text where it has no name: what a document means, however it is spelt.
type infoset struct {
	uri, local string
	attrs      []attribute // without prefixes
	text       string
	kids       []*infoset
}

// drawContent draws what stands in an element that may hold anything.
func drawContent(t *rapid.T, depth int) []*infoset {
	var kids []*infoset
	for range rapid.IntRange(0, 3).Draw(t, "kids") {
		if depth > 0 && rapid.Bool().Draw(t, "element") {
			kids = append(kids, drawElement(t, depth-1))
		} else if n := len(kids); n == 0 || kids[n-1].local != "" {
			kids = append(kids, &infoset{text: drawText(t)})
		}
	}
	return kids
}

func drawText(t *rapid.T) string {
	return rapid.StringOfN(rapid.SampledFrom([]rune(" \n\ta<>&'\"]é😀\r")), 1, 8, -1).Draw(t, "text")
}

func drawElement(t *rapid.T, depth int) *infoset {
	e := &infoset{
		uri:   rapid.SampledFrom([]string{nsAtom, nsXHTML, nsDC, "urn:m", ""}).Draw(t, "namespace"),
		local: rapid.SampledFrom([]string{"a", "pre", "div"}).Draw(t, "name"),
	}
	for _, a := range []attribute{{local: "x"}, {local: "y"}, {local: "z", uri: nsDC}, {local: "z", uri: "urn:m"}, {local: "space", uri: nsXML}} {
		if rapid.IntRange(0, 3).Draw(t, "attribute") == 0 {
			a.value = drawText(t)
			e.attrs = append(e.attrs, a)
		}
	}
	e.kids = drawContent(t, depth)
	return e
}

// speller writes an infoset in one of the many ways.
type speller struct {
	t     *rapid.T
	b     strings.Builder
	scope map[string]string
}

// prefixOf chooses a prefix; that of a vocabulary which nobody knows is kept by whoever writes it anew.
func (s *speller) prefixOf(uri string, attribute bool) string {
	switch {
	case uri == "":
		return ""
	case uri == nsXML:
		return "xml"
	case uri == "urn:m":
		return "m"
	}
	choice := []string{"p", "q", ""}
	if attribute {
		choice = choice[:2]
	}
	return rapid.SampledFrom(choice).Draw(s.t, "prefix")
}

func (s *speller) element(e *infoset, lines bool) {
	outer := s.scope
	s.scope = map[string]string{}
	for k, v := range outer {
		s.scope[k] = v
	}
	defer func() { s.scope = outer }()
	var parts []string
	own := map[string]string{} // what the tag means by its prefixes
	use := func(prefix, uri string) {
		own[prefix] = uri
		if prefix == "xml" || s.scope[prefix] == uri && rapid.IntRange(0, 5).Draw(s.t, "again") > 0 {
			return
		}
		s.scope[prefix] = uri
		name := "xmlns"
		if prefix != "" {
			name += ":" + prefix
		}
		if part := fmt.Sprintf("%s='%s'", name, uri); !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	prefix := s.prefixOf(e.uri, false)
	use(prefix, e.uri)
	for _, a := range e.attrs {
		p := s.prefixOf(a.uri, true)
		for p != "" && own[p] != "" && own[p] != a.uri {
			p = map[string]string{"p": "q", "q": "p"}[p]
		}
		if p != "" {
			use(p, a.uri)
			p += ":"
		}
		parts = append(parts, p+a.local+"="+s.value(a.value))
	}
	parts = rapid.Permutation(parts).Draw(s.t, "order")
	name := e.local
	if prefix != "" {
		name = prefix + ":" + name
	}
	s.b.WriteString("<" + name)
	for _, p := range parts {
		s.b.WriteString(rapid.SampledFrom([]string{" ", "\n ", "\t"}).Draw(s.t, "gap") + p)
	}
	if len(e.kids) == 0 && rapid.Bool().Draw(s.t, "short") {
		s.b.WriteString("/>")
		return
	}
	s.b.WriteString(">")
	gap := func() {
		if lines {
			s.b.WriteString(rapid.SampledFrom([]string{"", "\n", "  ", "<!-- - -->\n"}).Draw(s.t, "space"))
		}
	}
	gap()
	for _, k := range e.kids {
		if k.local == "" {
			s.text(k.text)
		} else {
			s.element(k, lines && k.uri == nsAtom && k.local == "author")
			gap()
		}
	}
	s.b.WriteString("</" + name + ">")
}

func (s *speller) value(v string) string {
	q := rapid.SampledFrom([]string{`"`, "'"}).Draw(s.t, "quote")
	v = strings.NewReplacer("&", "&amp;", "<", "&lt;", "\n", "&#10;", "\t", "&#x9;", "\r", "&#13;", q, fmt.Sprintf("&#%d;", q[0])).Replace(v)
	if rapid.Bool().Draw(s.t, "line") {
		v = strings.Replace(v, " ", "\n", 1) // a literal one is a blank
	}
	return q + v + q
}

func (s *speller) text(text string) {
	for _, r := range text {
		switch how := rapid.IntRange(0, 3).Draw(s.t, "how"); {
		case how == 0:
			fmt.Fprintf(&s.b, "&#%d;", r)
		case how == 1 && r != '\r':
			fmt.Fprintf(&s.b, "<![CDATA[%c]]>", r)
		case how == 2:
			s.b.WriteString("<!-- > -- ' -->")
			fallthrough
		default:
			s.b.WriteString(strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\r", "&#xD;").Replace(string(r)))
		}
	}
}

func (e *infoset) tokens(out []string) []string {
	if e.local == "" {
		return append(out, e.text)
	}
	tag := "<" + e.uri + " " + e.local
	var attrs []string
	for _, a := range e.attrs {
		attrs = append(attrs, fmt.Sprintf(" %s %s=%q", a.uri, a.local, a.value))
	}
	slices.Sort(attrs)
	out = append(out, tag+strings.Join(attrs, ""))
	for _, k := range e.kids {
		out = k.tokens(out)
	}
	return append(out, ">")
}

// meaning is what the standard decoder, strict, makes of an entry's document. White space right in it, or in an author,
// means nothing.
func meaning(t *rapid.T, doc []byte) []string {
	d := xml.NewDecoder(strings.NewReader(string(doc)))
	var out []string
	var path []string
	text := ""
	flush := func() {
		if n := len(path); n > 0 && (n > 1 && path[n-1] != "author" || strings.TrimSpace(text) != "") && text != "" {
			out = append(out, text)
		}
		text = ""
	}
	for {
		tok, err := d.Token()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			flush()
			path = append(path, tok.Name.Local)
			e := &infoset{uri: tok.Name.Space, local: tok.Name.Local}
			for _, a := range tok.Attr {
				if a.Name.Space == "xmlns" || a.Name.Space == "" && a.Name.Local == "xmlns" {
					continue
				}
				e.attrs = append(e.attrs, attribute{uri: a.Name.Space, local: a.Name.Local, value: a.Value})
			}
			all := e.tokens(nil)
			out = append(out, all[0])
		case xml.EndElement:
			flush()
			path = path[:len(path)-1]
			out = append(out, ">")
		case xml.CharData:
			text += string(tok)
		}
	}
}

// However an entry is spelt, its document means what the entry means, and is always the same bytes.
func TestSpellings(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		entry, id, start, end := &infoset{uri: nsAtom, local: "entry"}, "id", "<feed xmlns='"+nsAtom+"'", "</feed>"
		if rapid.Bool().Draw(t, "rss") {
			entry, id, start, end = &infoset{local: "item"}, "guid", "<rss", "</rss>"
		}
		child := func(local string, kids ...*infoset) {
			entry.kids = append(entry.kids, &infoset{uri: entry.uri, local: local, kids: kids})
		}
		child(id, &infoset{text: "urn:a"})
		child("title", &infoset{text: "t" + drawText(t) + "t"})
		child("author", &infoset{uri: entry.uri, local: "name", kids: []*infoset{{text: "N"}}})
		child("content", drawContent(t, 3)...)
		entry.kids = append(entry.kids, drawElement(t, 2))
		spell := func() *Entry {
			s := &speller{t: t, scope: map[string]string{}}
			s.scope[""] = entry.uri
			above := ""
			if rapid.Bool().Draw(t, "declared above") {
				above = " xmlns:p='" + nsXHTML + "' xmlns:m='urn:m'"
				s.scope["p"], s.scope["m"] = nsXHTML, "urn:m"
			}
			s.element(entry, true)
			doc := start + above + ">" + s.b.String() + end
			var got []*Entry
			head, err := Read(strings.NewReader(doc), Options{}, func(e *Entry) error { got = append(got, e); return nil })
			if err != nil || len(got) != 1 || head.Skipped > 0 {
				t.Fatalf("%v, %d entries, problems %q in\n%s", err, len(got), head.Problems, doc)
			}
			if d := cmp.Diff(entry.tokens(nil), meaning(t, got[0].XML)); d != "" {
				t.Fatalf("another meaning (-want +got)\n%s\n%s\n%s", d, doc, got[0].XML)
			}
			return got[0]
		}
		one, two := spell(), spell()
		if d := cmp.Diff(one, two); d != "" {
			t.Fatalf("not the same:\n%s\n%s\n%s", d, one.XML, two.XML)
		}
	})
}
