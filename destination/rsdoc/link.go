package rsdoc

import "fmt"

func (r *Reader) rootLink() error {
	ln, fault := r.parseLink(nil)
	if fault != "" {
		r.warn("a link on the root " + fault + ": left out")
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
	*bytes += len(ln.Rel) + len(ln.Href) + len(ln.Type) + len(ln.Path)
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
		if a.ns != nsNone {
			continue
		}
		switch string(a.local) {
		case "rel":
			ln.Rel = r.intern(trimSpace(a.value))
		case "href":
			ln.Href, fault = r.uri(trimSpace(a.value))
		case "pri":
			ln.Pri = parsePri(a.value)
		case "modified":
			ln.Modified, _ = parseMicros(a.value)
		case "type":
			ln.Type = r.intern(trimSpace(a.value))
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
