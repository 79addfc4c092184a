package feed

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
)

type reader struct {
	p     *parser
	canon canonical
	head  *Head
	each  func(*Entry) error
	// linksOnly is set by Links, which leaves out everything else.
	linksOnly bool
	next      int // ordinal of the next entry
	size      int // bytes of the current entry, as read
}

// Read reads an Atom or RSS document, or a single entry, and calls each with its entries in document order; each may
// keep them. The root element decides on the format (S-65). An unreadable entry is skipped and counted in Head.
//
// Entries before an error were given. An error of each is returned as it is, one of body wrapped; no feed, an early end
// and more than Limits.Entries are an *Error. The Head is never nil and holds what was read of it.
func Read(body io.Reader, o Options, each func(*Entry) error) (*Head, error) {
	text, problem := decode(body, o.ContentType)
	r := &reader{p: newParser(newInput(text), o), head: &Head{}, each: each}
	if problem != "" {
		r.head.problem(1, problem)
	}
	err := r.run(inherited{base: withoutPassword(o.Base)})
	return r.head, err
}

// errEnough ends the reading for Links.
var errEnough = errors.New("all links were found")

// Links reads self and hubs of a feed itself, never of an entry (S-08): up to the first entry if all are there by then,
// else to the end. It forgives as Read does, and returns what was found before an error.
func Links(body io.Reader, o Options) (self string, hubs []string, err error) {
	text, _ := decode(body, o.ContentType)
	r := &reader{p: newParser(newInput(text), o), head: &Head{}, linksOnly: true}
	if err = r.run(inherited{base: withoutPassword(o.Base)}); errors.Is(err, errEnough) {
		err = nil
	}
	return r.head.Self, r.head.Hubs, err
}

// withoutPassword is u without its password, which must not be kept in entries (P10).
func withoutPassword(u *url.URL) *url.URL {
	if u == nil || u.User == nil {
		return u
	}
	plain := *u
	plain.User = nil
	return &plain
}

func (r *reader) run(at inherited) error {
	e, err := r.p.root(at)
	if err != nil {
		return r.p.asError(err)
	}
	r.head.Kind = r.p.kind
	if r.isEntry(e) {
		err := r.takeEntry(e)
		var stop endError
		if errors.As(err, &stop) {
			return stop.error
		}
		if err != nil {
			return r.p.asError(err)
		}
		return nil
	}
	for len(r.p.stack) > 0 { // the rest behind the root is ignored
		depth := len(r.p.stack)
		if err := r.step(); err != nil {
			if err := r.skipToEntry(err, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// step takes the next part of the feed or its channel.
func (r *reader) step() error {
	t, err := r.p.feedToken()
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case xml.EndElement:
		if d := r.p.matchingDepth(t); d > 0 {
			r.p.cut(d - 1)
		}
	case xml.StartElement:
		return r.start(t)
	}
	return nil
}

func (r *reader) start(t xml.StartElement) error {
	e, err := r.p.push(t)
	switch {
	case err != nil:
		if !r.resumesAt(false, strings.ToLower(t.Name.Local)) {
			return err
		}
		r.next++
		return &brokenEntry{r.p.line, err}
	case r.isEntry(e):
		if r.next == r.p.limits.Entries {
			return endError{&Error{r.p.line, r.p.offset, fmt.Sprintf("more than %d entries", r.p.limits.Entries)}}
		}
		return r.takeEntry(e)
	case r.p.kind == RSS && len(r.p.stack) == 2 && strings.EqualFold(e.local, "channel"):
		return nil
	}
	if err := r.p.tree(e, maxHeadElement, r.isEntry); err != nil {
		return err
	}
	if r.p.kind == Atom || len(r.p.stack) > 1 { // in RSS the channel's, not the root's
		r.element(e)
	}
	return nil
}

func (r *reader) takeEntry(n *node) error {
	if r.linksOnly && r.head.Self != "" && len(r.head.Hubs) > 0 {
		return endError{errEnough}
	}
	line, offset, ordinal := r.p.line, r.p.offset, r.next
	r.next++
	if err := r.p.tree(n, r.p.limits.EntryBytes, r.isEntry); err != nil {
		return &brokenEntry{line, err}
	}
	if r.linksOnly {
		return nil
	}
	r.size = int(r.p.in.offset - offset)
	read := r.entry
	if strings.EqualFold(n.local, "deleted-entry") {
		read = r.tombstone
	}
	got, err := read(n)
	if err != nil {
		r.skip(line, err.Error())
		return nil
	}
	got.Ordinal = ordinal
	if err := r.each(got); err != nil {
		return endError{err}
	}
	return nil
}

// isEntry reports whether a child of the feed is an entry.
func (r *reader) isEntry(n *node) bool {
	switch strings.ToLower(n.local) {
	case "entry":
		return r.p.kind == Atom && n.vocabulary == atomVocabulary
	case "item":
		return r.p.kind == RSS && n.vocabulary == rssVocabulary
	case "deleted-entry":
		return n.vocabulary == tombstones
	}
	return false
}
