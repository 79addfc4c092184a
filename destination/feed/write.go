package feed

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"
	"time"
	"unicode/utf8"
)

// Document is a feed to be written. Empty strings and zero times are left out.
type Document struct {
	ID, Title, Self string
	Hubs            []string
	Updated         time.Time
	// Paging and archiving (RFC 5005).
	Current, PrevArchive, NextArchive string
	// Archive says that the document never changes again.
	Archive bool
	Entries []NewEntry
}

// NewEntry is an entry to be written.
type NewEntry struct {
	ID, Title, Author string
	Updated           time.Time
	Links             []Link // a Length of 0 or less is left out
	Summary           string
	// Deleted makes it an at:deleted-entry of ID (RFC 6721), deleted at Updated.
	Deleted bool
	// Edit makes it an edit of a record (T-03), with the edit's author only.
	Edit *Edit
}

//go:embed atom.tmpl rss.tmpl
var layouts embed.FS

// documents are the layouts of what is written.
var documents = template.Must(template.New("").Funcs(template.FuncMap{
	"text":    func(s string) string { return textEscapes.Replace(valid(s)) },
	"value":   func(s string) string { return valueEscapes.Replace(valid(s)) },
	"time":    stamp,
	"rssTime": rssTime,
}).ParseFS(layouts, "*.tmpl"))

// Write writes an Atom 1.0 document (RFC 4287) that Read reads back. Characters that XML does not allow become U+FFFD.
// Missing required elements are left out, because a record's edits have none (T-03).
func Write(w io.Writer, d *Document) error { return d.write(w, "atom.tmpl", "") }

// WriteRSS writes RSS 2.0 with the links of Atom in it, as much software does; site is the page that it belongs to. It
// has no word for a deletion or an edit, and its times have whole seconds.
func WriteRSS(w io.Writer, d *Document, site string) error { return d.write(w, "rss.tmpl", site) }

func (d *Document) write(w io.Writer, layout, site string) error {
	var body bytes.Buffer
	err := documents.ExecuteTemplate(&body, layout, map[string]any{
		"ID": d.ID, "Title": d.Title, "Site": site, "Updated": d.Updated, "Archive": d.Archive, "Links": d.links(),
		"Entries": d.Entries, "Deletions": d.some(func(e NewEntry) bool { return e.Deleted }),
		"Edits": d.some(func(e NewEntry) bool { return e.Edit != nil }),
	})
	if err == nil {
		_, err = body.WriteTo(w)
	}
	if err != nil {
		return fmt.Errorf("write a feed: %w", err)
	}
	return nil
}

func (d *Document) some(is func(NewEntry) bool) bool { return slices.ContainsFunc(d.Entries, is) }

// links are those of the document itself.
func (d *Document) links() []Link {
	links := []Link{{Rel: "self", Href: d.Self}}
	for _, hub := range d.Hubs {
		links = append(links, Link{Rel: "hub", Href: hub})
	}
	links = append(links, Link{Rel: "current", Href: d.Current}, Link{Rel: "prev-archive", Href: d.PrevArchive},
		Link{Rel: "next-archive", Href: d.NextArchive})
	return slices.DeleteFunc(links, func(l Link) bool { return l.Href == "" })
}

func rssTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC1123Z)
}

// valid replaces characters that XML does not allow.
func valid(s string) string {
	return strings.Map(func(r rune) rune {
		if xmlChar(r) {
			return r
		}
		return utf8.RuneError
	}, s)
}

// Escapes of text, and of an attribute's value, with which the same string is read again.
var (
	textEscapes  = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\r", "&#xD;")
	valueEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\r", "&#xD;", `"`, "&quot;",
		"\n", "&#xA;", "\t", "&#x9;")
)

const xmlDeclaration = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"

// canonical writes elements so that equal meaning gives equal bytes: namespaces are declared where the written element
// begins, whatever element of the feed declared them, attributes are sorted, the entry's own namespace and XHTML's have
// no prefix and well-known ones their usual prefix, CDATA becomes text, comments are left out. The rest stays: text,
// unknown elements, prefixes of other vocabularies.
type canonical struct {
	buf bytes.Buffer
	// bytes, about: without it, much declared and often used would grow beyond all bounds (P8)
	limit   int
	own     string    // namespace of the root
	hoisted []binding // declared on the root: the first namespace of each prefix
	local   []binding // declared in enclosing elements, where a prefix changes its meaning
	full    bool      // more were in scope somewhere than may be
}

