package feed

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mmcdole/gofeed/atom"
)

// fieldReader has gofeed read the fields of one entry at a time, so that an unreadable entry costs only itself. It
// builds a small feed of the fields in question. Contents, ids and links are read before: gofeed re-encodes ids as URLs
// and takes each xml:base for a folder.
type fieldReader struct {
	buf   markup
	canon canonical
	atom  atom.Parser
}

// question holds the parts of an entry for gofeed. It reads those of an RSS item by the same rules as Atom's.
type question struct {
	title       *node // nil: none
	plain       bool  // the title is text, whatever its attributes say
	name, email string
	dates       []string
}

type fields struct {
	title, author string
	times         []time.Time // in the order of question.dates; zero for no date
}

// setAuthor takes Atom's author; nil for none.
func (q *question) setAuthor(n *node) {
	if n != nil {
		q.name, q.email = n.childText(atomVocabulary, "name"), n.childText(atomVocabulary, "email")
	}
}

const maxTitle = 16 << 10 // as written; a longer one is no title

func (l *fieldReader) ask(q question) (fields, error) {
	l.buf.Reset()
	l.buf.WriteString(`<feed xmlns="` + nsAtom + `"><entry>`)
	l.title(q.title, q.plain)
	if q.name != "" || q.email != "" {
		l.buf.WriteString("<author>")
		l.buf.element("name", q.name)
		l.buf.element("email", q.email)
		l.buf.WriteString("</author>")
	}
	for i, d := range q.dates { // an entry has one date of a kind, so each further one gets an entry of its own
		if i > 0 {
			l.buf.WriteString("</entry><entry>")
		}
		l.buf.element("updated", gofeedDate(d))
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
		f.author = strings.TrimSpace(cmp.Or(a.Name, a.Email))
	}
	for i := range q.dates {
		f.times = append(f.times, plausible(got.Entries[i].UpdatedParsed, q.dates[i]))
	}
	return f, nil
}

func (l *fieldReader) title(n *node, plain bool) {
	if n == nil {
		return
	}
	kind, mode := "text", ""
	if !plain {
		kind, mode = strings.ToLower(n.attr("type")), n.attr("mode")
	}
	var text markup
	if strings.Contains(kind, "xhtml") {
		kind = "xhtml"
		text.WriteString(l.canon.innerMarkup(n))
	} else {
		text.escape(n.content(), false)
	}
	if text.Len() > maxTitle {
		return
	}
	if kind != "xhtml" && kind != "html" && !strings.HasPrefix(kind, "text/") {
		kind = "text"
	}
	l.buf.WriteString("<title")
	l.buf.attribute("type", kind)
	l.buf.attribute("mode", mode)
	l.buf.WriteByte('>')
	l.buf.Write(text.Bytes())
	l.buf.WriteString("</title>")
}

// makeLink is the link in an element whose address is ref.
func makeLink(n *node, rel, ref string) Link {
	length, err := strconv.ParseInt(strings.TrimSpace(n.attr("length")), 10, 64)
	if err != nil || length < 0 {
		length = -1
	}
	return Link{Rel: relation(rel), Href: n.at.resolve(ref), Type: strings.TrimSpace(n.attr("type")), Length: length}
}

// atomLinks adds Atom's links of an entry, which some items have too.
func (e *Entry) atomLinks(n *node) {
	for _, k := range n.kids {
		if href := k.attr("href"); k.name(atomVocabulary) == "link" && href != "" && len(e.Links) < maxEntryLinks {
			e.Links = append(e.Links, makeLink(k, k.attr("rel"), href))
		}
	}
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
