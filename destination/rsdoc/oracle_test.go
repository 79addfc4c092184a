package rsdoc

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"net/url"
	"regexp"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// node is an element of the oracle's tree.
type node struct {
	name     xml.Name
	attrs    map[string]string // those without namespace
	text     string
	children []*node
}

// parseTree reads with encoding/xml, holding everything in memory.
func parseTree(b []byte) (*node, error) {
	d := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(b, []byte("\xEF\xBB\xBF"))))
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	var root *node
	var stack []*node
	for {
		tok, err := d.Token()
		if err == io.EOF {
			if root == nil {
				err = io.ErrUnexpectedEOF
			} else {
				err = nil
			}
			return root, err
		}
		if err != nil {
			return root, err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			n := &node{name: tok.Name, attrs: map[string]string{}}
			for _, a := range tok.Attr {
				if a.Name.Space == "" && a.Name.Local != "xmlns" {
					n.attrs[a.Name.Local] = a.Value
				}
			}
			if len(stack) > 0 {
				top := stack[len(stack)-1]
				top.children = append(top.children, n)
			} else if root == nil {
				root = n
			}
			stack = append(stack, n)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			if len(stack) > 0 {
				stack[len(stack)-1].text += string(tok)
			}
		}
	}
}

// errContradiction stands for the documents that are refused for what they say.
var errContradiction = errors.New("two rs:md")

// oracleRead applies the rules of documents to the tree.
func oracleRead(b []byte, base *url.URL) (document, error) {
	root, err := parseTree(b)
	d := document{Head: NewHead(List, KindUnknown)}
	if err != nil {
		return d, err
	}
	if root.name.Space != NamespaceSitemap || root.name.Local != "urlset" && root.name.Local != "sitemapindex" {
		return d, errors.New("wrong root")
	}
	entryName := "url"
	if root.name.Local == "sitemapindex" {
		d.Head.Shape, entryName = Index, "sitemap"
	}
	o := oracle{base: base}
	var ordinal int64
	for _, n := range root.children {
		switch n.name {
		case xml.Name{Space: NamespaceSitemap, Local: entryName}:
			e, good := o.entry(n, d.Head.Kind)
			if e.Ordinal = ordinal; good {
				d.Entries = append(d.Entries, e)
			} else {
				d.Skipped++
			}
			ordinal++
		case xml.Name{Space: NamespaceRS, Local: "md"}:
			h := o.head(n)
			h.Shape, h.Links = d.Head.Shape, nil
			links := d.Head.Links
			if d.Head.Links = nil; d.Head.HasMD && !cmp.Equal(h, d.Head, cmpopts.IgnoreFields(Head{}, "RawKind")) {
				return d, errContradiction
			}
			if !d.Head.HasMD {
				d.Head = h
			}
			d.Head.Links = links
		case xml.Name{Space: NamespaceRS, Local: "ln"}:
			if l, ok := o.link(n); ok {
				d.Head.Links = append(d.Head.Links, l)
			}
		default:
			local, space := n.name.Local, n.name.Space
			if (space == "" || space == NamespaceSitemap || o.almost(space)) && (local == "url" || local == "sitemap") {
				d.Skipped++
				ordinal++
			}
		}
	}
	return d, nil
}

type oracle struct{ base *url.URL }

// almost tells what somebody may take for the namespace of Sitemaps.
func (oracle) almost(space string) bool {
	parts := strings.Split(strings.ToLower(space), "/")
	for i, part := range parts {
		if strings.HasSuffix(part, "sitemaps.org") || part == "sitemap" && i > 1 && parts[i-1] == "schemas" {
			return len(space) <= 200
		}
	}
	return false
}

func (oracle) time(s string, ok bool) Micros {
	if m, err := ParseMicros(s); ok && err == nil {
		return m
	}
	return NoTime
}

func (o oracle) head(n *node) Head {
	h := NewHead(List, KindUnknown)
	h.HasMD, h.RawKind = true, n.attrs["capability"]
	h.Kind = o.kind(h.RawKind)
	for name, to := range map[string]*Micros{"at": &h.At, "completed": &h.Completed, "from": &h.From, "until": &h.Until} {
		v, ok := n.attrs[name]
		*to = o.time(v, ok)
	}
	if (h.Kind == KindResourceList || h.Kind == KindResourceDump || h.Kind == KindResourceDumpManifest) && !h.At.Known() {
		h.At = h.From
	}
	return h
}

func (oracle) kind(s string) Kind {
	s = strings.NewReplacer("\n", " ", "\t", " ", "\r", " ").Replace(s) // as XML has attributes (3.3.3)
	low := strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, strings.Trim(s, " \t\r\n"))
	switch low {
	case "resourcesync":
		return KindDescription
	case "changelist-notification":
		return KindChangeNotification
	}
	return Kind(low)
}

