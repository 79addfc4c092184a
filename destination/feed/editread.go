package feed

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const maxOdd = 20 // remarks on an edit

// readEdit reads the edit of a record in an entry (T-03); nil if there is none. An edit without a subject is an error.
func readEdit(n *node) (*Edit, error) {
	parts := map[string][]*node{}
	for _, k := range n.kids {
		if name := k.name(report); name != "" {
			parts[name] = append(parts[name], k)
		}
	}
	if len(parts["subject"])+len(parts["observed"])+len(parts["content"]) == 0 {
		return nil, nil //nolint:nilnil // no edit and nothing wrong
	}
	e := &Edit{}
	for _, k := range parts["subject"] {
		if s := strings.TrimSpace(k.content()); e.Subject == "" {
			e.Subject = s
		} else if s != e.Subject {
			e.note("another subject: %s", quote(s))
		}
	}
	if e.Subject == "" {
		return nil, entryError("an edit that does not say of what (no report:subject)")
	}
	e.readAuthor(n)
	e.readObserved(parts["observed"])
	e.readContents(parts["content"])
	return e, nil
}

func (e *Edit) note(format string, args ...any) {
	if len(e.Odd) < maxOdd {
		e.Odd = append(e.Odd, fmt.Sprintf(format, args...))
	}
}

func (e *Edit) readAuthor(n *node) {
	for _, k := range n.kids {
		if k.name(atomVocabulary) != "author" && k.name(rssVocabulary) != "author" {
			continue
		}
		if e.Author = k.childText(k.vocabulary, "uri"); e.Author != "" {
			break
		}
		if mail := k.childText(k.vocabulary, "email"); mail != "" {
			e.Author = "mailto:" + mail
			e.note("author with an email and no uri")
			return
		}
	}
	if scheme, _, _ := strings.Cut(strings.ToLower(e.Author), ":"); scheme != "tel" && scheme != "mailto" {
		e.note("author is no tel: or mailto: URL: %s", quote(e.Author))
	}
}

func (e *Edit) readObserved(said []*node) {
	if len(said) == 0 {
		e.note("no report:observed")
		return
	}
	if len(said) > 1 {
		e.note("report:observed given %d times", len(said))
	}
	text := strings.TrimSpace(said[0].content())
	t, err := time.Parse(time.RFC3339, strings.ToUpper(text))
	if err != nil {
		e.note("observed is no RFC 3339 time: %s", quote(text))
		return
	}
	if _, east := t.Zone(); east != 0 {
		e.note("observed is not in UTC: %s", quote(text))
	}
	if e.Observed = t.UTC().Truncate(time.Microsecond); e.Observed.Year() < 1 || e.Observed.Year() > 9999 {
		e.note("observed is in no year that can be: %s", quote(text))
		e.Observed = time.Time{}
	}
}

func (e *Edit) readContents(contents []*node) {
	if len(contents) != 1 {
		e.note("%d report:content elements instead of one", len(contents))
	}
	values := map[string]string{}
	rows := 0
	for _, c := range contents {
		if e.Type == "" {
			e.Type = strings.TrimSpace(c.attr("type"))
		}
		for _, row := range c.kids {
			if row.name(report) != "row" {
				continue
			}
			rows++
			for _, f := range row.kids {
				if f.name(sheet) == "field" {
					e.readField(f, values)
				}
			}
		}
	}
	if rows != 1 {
		e.note("%d report:row elements instead of one", rows)
	}
	for name, value := range values {
		e.Fields = append(e.Fields, Field{name, value})
	}
	slices.SortFunc(e.Fields, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range e.Fields {
		if fault := validate(f); fault != "" {
			e.note("%s is %s: %s", quote(f.Name), fault, quote(f.Value))
		}
	}
}

// readField takes a field as received. White space alone counts as empty, because pretty-printers insert it.
func (e *Edit) readField(n *node, values map[string]string) {
	name := strings.TrimSpace(n.attr("name"))
	if name == "" {
		for _, a := range n.attrs {
			if a.local == "name" {
				name = strings.TrimSpace(a.value)
			}
		}
	}
	if name == "" {
		e.note("a field without a name: %s", quote(n.content()))
	}
	value := n.content()
	if strings.TrimSpace(value) == "" {
		value = ""
	}
	if old, twice := values[name]; twice {
		e.note("%s given twice, first as %s", quote(name), quote(old))
	}
	values[name] = value
}
