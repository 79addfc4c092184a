package rsdoc

import (
	"fmt"
	"slices"
)

// readEntry reads the entry whose start tag was just read into r.entry, to its end in any case; r.fault says why it is
// unusable.
func (r *Reader) readEntry() error {
	e := &r.entry
	e.clear()
	e.Loc, e.Fault, e.Ordinal = "", "", r.ordinal
	r.located = false
	r.linkBytes = 0
	var hasLoc, hasLastMod bool
	for {
		tok, err := r.s.next()
		if err != nil {
			return err
		}
		if tok == tokEnd {
			break
		}
		local := r.s.local
		switch {
		case string(local) == "loc" && r.s.ns == NamespaceSitemap:
			err = r.readLoc(hasLoc)
			hasLoc = true
		case string(local) == "lastmod" && r.s.ns == NamespaceSitemap:
			err = r.readLastMod(hasLastMod)
			hasLastMod = true
		case string(local) == "md" && r.s.ns == NamespaceRS:
			r.readMD()
			err = r.skipElement()
		case string(local) == "ln" && r.s.ns == NamespaceRS:
			if err = r.entryLink(); err == nil {
				err = r.skipElement()
			}
		case r.isEntry():
			r.setFault("an entry inside an entry")
			err = r.skipElement()
		default:
			err = r.skipElement()
		}
		if err != nil {
			return err
		}
	}
	kind := r.head.Kind
	switch {
	case !hasLoc:
		r.setFault("no loc")
	case e.Change == ChangeUnknown && kind.changes():
		r.setFault("an unknown change")
	}
	return nil
}

func (r *Reader) setFault(why string) {
	if r.fault == "" {
		r.fault = why
	}
}

// A repeated loc is accepted if it is the same.
func (r *Reader) readLoc(again bool) error {
	text, whole, err := r.readText()
	if err != nil {
		return err
	}
	if again && whole && string(text) == r.entry.Loc {
		return nil
	}
	uri, fault := r.uri(text)
	switch {
	case !whole:
		r.setFault("an element inside loc")
	case fault != "":
		r.setFault("loc " + fault)
	case again && uri != r.entry.Loc:
		r.setFault("two different loc")
	}
	r.located = whole && fault == "" && (!again || r.located && uri == r.entry.Loc)
	r.entry.Loc = uri
	return nil
}

// lastmod is a hint in 1.1, so an unreadable or contradictory one counts as absent.
func (r *Reader) readLastMod(again bool) error {
	text, whole, err := r.readText()
	if err != nil {
		return err
	}
	m, fault := parseMicros(text)
	if fault != "" || !whole || again && m != r.entry.LastMod {
		m = NoTime
	}
	r.entry.LastMod = m
	return nil
}

// readText is the trimmed text of the current element. whole is false if it contains another element. Valid until the
// next element.
func (r *Reader) readText() (text []byte, whole bool, err error) {
	r.s.text, whole = r.s.text[:0], true
	for {
		r.s.collect = true
		tok, err := r.s.next()
		r.s.collect = false
		if err != nil {
			return nil, false, err
		}
		if tok == tokEnd {
			return trimSpace(r.s.text), whole, nil
		}
		whole = false
		if err := r.skipElement(); err != nil {
			return nil, false, err
		}
	}
}

// An entry has at most one rs:md [7]; one that repeats the first is accepted.
func (r *Reader) readMD() {
	if !r.entry.HasMD {
		r.entryMD(&r.entry)
		return
	}
	e, o := &r.entry, &r.second
	o.clear()
	r.entryMD(o)
	if e.Capability != o.Capability || e.Change != o.Change || e.Datetime != o.Datetime || e.At != o.At ||
		e.Completed != o.Completed || e.From != o.From || e.Until != o.Until || e.Length != o.Length ||
		e.BadDigests != o.BadDigests || e.Type != o.Type || e.Encoding != o.Encoding || e.Path != o.Path ||
		!slices.Equal(e.Digests, o.Digests) {
		r.setFault("two rs:md that differ")
	}
}

