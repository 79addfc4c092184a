package feed

import (
	"bufio"
	"bytes"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// writer writes markup; its bufio.Writer keeps the first error for the end.
type writer struct {
	w   *bufio.Writer
	buf bytes.Buffer
}

func (x *writer) declare(used bool, prefix, uri string) {
	if used {
		x.attr("xmlns:"+prefix, uri)
	}
}

func (x *writer) relation(rel, href string) {
	if href != "" {
		x.link("  ", Link{Rel: rel, Href: href})
	}
}

func (x *writer) link(indent string, l Link) {
	x.raw(indent + "<link")
	if l.Rel != "" {
		x.attr("rel", l.Rel)
	}
	x.attr("href", l.Href)
	if l.Type != "" {
		x.attr("type", l.Type)
	}
	if l.Length > 0 {
		x.attr("length", strconv.FormatInt(l.Length, 10))
	}
	x.raw("/>\n")
}

func (x *writer) text(indent, name, value string) {
	if value == "" {
		return
	}
	x.raw(indent + "<" + name + ">")
	x.escaped(value, false)
	x.raw("</" + name + ">\n")
}

func (x *writer) time(indent, name string, t time.Time) { x.text(indent, name, stamp(t)) }

func (x *writer) attr(name, value string) {
	x.raw(" " + name + `="`)
	x.escaped(value, true)
	x.raw(`"`)
}

func (x *writer) raw(s string) { _, _ = x.w.WriteString(s) }

func (x *writer) escaped(s string, value bool) {
	x.buf.Reset()
	escape(&x.buf, valid(s), value)
	_, _ = x.w.Write(x.buf.Bytes())
}

// valid replaces characters that XML does not allow.
func valid(s string) string {
	for _, r := range s {
		if !xmlChar(r) || r == utf8.RuneError {
			return strings.Map(func(r rune) rune {
				if xmlChar(r) {
					return r
				}
				return utf8.RuneError
			}, s)
		}
	}
	return s
}
