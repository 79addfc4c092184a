package feed

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
)

// Sniff finds the kind of a feed by the document's root element, whatever its content type says (S-65). head is its
// beginning, best with the whole root tag; of contentType only a charset counts. Entries and items without their
// namespace are no feed here, though Read reads them: too much other XML has such roots.
func Sniff(contentType string, head []byte) Kind {
	for _, end := range []string{"", ">", `">`, `'>`, `="">`, "?>"} { // the root tag may be cut
		text, _ := decode(io.MultiReader(bytes.NewReader(head), strings.NewReader(end)), contentType)
		p := newParser(newInput(text), Options{})
		e, err := p.root(inherited{})
		if err == nil {
			v := vocabularyOf(e.uri)
			if strings.EqualFold(e.local, "entry") && v == unnamed ||
				strings.EqualFold(e.local, "item") && v != rssVocabulary {
				return None
			}
			return p.kind
		}
		var said *Error
		if errors.As(err, &said) {
			return None
		}
	}
	return None
}

// root reads up to the root's start tag and decides on the kind. Its error is an *Error where the root is no feed's.
func (p *parser) root(at inherited) (*node, error) {
	p.origin = at
	t, err := p.startTag()
	if err != nil {
		return nil, err
	}
	line, offset := p.line, p.offset
	e, err := p.push(t)
	if err != nil {
		return nil, err
	}
	p.rootURI = e.uri
	v := vocabularyOf(e.uri)
	switch strings.ToLower(e.local) {
	case "feed", "entry":
		if v == atomVocabulary || v == unnamed {
			p.kind = Atom
		}
	case "deleted-entry":
		if v == tombstones {
			p.kind = Atom
		}
	case "rss":
		p.kind = RSS
	case "item": // of any namespace, because RSS has many
		p.kind = RSS
	case "rdf":
		if v == rdfVocabulary || v == unnamed {
			if err := p.rdf(); err != nil {
				return nil, err
			}
		}
	}
	if p.kind == None {
		return nil, &Error{line, offset, "no feed: its root is <" + clip(e.local) + ">"}
	}
	e.vocabulary = p.vocabularyOf(e.uri)
	return e, nil
}

// rdf separates RSS 1.0 from other uses of RDF: it declares a namespace of RSS, or begins with a channel.
func (p *parser) rdf() error {
	for _, b := range p.bindings {
		if vocabularyOf(b.uri) == rssVocabulary {
			p.kind = RSS
			return nil
		}
	}
	t, err := p.startTag()
	if err != nil {
		return err
	}
	p.unread = t
	if strings.EqualFold(t.Name.Local, "channel") {
		p.kind = RSS
	}
	return nil
}

// startTag skips to the next start tag.
func (p *parser) startTag() (xml.StartElement, error) {
	for {
		t, err := p.feedToken()
		if err != nil {
			return xml.StartElement{}, err
		}
		if t, ok := t.(xml.StartElement); ok {
			return t, nil
		}
	}
}