// Unreadable attributes count as absent: one bad value must not cost the entry (F46).
func (r *Reader) entryMD(e *Entry) {
	e.HasMD = true
	for i := range r.s.attrs {
		a := &r.s.attrs[i]
		if a.ns != "" {
			continue
		}
		switch string(a.local) {
		case "capability":
			e.Capability = parseKind(a.value, r.s.intern)
		case "change":
			e.Change = parseChange(trimSpace(a.value))
		case "datetime":
			e.Datetime, _ = parseMicros(a.value)
		case "at":
			e.At, _ = parseMicros(a.value)
		case "completed":
			e.Completed, _ = parseMicros(a.value)
		case "from":
			e.From, _ = parseMicros(a.value)
		case "until":
			e.Until, _ = parseMicros(a.value)
		case "hash":
			e.Digests, e.BadDigests = parseDigests(a.value, e.Digests[:0])
		case "length":
			e.Length = parseLength(a.value)
		case "type":
			e.Type = r.s.intern(trimSpace(a.value))
		case "encoding":
			e.Encoding = r.s.intern(trimSpace(a.value))
		case "path":
			e.Path = string(a.value)
		}
	}
}

var changes = [...]string{"", "created", "updated", "deleted", "unknown"}

func parseChange(b []byte) Change {
	for c := ChangeCreated; c < ChangeUnknown; c++ {
		if foldEqual(b, changes[c]) {
			return c
		}
	}
	return ChangeUnknown
}

// String is the change as the attribute writes it.
func (c Change) String() string { return changes[min(c, ChangeUnknown)] }

func (r *Reader) rootLink() error {
	ln, fault := r.parseLink(nil)
	if fault != "" {
		return nil
	}
	if err := r.countLink(len(r.head.Links), &r.headBytes, &ln); err != nil {
		return err
	}
	r.head.Links = append(r.head.Links, ln)
	return nil
}

func (r *Reader) entryLink() error {
	links := r.entry.Links
	var digests []Digest
	if n := len(links); n < cap(links) {
		digests = links[:n+1][n].Digests[:0] // memory of an earlier entry
	}
	ln, fault := r.parseLink(digests)
	if fault != "" {
		r.entry.BadLinks++
		return nil
	}
	if err := r.countLink(len(links), &r.linkBytes, &ln); err != nil {
		return err
	}
	r.entry.Links = append(links, ln)
	return nil
}

func (r *Reader) countLink(have int, bytes *int, ln *Link) error {
	*bytes += len(ln.Rel) + len(ln.Href) + len(ln.Type) + len(ln.Profile) + len(ln.Path)
	if have >= maxLinks || *bytes > r.opts.Limits.perTag() {
		return r.refuse(Limit, fmt.Sprintf("more than %d links of one element, or links of more than %d bytes",
			maxLinks, r.opts.Limits.perTag()))
	}
	return nil
}

// fault says why it is no usable link [7].
func (r *Reader) parseLink(digests []Digest) (ln Link, fault string) {
	ln = NewLink("", "")
	fault = "has no href"
	for i := range r.s.attrs {
		a := &r.s.attrs[i]
		if a.ns != "" {
			continue
		}
		switch string(a.local) {
		case "rel":
			ln.Rel = r.s.intern(trimSpace(a.value))
		case "href":
			ln.Href, fault = r.uri(trimSpace(a.value))
		case "pri":
			ln.Pri = parsePri(a.value)
		case "modified":
			ln.Modified, _ = parseMicros(a.value)
		case "type":
			ln.Type = r.s.intern(trimSpace(a.value))
		case "profile":
			ln.Profile = r.s.intern(trimSpace(a.value))
		case "length":
			ln.Length = parseLength(a.value)
		case "hash":
			ln.Digests, _ = parseDigests(a.value, digests)
		case "path":
			ln.Path = string(a.value)
		}
	}
	if ln.Rel == "" && fault == "" {
		fault = "has no rel"
	}
	return ln, fault
}

// A preference out of range counts as absent [digest 6].
func parsePri(b []byte) int {
	if n := parseLength(b); 1 <= n && n <= noPri {
		return int(n)
	}
	return noPri
}
