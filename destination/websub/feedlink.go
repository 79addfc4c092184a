package websub

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
)

const (
	atomNamespace = "http://www.w3.org/2005/Atom"
	rdfNamespace  = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
	xmlNamespace  = "http://www.w3.org/XML/1998/namespace"
	maxDepth      = 256
)

// feedLinks reads the Atom links of a feed itself: children of atom:feed, of rss/channel or of the
// channel of RSS 1.0, never those of an entry (S-08). Malformed markup ends the reading, not the
// discovery. Entities are never expanded: declarations are skipped, and only HTML's names are
// known.
func feedLinks(r io.Reader, base *url.URL) ([]Link, error) {
	source := &errorKeeper{r: r}
	d := xml.NewDecoder(source)
	d.Entity = xml.HTMLEntity
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return &latin1{r: in}, nil }
	f := feedReader{bases: []*url.URL{base}}
	for len(f.links) < maxLinks && !f.done {
		token, err := d.Token()
		if err != nil {
			break
		}
		switch e := token.(type) {
		case xml.StartElement:
			f.start(e)
		case xml.EndElement:
			f.end()
		}
	}
	if source.err != nil {
		return f.links, fmt.Errorf("read a topic: %w", source.err)
	}
	return f.links, nil
}

type feedReader struct {
	depth int // elements open
	home  int // depth of the element whose children count: 1 for atom:feed, 2 for a channel, 0 while none is open
	rss   bool
	bases []*url.URL // bases of references, by depth, down to home
	links []Link
	done  bool
}

func (f *feedReader) start(e xml.StartElement) {
	f.depth++
	if f.depth > maxDepth {
		f.done = true
		return
	}
	if f.home > 0 {
		if f.depth == f.home+1 {
			f.child(e)
		}
		return
	}
	switch {
	case f.depth == 1 && e.Name.Local == "feed" && e.Name.Space == atomNamespace:
		f.home = 1
	case f.depth == 1 && (e.Name.Local == "rss" || e.Name.Local == "RDF" && e.Name.Space == rdfNamespace):
		f.rss = true
	case f.depth == 2 && f.rss && e.Name.Local == "channel":
		f.home = 2
	case f.depth == 1:
		f.done = true // no feed
		return
	default:
		return
	}
	f.bases = append(f.bases, rebase(f.bases[len(f.bases)-1], e.Attr))
}

// child reads a child of the feed. The first entry ends the search once all links are found.
func (f *feedReader) child(e xml.StartElement) {
	if e.Name.Local == "entry" || e.Name.Local == "item" {
		f.done = len(Targets(f.links, "hub")) > 0 && len(Targets(f.links, "self")) > 0
		return
	}
	if e.Name.Local != "link" || e.Name.Space != atomNamespace {
		return
	}
	attrs := make([]param, 0, len(e.Attr))
	for _, a := range e.Attr {
		if a.Name.Space == "" && a.Name.Local != "xmlns" && len(attrs) < maxParams {
			attrs = append(attrs, param{name: a.Name.Local, value: a.Value})
		}
	}
	if l, ok := makeHTMLLink(attrs, rebase(f.bases[len(f.bases)-1], e.Attr)); ok {
		f.links = append(f.links, l)
	}
}

func (f *feedReader) end() {
	if f.home > 0 && f.depth == f.home {
		f.home = 0
		f.bases = f.bases[:len(f.bases)-1]
	}
	f.depth--
}

func rebase(base *url.URL, attrs []xml.Attr) *url.URL {
	for _, a := range attrs {
		if a.Name.Local != "base" || a.Name.Space != xmlNamespace && a.Name.Space != "xml" {
			continue
		}
		if abs, ok := resolve(a.Value, base); ok {
			if u, err := url.Parse(abs); err == nil {
				return u
			}
		}
	}
	return base
}

// errorKeeper remembers why its source failed: the decoder's own complaints are about the document
// and do not count.
type errorKeeper struct {
	r   io.Reader
	err error
}

func (f *errorKeeper) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}

// latin1 turns the bytes of ISO 8859-1 into UTF-8. It serves for every character set other than
// UTF-8: all in use agree on ASCII, and URLs are ASCII.
type latin1 struct{ r io.Reader }

func (l *latin1) Read(p []byte) (int, error) {
	half := len(p) / 2
	if half == 0 {
		return 0, io.ErrShortBuffer
	}
	raw := p[len(p)-half:] // read at the end, spread from the start: the writing never overtakes the reading
	n, err := l.r.Read(raw)
	out := p[:0]
	for _, c := range raw[:n] {
		if c < 0x80 {
			out = append(out, c)
		} else {
			out = append(out, 0xc0|c>>6, 0x80|c&0x3f)
		}
	}
	return len(out), err
}
