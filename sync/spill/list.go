package spill

import (
	"encoding/json"
	"fmt"
)

// listRoom is how many bytes of a List stay in memory.
const listRoom = 1 << 20

// List keeps values in order, as JSON: the first ones in memory, the others in a temporary file.
type List[T any] struct{ values Sorter }

// Empty reports whether nothing was added.
func (l *List[T]) Empty() bool { return l.values.count == 0 }

// Add appends a value. Equal keys keep the order in which records came.
func (l *List[T]) Add(v T) error {
	b, err := json.Marshal(v)
	if err == nil {
		l.values.room = listRoom
		err = l.values.Add(append(AppendKey(nil, ""), b...))
	}
	if err != nil {
		return fmt.Errorf("keep what was found: %w", err)
	}
	return nil
}

// Pages hands the values over in pages, as often as it is called; changes to a page are not kept.
func (l *List[T]) Pages(size int, each func([]T) error) error {
	if err := l.values.Sort(); err != nil {
		return err
	}
	page := make([]T, 0, size)
	for {
		record, more, err := l.values.Next()
		if err != nil {
			return err
		}
		if more {
			var v T
			if err := json.Unmarshal(record[1:], &v); err != nil {
				return l.values.Unreadable(err)
			}
			page = append(page, v)
		}
		if len(page) == size || !more && len(page) > 0 {
			if err := each(page); err != nil {
				return err
			}
			page = page[:0]
		}
		if !more {
			return nil
		}
	}
}

// Close removes the file.
func (l *List[T]) Close() error { return l.values.Reset() }
