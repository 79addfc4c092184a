package websub

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// maxHead bounds how much of a page is read (P8).
const maxHead = 512 << 10

// HTMLLinks reads the link elements in the head of a page, and nothing behind it, because a user may have written a
// link in the body (S-07). The links found before a read error are returned with it.
func HTMLLinks(r io.Reader, base *url.URL) ([]Link, error) {
	h := headReader{z: html.NewTokenizer(io.LimitReader(r, maxHead))}
	h.z.SetMaxBuf(maxHead)
	err := h.read()
	at := base
	if ref := strings.TrimSpace(h.base); ref != "" {
		if abs, ok := resolve(ref, base); ok {
			if u, err := url.Parse(abs); err == nil {
				at = u
			}
		}
	}
	var links []Link
	for _, params := range h.found {
		if l, ok := makeHTMLLink(params, at); ok {
			links = append(links, l)
		}
	}
	return links, err
}

func makeHTMLLink(attrs []param, base *url.URL) (Link, bool) {
	href := strings.TrimSpace(values(attrs).get("href"))
	rest := slices.DeleteFunc(attrs, func(a param) bool { return a.name == "href" || a.name == "anchor" })
	if href == "" {
		return Link{}, false
	}
	return makeLink(href, rest, base)
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
