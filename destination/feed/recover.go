package feed

import (
	"errors"
	"fmt"
)

// endError ends the reading, whatever may follow.
type endError struct{ error }

// brokenEntry is an entry that could not be read to its end.
type brokenEntry struct {
	line  int
	cause error
}

func (b *brokenEntry) Error() string { return b.cause.Error() }
func (b *brokenEntry) Unwrap() error { return b.cause }

func (r *reader) skip(line int, why string) {
	r.head.Skipped++
	r.head.problem(line, "an entry was skipped: "+why)
}

// skipToEntry goes on behind what cannot be read, at the next entry or the feed's end; it returns
// why that is impossible. depth is the depth of the feed's children.
func (r *reader) skipToEntry(err error, depth int) error {
	var stop endError
	if errors.As(err, &stop) {
		return stop.error
	}
	fault := r.p.asError(err)
	var said *Error
	if !errors.As(fault, &said) || !r.p.in.resume(r.resumesAt) {
		if r.p.in.err != nil {
			return r.p.in.err
		}
		return fault
	}
	var entry *brokenEntry
	if errors.As(err, &entry) {
		r.skip(entry.line, fmt.Sprintf("%s (line %d)", said.Problem, said.Line))
	} else {
		r.head.problem(said.Line, said.Problem)
	}
	r.p.cut(depth)
	r.p.restart()
	return nil
}

// resumesAt recognises by local names the tags that can only be the feed's own. In a CDATA section
// that is a guess, but the alternative is to lose all that follows.
func (r *reader) resumesAt(end bool, local string) bool {
	switch local {
	case "entry", "deleted-entry":
		return !end && r.p.kind == Atom
	case "item":
		return !end && r.p.kind == RSS
	case "feed":
		return end && r.p.kind == Atom
	case "channel", "rss", "rdf":
		return end && r.p.kind == RSS
	}
	return false
}
