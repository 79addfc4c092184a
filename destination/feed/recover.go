package feed

import (
	"errors"
	"fmt"
)

// ended ends the reading, whatever may follow.
type ended struct{ error }

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

// recover goes on at the next entry, or at the feed's end, behind what can't be read; it returns why that is impossible.
// depth is how deep the feed's own children stand.
func (r *reader) recover(err error, depth int) error {
	var stop ended
	if errors.As(err, &stop) {
		return stop.error
	}
	fault := r.p.fault(err)
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

// resumesAt tells by their local names tags that can only be the feed's own. (That is a guess in a CDATA section; the
// alternative is to lose all that follows.)
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
