package inspect

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"resyncd/store"
)

// said is one statement of the Source's documents about a resource.
type said struct {
	URI    string
	Set    int
	What   statement
	Absent bool
	Digest string // "alg:hex" of the strongest, "" without
	Length int64  // -1 without
	// At is when the document says so: of a list its snapshot, of a change or an entry its own instant. LastMod is the
	// resource's own time where a list gives one.
	At, LastMod store.Micros
	Page        int    // of a feed: its place in the order of reading, newest document first
	Rel         string // of a link
	Edit        []byte
}

// statement is what kind of thing a document says.
type statement uint8

const (
	listed statement = iota
	changed
	entry
	edit
	link
)

// says tells whether two statements are about the same content.
func (s *said) says(o *said) bool {
	return s.Absent == o.Absent && (s.Absent || s.Digest == o.Digest && s.Length == o.Length)
}

// shelves is how many files what is said is spread over, by URI: one of them at a time is held in memory.
const shelves = 64

// shelf keeps statements on disk until all documents are read, so that a list of a million entries takes no memory.
type shelf struct{ parts [shelves]part }

type part struct {
	file *os.File
	out  *bufio.Writer
	enc  *json.Encoder
}

func newShelf() (*shelf, error) {
	s := &shelf{}
	for i := range s.parts {
		file, err := os.CreateTemp("", "resyncd-audit-")
		if err != nil {
			return nil, errors.Join(
				fmt.Errorf("keep what the lists say for the audit in a temporary file: %w", err), s.close())
		}
		_ = os.Remove(file.Name()) // while it is open it stays, and a kill leaves nothing; on Windows close removes it
		out := bufio.NewWriterSize(file, 16<<10)
		s.parts[i] = part{file, out, json.NewEncoder(out)}
	}
	return s, nil
}

func (s *shelf) put(hash uint64, d *said) error {
	p := &s.parts[hash%shelves]
	if err := p.enc.Encode(d); err != nil {
		return fmt.Errorf("keep what the lists say for the audit in %s: %w", p.file.Name(), err)
	}
	return nil
}

// take hands back one part, in the order in which it was put there.
func (s *shelf) take(n int, each func(*said)) error {
	p := &s.parts[n]
	err := p.out.Flush()
	if err == nil {
		_, err = p.file.Seek(0, io.SeekStart)
	}
	dec := json.NewDecoder(bufio.NewReader(p.file))
	for err == nil {
		d := &said{}
		if err = dec.Decode(d); err == nil {
			each(d)
		}
	}
	if err != io.EOF {
		return fmt.Errorf("read what the lists say for the audit from %s: %w", p.file.Name(), err)
	}
	return nil
}

func (s *shelf) close() error {
	var errs error
	for i := range s.parts {
		file := s.parts[i].file
		if file == nil {
			continue
		}
		errs = errors.Join(errs, file.Close())
		if err := os.Remove(file.Name()); !errors.Is(err, os.ErrNotExist) {
			errs = errors.Join(errs, err)
		}
	}
	return errs
}