const (
	maxHoisted  = 64  // declarations on the root; further prefixes are declared where they are used
	maxDeclared = 192 // declarations in scope; fewer than maxBindings, so that the output can be read
	// An entry may grow by this factor, as if all of it had to be escaped, and by mostAdded for the feed's
	// declarations.
	mostGrowth = 8
	mostAdded  = 32 << 10
)

// writeDocument writes n as a document of its own of about limit bytes at most, with base as its xml:base unless that
// is "", and with the inherited language.
func (c *canonical) writeDocument(n *node, base string, limit int) ([]byte, error) {
	c.reset()
	c.own, c.limit = n.uri, limit
	root := *n
	root.attrs = slices.DeleteFunc(slices.Clone(n.attrs), func(a attribute) bool {
		return a.uri == nsXML && (a.local == "base" || a.local == "lang")
	})
	bare := len(root.attrs) == 0
	if base != "" {
		root.attrs = append(root.attrs, attribute{"xml", "base", nsXML, base})
	}
	if n.at.lang != "" {
		root.attrs = append(root.attrs, attribute{"xml", "lang", nsXML, n.at.lang})
	}
	top := c.normalize(&root)
	c.declarePrefixes(top)
	c.writeBody(top, "\n  ")
	if c.full {
		return nil, entryError(fmt.Sprintf("more than %d namespaces at once", maxDeclared))
	}
	body := bytes.Clone(c.buf.Bytes())
	if bare && len(body) == 0 { // white space, or a language of nothing: all such entries would be equal
		return nil, entryError("it is empty")
	}

	c.buf.Reset()
	c.buf.WriteString(xmlDeclaration)
	c.writeTag(top, slices.DeleteFunc(c.hoisted, func(b binding) bool { return b.uri == "" }))
	if len(body) == 0 {
		c.buf.WriteString("/>\n")
	} else {
		c.buf.WriteByte('>')
		c.buf.Write(body)
		c.buf.WriteString("\n</" + qualified(top.prefix, top.local) + ">\n")
	}
	if c.buf.Len() > c.limit {
		return nil, entryError(fmt.Sprintf("as a document of its own it has more than %d bytes", c.limit))
	}
	return bytes.Clone(c.buf.Bytes()), nil
}

// writeBody writes the content of n, each part on a line: white space there means nothing.
func (c *canonical) writeBody(n *node, line string) {
	for _, k := range n.kids {
		switch {
		case structural(k):
			c.buf.WriteString(line)
			c.writeElement(k, line)
		case k.isElement() || k.target != "":
			c.buf.WriteString(line)
			c.node(k)
		default:
			if s := strings.TrimSpace(k.text); s != "" {
				c.buf.WriteString(line)
				c.buf.WriteString(textEscapes.Replace(s))
			}
		}
	}
}

// structural reports an element that holds other elements and no text.
func structural(n *node) bool {
	switch n.name(atomVocabulary) {
	case "author", "contributor", "source":
		return len(n.kids) > 0
	}
	switch n.name(report) {
	case "content", "row":
		return len(n.kids) > 0
	}
	return false
}

// innerMarkup is the markup in n, a title, without its namespaces; cut behind the greatest length of a title.
func (c *canonical) innerMarkup(n *node) string {
	c.reset()
	c.own, c.limit = "", maxTitle
	for _, k := range n.kids {
		c.node(k)
	}
	return c.buf.String()
}

func (c *canonical) node(n *node) {
	switch {
	case n.target != "":
		c.buf.WriteString("<?" + n.target + " " + n.text + "?>")
	case !n.isElement():
		c.buf.WriteString(textEscapes.Replace(n.text))
	default:
		c.writeElement(n, "")
	}
}

