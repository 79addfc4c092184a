package feed

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mmcdole/gofeed/atom"
	"github.com/mmcdole/gofeed/rss"
)

// fieldReader has gofeed read the fields of one entry at a time, so that an unreadable entry costs only itself. It
// builds a small feed of the fields in question with absolute addresses. Contents are kept as they are, ids are read
// before (gofeed re-encodes them as URLs), and xml:base is resolved here (gofeed takes each for a folder).
type fieldReader struct {
	buf   bytes.Buffer
	canon canonical
	atom  atom.Parser
	rss   rss.Parser
}

type fields struct {
	title, author string
	times         []time.Time // in the order of question.dates; zero for no date
	links         []Link
}

// question holds the nodes of an entry for gofeed.
type question struct {
	title, author *node // nil: none
	dates         []string
	links         []*node
}

const maxTitle = 16 << 10 // as written; a longer one is no title

func (l *fieldReader) askAtom(q question) (fields, error) {
	l.buf.Reset()
	l.buf.WriteString(`<feed xmlns="` + nsAtom + `"><entry>`)
	l.atomTitle(q.title)
	if q.author != nil {
		l.buf.WriteString("<author>")
		for _, part := range []string{"name", "email"} {
			l.element(part, q.author.childText(atomVocabulary, part))
		}
		l.buf.WriteString("</author>")
	}
	for _, n := range q.links {
		l.buf.WriteString("<link")
		l.attribute("href", n.at.resolve(n.attr("href")))
		for _, name := range []string{"rel", "type", "length"} {
			l.attribute(name, n.attr(name))
		}
		l.buf.WriteString("/>")
	}
	for i, d := range q.dates { // an entry has one date of a kind, so each further one gets an entry of its own
		if i > 0 {
			l.buf.WriteString("</entry><entry>")
		}
		l.element("updated", gofeedDate(d))
	}
	l.buf.WriteString("</entry></feed>")

	got, err := l.atom.Parse(bytes.NewReader(l.buf.Bytes()))
	if err != nil {
		return fields{}, fmt.Errorf("read the fields of an entry: %w", err)
	}
	if len(got.Entries) != max(1, len(q.dates)) {
		return fields{}, entryError("its fields can't be told apart")
	}
	f := fields{title: strings.TrimSpace(got.Entries[0].Title)}
	for _, a := range got.Entries[0].Authors {
		if f.author = a.Name; f.author == "" {
			f.author = a.Email
		}
	}
	f.author = strings.TrimSpace(f.author)
	for _, a := range got.Entries[0].Links {
		f.links = append(f.links, makeLink(a.Rel, a.Href, a.Type, a.Length))
	}
	for i := range q.dates {
		f.times = append(f.times, plausible(got.Entries[i].UpdatedParsed, q.dates[i]))
	}
	return f, nil
}

func (l *fieldReader) atomTitle(n *node) {
	if n == nil {
		return
	}
	kind := strings.ToLower(n.attr("type"))
	var text string
	if strings.Contains(kind, "xhtml") {
		kind, text = "xhtml", l.canon.innerMarkup(n)
	} else {
		var b bytes.Buffer
		escape(&b, n.content(), false)
		text = b.String()
	}
	if len(text) > maxTitle {
		return
	}
	if kind != "xhtml" && kind != "html" && !strings.HasPrefix(kind, "text/") {
		kind = "text"
	}
	l.buf.WriteString("<title")
	l.attribute("type", kind)
	l.attribute("mode", n.attr("mode"))
	l.buf.WriteByte('>')
	l.buf.WriteString(text)
	l.buf.WriteString("</title>")
}

func (l *fieldReader) element(name, text string) {
	l.buf.WriteString("<" + name + ">")
	escape(&l.buf, text, false)
	l.buf.WriteString("</" + name + ">")
}

func (l *fieldReader) attribute(name, value string) {
	if value != "" {
		l.buf.WriteString(" " + name + `="`)
		escape(&l.buf, value, true)
		l.buf.WriteByte('"')
	}
}

func makeLink(rel, href, mediaType, length string) Link {
	n, err := strconv.ParseInt(strings.TrimSpace(length), 10, 64)
	if err != nil || n < 0 {
		n = -1
	}
	return Link{Rel: relation(rel), Href: href, Type: strings.TrimSpace(mediaType), Length: n}
}

// relation is the usual form of a link relation.
func relation(rel string) string {
	rel = strings.ToLower(strings.TrimSpace(rel))
	for _, registry := range []string{"http://www.iana.org/assignments/relation/",
		"https://www.iana.org/assignments/relation/"} {
		rel = strings.TrimPrefix(rel, registry)
	}
	if rel == "" {
		return "alternate"
	}
	return rel
}

func (l *fieldReader) askRSS(q question) (fields, error) {
	l.buf.Reset()
	l.buf.WriteString("<rss><channel><item>")
	if q.title != nil && len(q.title.content()) <= maxTitle {
		l.element("title", q.title.content())
	}
	if q.author != nil {
		l.element("author", q.author.content())
	}
	for _, n := range q.links {
		if n.name(rssVocabulary) == "enclosure" {
			l.buf.WriteString("<enclosure")
			l.attribute("url", n.at.resolve(n.attr("url")))
			l.attribute("type", n.attr("type"))
			l.attribute("length", n.attr("length"))
			l.buf.WriteString("/>")
		} else {
			l.element("link", n.at.resolve(linkOf(n)))
		}
	}
	for i, d := range q.dates {
		if i > 0 {
			l.buf.WriteString("</item><item>")
		}
		l.element("pubDate", gofeedDate(d))
	}
	l.buf.WriteString("</item></channel></rss>")

	got, err := l.rss.Parse(bytes.NewReader(l.buf.Bytes()))
	if err != nil {
		return fields{}, fmt.Errorf("read the fields of an item: %w", err)
	}
	if len(got.Items) != max(1, len(q.dates)) {
		return fields{}, entryError("its fields can't be told apart")
	}
	f := fields{title: strings.TrimSpace(got.Items[0].Title), author: strings.TrimSpace(got.Items[0].Author)}
	for _, href := range got.Items[0].Links {
		f.links = append(f.links, makeLink("alternate", href, "", ""))
	}
	for _, e := range got.Items[0].Enclosures {
		f.links = append(f.links, makeLink("enclosure", e.URL, e.Type, e.Length))
	}
	for i := range q.dates {
		f.times = append(f.times, plausible(got.Items[i].PubDateParsed, q.dates[i]))
	}
	return f, nil
}
