package feed

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// resume skips unreadable input up to a tag for which stop is true. The tag is read again. It returns false at the end
// of the document.
func (in *input) resume(stop func(end bool, local string) bool) bool {
	in.readLimit = 1<<63 - 1
	again := in.last == '<' // the decoder may have taken it without using it
	for {
		if !again {
			if b, err := in.ReadByte(); err != nil {
				return false
			} else if b != '<' {
				continue
			}
		}
		again = false
		tag := []byte{'<'}
		for len(tag) < 64 {
			b, err := in.ReadByte()
			if err != nil {
				return false
			}
			if b == '<' {
				again = true
				break
			}
			tag = append(tag, b)
			if strings.IndexByte("> \t\r\n/", b) < 0 || len(tag) == 2 {
				continue
			}
			name, end := strings.CutPrefix(string(tag[1:len(tag)-1]), "/")
			if _, local, ok := strings.Cut(name, ":"); ok {
				name = local
			}
			if stop(end, strings.ToLower(name)) {
				in.pending = append(tag, in.pending...)
				in.offset -= int64(len(tag))
				in.line -= bytes.Count(tag, []byte{'\n'})
				if in.state = inTag; tag[len(tag)-1] == '>' {
					in.state = inText
				}
				return true
			}
			break
		}
	}
}

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

// skipToEntry goes on behind what cannot be read, at the next entry or the feed's end; it returns why that is
// impossible. depth is the depth of the feed's children.
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

// resumesAt recognises by local names the tags that can only be the feed's own. In a CDATA section that is a guess, but
// the alternative is to lose all that follows.
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
