package rsdoc

import (
	"fmt"
	"io"
)

// Reader reads one document as a stream, in constant memory. Errors are final. Nothing may be concluded from the
// absence of an entry before Next returned io.EOF, for only then was the document well-formed to its last byte (F58).
type Reader struct {
	s    scanner
	opts Options
	head Head
	err  error

	pending bool // the start tag of an entry was read, with the root

	ordinal   int64 // of the next entry
	skipped   int64
	firstSkip error

	entry, second Entry  // second is a repeated rs:md
	fault         string // of the entry being read
	located       bool   // its loc is certain despite the fault
	linkBytes     int    // of the entry being read
	headBytes     int    // of the root's links
}

// NewReader reads a document that is not packed, at once up to its first entry. It reads ahead by at most 64 KiB.
func NewReader(r io.Reader, o Options) *Reader {
	return newReader(window{src: r, limit: o.Limits.withDefaults().Bytes}, o)
}

func newReader(w window, o Options) *Reader {
	o.Limits = o.Limits.withDefaults()
	r := &Reader{
		s:    scanner{window: w, limits: o.Limits},
		opts: o,
		head: NewHead(List, KindUnknown),
	}
	r.err = r.readRoot()
	return r
}

// Head is what the root says up to the first entry. A root rs:md or rs:ln that follows entries [digest 5] is added to
// the same Head, so call it again after io.EOF. A document without rs:md is a plain Sitemap of KindUnknown, or of
// Options.Assume.
func (r *Reader) Head() (*Head, error) {
	if r.err != nil && r.err != io.EOF {
		return nil, r.err
	}
	return &r.head, nil
}

// Next is the next good entry, or io.EOF after the last one of a complete document. Unusable entries are counted by
// Skipped and skipped, unless Options.Faulty asks for them.
func (r *Reader) Next() (*Entry, error) {
	for r.err == nil {
		if !r.pending {
			if r.err = r.seekEntry(); r.err != nil {
				break
			}
		}
		r.pending = false
		at := r.s.tagAt
		r.fault = ""
		if r.err = r.readEntry(); r.err != nil {
			break
		}
		r.ordinal++
		if r.fault == "" {
			return &r.entry, nil
		}
		r.skip(at)
		if r.entry.Fault = r.fault; r.opts.Faulty && r.located {
			return &r.entry, nil
		}
	}
	return nil, r.err
}

// Skipped counts the unusable entries so far; first describes the first of them. A caller that
// deletes what a list does not have must look here: a skipped entry is not an absent one.
func (r *Reader) Skipped() (n int64, first error) { return r.skipped, r.firstSkip }

// Bytes is how much of the inflated document was scanned.
func (r *Reader) Bytes() int64 { return r.s.offset() }

func (r *Reader) skip(at int64) {
	if r.skipped++; r.firstSkip == nil {
		r.firstSkip = fmt.Errorf("skipped entry %d (at byte %d): %s", r.ordinal-1, at, r.fault)
	}
}

func (r *Reader) readRoot() error {
	r.s.start()
	if _, err := r.s.next(); err != nil {
		return err
	}
	name := string(r.s.local)
	if name == names[Index].root {
		r.head.Shape = Index
	} else if name != names[List].root {
		return r.refuse(WrongRoot, "the root is <"+clip(r.s.local)+">, neither <urlset> nor <sitemapindex>")
	}
	if r.s.ns != NamespaceSitemap {
		return r.refuse(WrongRoot, "the root <"+name+"> is not in the namespace "+NamespaceSitemap)
	}
	err := r.seekEntry()
	if !r.head.HasMD || r.head.RawKind == "" {
		r.head.Kind = r.opts.Assume
	}
	r.pending = err == nil
	return err
}

func (r *Reader) refuse(p Problem, detail string) error {
	return &DocumentError{Problem: p, Offset: r.s.tagAt, Detail: detail}
}

// seekEntry returns io.EOF at the end of a complete document.
func (r *Reader) seekEntry() error {
	for {
		tok, err := r.s.next()
		if err != nil {
			return err
		}
		if tok == tokEnd { // of the root
			if _, err := r.s.next(); err != nil {
				return err
			}
			return io.EOF
		}
		at := r.s.tagAt
		switch {
		case r.isEntry():
			return nil
		case string(r.s.local) == "md" && r.s.ns == NamespaceRS:
			err = r.rootMD()
		case string(r.s.local) == "ln" && r.s.ns == NamespaceRS:
			err = r.rootLink()
		case r.lostEntry():
			r.ordinal++
			r.skip(at)
		}
		if err == nil {
			err = r.skipElement()
		}
		if err != nil {
			return err
		}
	}
}

func (r *Reader) isEntry() bool {
	return string(r.s.local) == names[r.head.Shape].entry && r.s.ns == NamespaceSitemap
}

// lostEntry reports an element that was meant as an entry: of the other shape, without namespace under a prefixed root,
// or in a namespace that looks like that of Sitemaps. A list of such entries is not an empty list.
func (r *Reader) lostEntry() bool {
	local := string(r.s.local)
	if local != "url" && local != "sitemap" {
		return false
	}
	switch r.s.ns {
	case NamespaceSitemap, "":
		r.fault = "<" + local + "> of the wrong shape or in no namespace"
		return true
	case NamespaceRS, namespaceXML:
		return false
	}
	if !nearSitemap(r.s.ns) {
		return false
	}
	r.fault = "<" + local + "> in the namespace " + quote(r.s.ns) + ", which is not " + NamespaceSitemap
	return true
}

// A second rs:md that differs leaves open what the document is.
func (r *Reader) rootMD() error {
	r.second.clear()
	e, h := &r.second, &r.head
	r.entryMD(e)
	raw := ""
	for _, a := range r.s.attrs {
		if a.ns == "" && string(a.local) == "capability" {
			raw = string(a.value)
		}
	}
	if e.Capability.snapshot() && !e.At.Known() {
		e.At = e.From // 0.9 [digest 16]
	}
	if h.HasMD {
		if e.Capability != h.Kind && raw+h.RawKind != "" || e.At != h.At || e.Completed != h.Completed ||
			e.From != h.From || e.Until != h.Until {
			return r.refuse(Malformed, "the root has two rs:md that differ")
		}
		return nil
	}
	kind := e.Capability
	if a := r.opts.Assume; r.ordinal > 0 && a != KindUnknown && kind != a {
		if kind != KindUnknown {
			return r.refuse(WrongKind, "entries were read as those of a "+string(a)+
				", and behind them the document says it is "+quote(raw))
		}
		kind = a
	}
	h.HasMD, h.Kind, h.RawKind = true, kind, raw
	h.At, h.Completed, h.From, h.Until = e.At, e.Completed, e.From, e.Until
	return nil
}

func (r *Reader) skipElement() error {
	for depth := 1; depth > 0; {
		tok, err := r.s.next()
		if err != nil {
			return err
		}
		if tok == tokStart {
			depth++
		} else {
			depth--
		}
	}
	return nil
}