func (o oracle) entry(n *node, kind Kind) (e Entry, good bool) {
	e, good = NewEntry(""), true
	var locs []string
	var md *node
	var lastmods []Micros
	for _, c := range n.children {
		switch c.name {
		case xml.Name{Space: NamespaceSitemap, Local: "loc"}:
			uri, ok := o.uri(c.text)
			good = good && ok && len(c.children) == 0
			locs = append(locs, uri)
		case xml.Name{Space: NamespaceSitemap, Local: "lastmod"}:
			lastmods = append(lastmods, o.time(c.text, len(c.children) == 0))
		case xml.Name{Space: NamespaceRS, Local: "md"}:
			if e.HasMD {
				a, b := NewEntry(""), NewEntry("")
				o.md(&a, md)
				o.md(&b, c)
				good = good && cmp.Equal(a, b, cmpopts.EquateEmpty())
				continue
			}
			md, e.HasMD = c, true
			o.md(&e, c)
		case xml.Name{Space: NamespaceRS, Local: "ln"}:
			if l, ok := o.link(c); ok {
				e.Links = append(e.Links, l)
			} else {
				e.BadLinks++
			}
		case n.name:
			good = false
		}
	}
	for i, m := range lastmods {
		if e.LastMod = m; i > 0 && m != lastmods[i-1] {
			e.LastMod = NoTime
		}
		lastmods[i] = e.LastMod
	}
	for _, l := range locs {
		good = good && l == locs[0]
	}
	if len(locs) == 0 {
		return e, false
	}
	e.Loc = locs[0]
	switch kind {
	case KindChangeList, KindChangeDumpManifest, KindChangeNotification, KindFrameworkNotification:
		good = good && e.Change != ChangeUnknown
	}
	return e, good
}

func (o oracle) md(e *Entry, n *node) {
	for name, v := range n.attrs {
		flat := strings.NewReplacer("\n", " ", "\t", " ", "\r", " ").Replace(v)
		switch name {
		case "capability":
			e.Capability = o.kind(v)
		case "change":
			changes := map[string]Change{"created": ChangeCreated, "updated": ChangeUpdated, "deleted": ChangeDeleted}
			c, ok := changes[string(o.kind(v))]
			if e.Change = c; !ok {
				e.Change = ChangeUnknown
			}
		case "datetime":
			e.Datetime = o.time(v, true)
		case "at":
			e.At = o.time(v, true)
		case "completed":
			e.Completed = o.time(v, true)
		case "from":
			e.From = o.time(v, true)
		case "until":
			e.Until = o.time(v, true)
		case "hash":
			e.Digests, e.BadDigests = parseDigests(v, nil)
		case "length":
			e.Length = parseLength(v)
		case "type":
			e.Type = trimSpace(flat)
		case "encoding":
			e.Encoding = trimSpace(flat)
		case "path":
			e.Path = flat
		}
	}
}

func (o oracle) link(n *node) (Link, bool) {
	flat := func(name string) string {
		return strings.NewReplacer("\n", " ", "\t", " ", "\r", " ").Replace(n.attrs[name])
	}
	href, ok := o.uri(flat("href"))
	l := NewLink(trimSpace(flat("rel")), href)
	if v, ok := n.attrs["pri"]; ok {
		l.Pri = parsePri([]byte(v))
	}
	v, has := n.attrs["modified"]
	l.Modified = o.time(v, has)
	l.Type, l.Profile, l.Path = trimSpace(flat("type")), trimSpace(flat("profile")), flat("path")
	if v, ok := n.attrs["length"]; ok {
		l.Length = parseLength(v)
	}
	l.Digests, _ = parseDigests(n.attrs["hash"], nil)
	return l, ok && l.Rel != ""
}

var (
	escaped   = regexp.MustCompile("^[0-9A-Fa-f]{2}")
	authority = regexp.MustCompile("^(?s:.*?)//[^/?#]*")
)

func (o oracle) uri(s string) (string, bool) {
	s = trimSpace(s)
	u, err := url.Parse(s)
	if err != nil {
		host := authority.FindString(s)
		parts := strings.Split(s[len(host):], "%")
		for i := 1; i < len(parts); i++ {
			if !escaped.MatchString(parts[i]) {
				parts[i] = "25" + parts[i]
			}
		}
		u, err = url.Parse(host + strings.Join(parts, "%"))
	}
	if err != nil || s == "" {
		return "", false
	}
	if !u.IsAbs() {
		if o.base == nil {
			return "", false
		}
		u = o.base.ResolveReference(u)
		s = u.String()
	}
	return s, u.IsAbs() && !((u.Scheme == "http" || u.Scheme == "https") && u.Hostname() == "")
}
