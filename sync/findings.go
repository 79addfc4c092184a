package sync

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// findingsHeld is how many findings are kept in memory.
const findingsHeld = 2000

// findings keeps problems in their order until they are mended and told: the first ones in memory, the others in a
// temporary file, so that a mirror in which a million files are wrong takes no more memory than one with a few (P8).
type findings struct {
	held []problem
	file *os.File
	out  *bufio.Writer
	enc  *json.Encoder
}

// kept is a problem in the file.
type kept struct {
	ID int64
	Finding
}

func (f *findings) empty() bool { return len(f.held) == 0 }

func (f *findings) add(p problem) error {
	if len(f.held) < findingsHeld {
		f.held = append(f.held, p)
		return nil
	}
	if f.file == nil {
		file, err := tempFile("", "resyncd-findings-")
		if err != nil {
			return fmt.Errorf("keep what was found: %w", err)
		}
		f.file, f.out = file, bufio.NewWriterSize(file, 64<<10)
		f.enc = json.NewEncoder(f.out)
	}
	if err := f.enc.Encode(kept{p.id, p.Finding}); err != nil {
		return fmt.Errorf("keep what was found in %s: %w", f.file.Name(), err)
	}
	return nil
}

// pages hands the problems over, in order, so many at a time; what each does to its page is not kept.
func (f *findings) pages(size int, each func([]problem) error) error {
	page := make([]problem, 0, size)
	hand := func(p problem) error {
		if page = append(page, p); len(page) < size {
			return nil
		}
		err := each(page)
		page = page[:0]
		return err
	}
	for _, p := range f.held {
		if err := hand(p); err != nil {
			return err
		}
	}
	if err := f.reread(hand); err != nil {
		return err
	}
	if len(page) == 0 {
		return nil
	}
	return each(page)
}

// reread goes over the file. More may be added afterwards.
func (f *findings) reread(hand func(problem) error) error {
	if f.file == nil {
		return nil
	}
	err := f.out.Flush()
	if err == nil {
		_, err = f.file.Seek(0, io.SeekStart)
	}
	dec := json.NewDecoder(f.file)
	for err == nil {
		var k kept
		if err = dec.Decode(&k); err != nil {
			break
		}
		if err := hand(problem{Finding: k.Finding, id: k.ID}); err != nil {
			return err
		}
	}
	if errors.Is(err, io.EOF) {
		_, err = f.file.Seek(0, io.SeekEnd)
	}
	if err != nil {
		return fmt.Errorf("read what was found from %s: %w", f.file.Name(), err)
	}
	return nil
}

// close removes the file.
func (f *findings) close() error { return dropTemp(f.file) }
