package source

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"

	"resyncd/destination/feed"
)

// ErrRecords is in the error of New where the file of records cannot be read.
var ErrRecords = errors.New("records not readable")

// records are the edits of the record feed. Published edits stay: to take one away would undo nothing where it was read
// (T-04).
type records struct {
	s *Source

	// scanning lets one scan work at a time, and guards what follows.
	scanning sync.Mutex
	known    map[[32]byte]int // how often each edit was published
	sig      signature        // of the file when it was last read
	bad      error
}

// publish puts edits into the feed, then has the hub notified (P-05).
func (r *records) publish(edits []*feed.Edit) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	for _, e := range edits {
		r.s.recordFeed.history.add(event{at: r.s.clock.tick(), edit: e})
	}
}

// maxRecords bounds a file of edits, which are held in memory (P8).
const maxRecords = 1_000_000

// settled is scan without the failures of a young file, which may be half written.
func (r *records) settled() error {
	err := r.scan()
	r.scanning.Lock()
	defer r.scanning.Unlock()
	if r.sig.young {
		return nil
	}
	return err
}

// scan reads the file if it looks different, and publishes the edits that are new in it.
func (r *records) scan() error {
	r.scanning.Lock()
	defer r.scanning.Unlock()
	path := r.s.options.Records
	info, err := os.Stat(path)
	if err != nil {
		r.sig, r.bad = signature{}, err
		return err
	}
	// In a young file, one more write might not show.
	sig := signatureOf(info)
	if sig.same(r.sig) && !r.sig.young {
		return r.bad
	}
	edits, err := readRecords(path)
	r.sig, r.bad = sig, err
	if err != nil {
		return err
	}
	fresh := r.fresh(edits)
	r.publish(fresh)
	if i := slices.IndexFunc(fresh, func(e *feed.Edit) bool { return len(e.Odd) > 0 }); i >= 0 {
		r.s.options.Logger.Warn("odd edits of records are published as they are",
			"first", fresh[i].Subject+": "+fresh[i].Odd[0])
	}
	return nil
}

// fresh returns the edits that the file has more often than they were published.
func (r *records) fresh(edits []*feed.Edit) []*feed.Edit {
	var fresh []*feed.Edit
	found := make(map[[32]byte]int, len(edits))
	for _, e := range edits {
		digest := e.Digest()
		found[digest]++
		if found[digest] > r.known[digest] {
			r.known[digest]++
			fresh = append(fresh, e)
		}
	}
	return fresh
}

// readRecords reads a file of edits. One with an error is refused as a whole: it may still be being written.
func readRecords(path string) ([]*feed.Edit, error) {
	// Never wait for the writer of a pipe.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s: not a regular file", path), err)
	}
	edits, err := parseRecords(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return edits, nil
}

// wellFormed is strict where the reader of feeds forgives: this file is our own.
func wellFormed(r io.Reader) error {
	d := xml.NewDecoder(bufio.NewReader(r))
	d.CharsetReader = func(name string, _ io.Reader) (io.Reader, error) {
		return nil, fmt.Errorf("encoding %q: want UTF-8", name)
	}
	var root struct{}
	if err := d.Decode(&root); err != nil {
		return err
	}
	for {
		token, err := d.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		text, isText := token.(xml.CharData)
		_, isElement := token.(xml.StartElement)
		if isElement || isText && len(bytes.TrimSpace(text)) > 0 {
			line, _ := d.InputPos()
			return fmt.Errorf("line %d: more after the end of the feed", line)
		}
	}
}

func parseRecords(r io.ReadSeeker) ([]*feed.Edit, error) {
	if err := wellFormed(r); err != nil {
		return nil, err
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	var edits []*feed.Edit
	other := 0 // the first entry that is none, from 1
	head, err := feed.Read(r, feed.Options{Limits: feed.Limits{Entries: maxRecords}}, func(e *feed.Entry) error {
		switch {
		case e.Edit != nil:
			edits = append(edits, e.Edit)
		case other == 0:
			other = e.Ordinal + 1
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case head.Kind != feed.Atom:
		return nil, errors.New("not an Atom feed")
	case other > 0:
		return nil, fmt.Errorf("entry %d is no edit of a record: it has no report:subject", other)
	case head.Skipped > 0:
		first := "" // Problems may be cut short, even to none
		if len(head.Problems) > 0 {
			first = ": " + head.Problems[0]
		}
		return nil, fmt.Errorf("%d entries are not readable%s", head.Skipped, first)
	}
	return edits, nil
}