// writeElement writes an element, its content on lines of its own unless line, the beginning of its own line, is "".
func (c *canonical) writeElement(n *node, line string) {
	if c.full || c.buf.Len() > c.limit {
		return // refused
	}
	n = c.normalize(n)
	outer := len(c.local)
	c.declarePrefixes(n)
	c.writeTag(n, slices.Clone(c.local[outer:]))
	if len(n.kids) == 0 {
		c.buf.WriteString("/>")
	} else {
		c.buf.WriteByte('>')
		if line != "" {
			c.writeBody(n, line+"  ")
			c.buf.WriteString(line)
		} else {
			for _, k := range n.kids {
				c.node(k)
			}
		}
		c.buf.WriteString("</" + qualified(n.prefix, n.local) + ">")
	}
	c.local = c.local[:outer]
}

// writeTag writes a start tag up to its end, or an empty element.
func (c *canonical) writeTag(n *node, declared []binding) {
	c.buf.WriteString("<" + qualified(n.prefix, n.local))
	slices.SortFunc(declared, func(a, b binding) int { return strings.Compare(a.prefix, b.prefix) })
	for _, b := range declared {
		c.buf.WriteString(" xmlns")
		if b.prefix != "" {
			c.buf.WriteString(":" + b.prefix)
		}
		c.value(b.uri)
	}
	attrs := slices.SortedFunc(slices.Values(n.attrs), func(a, b attribute) int {
		return cmp.Or(strings.Compare(a.uri, b.uri), strings.Compare(a.local, b.local))
	})
	for _, a := range attrs {
		c.buf.WriteString(" " + qualified(a.prefix, a.local))
		c.value(a.value)
	}
}

func (c *canonical) value(s string) { c.buf.WriteString(`="` + valueEscapes.Replace(s) + `"`) }

func qualified(prefix, local string) string {
	if prefix == "" {
		return local
	}
	return prefix + ":" + local
}

func (c *canonical) reset() {
	c.buf.Reset()
	c.hoisted, c.local, c.full = c.hoisted[:0], c.local[:0], false
}

// normalize is n with its written prefixes: its own namespace and XHTML's without one, well-known ones with their usual
// prefix. It is n itself if a usual prefix has another meaning there.
func (c *canonical) normalize(n *node) *node {
	m := *n
	m.prefix, m.attrs = usualPrefix(n.prefix, n.uri), slices.Clone(n.attrs)
	if n.uri == c.own || n.uri == nsXHTML {
		m.prefix = ""
	}
	for i, a := range m.attrs {
		m.attrs[i].prefix = usualPrefix(a.prefix, a.uri)
	}
	if m.ambiguous() {
		return n
	}
	return &m
}

// ambiguous reports whether a prefix would stand for two namespaces in one tag.
func (n *node) ambiguous() bool {
	all := append([]binding{{n.prefix, n.uri}}, n.uses...)
	for _, a := range n.attrs {
		if a.prefix != "" {
			all = append(all, binding{a.prefix, a.uri})
		}
	}
	slices.SortFunc(all, func(a, b binding) int { return strings.Compare(a.prefix, b.prefix) })
	for i := range all[1:] {
		if all[i].prefix == all[i+1].prefix && all[i].uri != all[i+1].uri {
			return true
		}
	}
	return false
}

// declarePrefixes declares the missing prefixes of an element.
func (c *canonical) declarePrefixes(n *node) {
	c.declare(binding{n.prefix, n.uri})
	for _, a := range n.attrs {
		if a.prefix != "" {
			c.declare(binding{a.prefix, a.uri})
		}
	}
	for _, b := range n.uses {
		c.declare(b)
	}
}

func (c *canonical) declare(b binding) {
	if b.prefix == "xml" || b.prefix == "xmlns" {
		return
	}
	same := func(other binding) bool { return other.prefix == b.prefix }
	now := slices.IndexFunc(c.hoisted, same)
	bound := now >= 0 && c.hoisted[now].uri == b.uri
	for _, l := range c.local {
		if same(l) {
			now, bound = 0, l.uri == b.uri
		}
	}
	switch {
	case bound:
	case now < 0 && (len(c.hoisted) < maxHoisted || b.prefix == ""):
		c.hoisted = append(c.hoisted, b)
	default:
		c.local = append(c.local, b)
	}
	c.full = c.full || len(c.hoisted)+len(c.local) > maxDeclared
}
