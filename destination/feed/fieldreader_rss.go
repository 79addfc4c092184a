package feed

import (
	"bytes"
	"fmt"
	"strings"
)

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
