package websub

import (
	"errors"
	"fmt"
	"io"
	"net/url"
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
	href := ""
	var rest []param
	for _, a := range attrs {
		switch a.name {
		case "href":
			href = strings.TrimSpace(a.value)
		case "anchor":
		default:
			rest = append(rest, a)
		}
	}
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
	name, more := h.z.TagName()
	switch tag := atom.Lookup(name); tag {
	case atom.Html, atom.Head, atom.Meta, atom.Basefont, atom.Bgsound:
	case atom.Link:
		if h.template == 0 {
			h.found = append(h.found, h.attributes(more))
		}
	case atom.Base:
		for _, a := range h.attributes(more) {
			if a.name == "href" && h.base == "" && h.template == 0 {
				h.base = a.value
			}
		}
	case atom.Title, atom.Script, atom.Style, atom.Noscript, atom.Noframes:
		h.text = tag
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

// Of repeated attributes the first counts, as in HTML.
func (h *headReader) attributes(more bool) []param {
	var all []param
	seen := make(map[string]bool)
	for more {
		var key, value []byte
		key, value, more = h.z.TagAttr()
		name := string(key)
		if !seen[name] && len(all) < maxParams {
			seen[name] = true
			all = append(all, param{name: name, value: string(value)})
		}
	}
	return all
}
