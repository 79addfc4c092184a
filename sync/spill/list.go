// Package spill knows how to keep more values than memory may hold: the first ones there, the others in a temporary
// file. It refuses to know what they are.
package spill

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// listHeld is how many values stay in memory.
const listHeld = 2000

// List keeps values in order, the first ones in memory, the others as JSON in a temporary file.
type List[T any] struct {
	held []T
	file *os.File
	out  *bufio.Writer
	enc  *json.Encoder
}

// Empty reports whether nothing was added.
func (l *List[T]) Empty() bool { return len(l.held) == 0 }

// Add appends a value.
func (l *List[T]) Add(v T) error {
	if len(l.held) < listHeld {
		l.held = append(l.held, v)
		return nil
	}
	if l.file == nil {
		file, err := tempFile("", "resyncd-findings-")
		if err != nil {
			return fmt.Errorf("keep what was found: %w", err)
		}
		l.file, l.out = file, bufio.NewWriterSize(file, 64<<10)
		l.enc = json.NewEncoder(l.out)
	}
	if err := l.enc.Encode(v); err != nil {
		return fmt.Errorf("keep what was found in %s: %w", l.file.Name(), err)
	}
	return nil
}

// Pages hands the values over in pages; changes to a page are not kept.
func (l *List[T]) Pages(size int, each func([]T) error) error {
	page := make([]T, 0, size)
	hand := func(v T) error {
		if page = append(page, v); len(page) < size {
			return nil
		}
		err := each(page)
		page = page[:0]
		return err
	}
	for _, v := range l.held {
		if err := hand(v); err != nil {
			return err
		}
	}
	if err := l.reread(hand); err != nil {
		return err
	}
	if len(page) == 0 {
		return nil
	}
	return each(page)
}

// reread goes over the file. More may be added afterwards.
func (l *List[T]) reread(hand func(T) error) error {
	if l.file == nil {
		return nil
	}
	err := l.out.Flush()
	if err == nil {
		_, err = l.file.Seek(0, io.SeekStart)
	}
	dec := json.NewDecoder(l.file)
	for err == nil {
		var v T
		if err = dec.Decode(&v); err != nil {
			break
		}
		if err := hand(v); err != nil {
			return err
		}
	}
	if errors.Is(err, io.EOF) {
		_, err = l.file.Seek(0, io.SeekEnd)
	}
	if err != nil {
		return fmt.Errorf("read what was found from %s: %w", l.file.Name(), err)
	}
	return nil
}

// Close removes the file.
func (l *List[T]) Close() error { return dropTemp(l.file) }
