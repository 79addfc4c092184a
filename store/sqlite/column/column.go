// Package column knows the form in which values and records lie in columns. It refuses to know tables and statements.
package column

import (
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strconv"

	"resyncd/store"
)

// What ends in At stands for a field, both to read it from a row and as an argument. It works on the field itself, so
// that a row costs no copies. What begins with Into only reads.

// Instant is an instant as an argument: NULL for none.
func Instant(m store.Micros) any {
	if m == store.NoTime {
		return nil
	}
	return int64(m)
}

// Text is a string as an argument where "" is NULL.
func Text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// NotNil is bytes as an argument that is never NULL.
func NotNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// Flag is b as an argument.
func Flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Field is a place in a record that is read from a column and written to it.
type Field interface {
	sql.Scanner
	driver.Valuer
}

// field is a Field of one value. read reports false for what cannot be read, and write is nil where nothing is written.
type field[T any] struct {
	at    *T
	read  func(from any, to *T) bool
	write func(*T) any
}

func (f field[T]) Scan(v any) error {
	if !f.read(v, f.at) {
		return fmt.Errorf("%w: a %T for a %T", ErrDamaged, v, *f.at)
	}
	return nil
}

func (f field[T]) Value() (driver.Value, error) { return f.write(f.at), nil }

// InstantAt is the field of an instant, NULL for none.
func InstantAt(m *store.Micros) Field {
	return field[store.Micros]{m, readInstant, func(m *store.Micros) any { return Instant(*m) }}
}

func readInstant(v any, m *store.Micros) bool {
	n, ok := v.(int64)
	if *m = store.Micros(n); v == nil {
		*m = store.NoTime
	}
	return ok || v == nil
}

// IntoText reads a string, NULL as "".
func IntoText(t *string) sql.Scanner {
	return field[string]{at: t, read: func(v any, t *string) (ok bool) {
		*t, ok = v.(string)
		return ok || v == nil
	}}
}

// IntoNumber reads a number, NULL as 0.
func IntoNumber[T ~uint8 | ~int64](to *T) sql.Scanner {
	return field[T]{at: to, read: func(v any, to *T) bool {
		n, ok := v.(int64)
		*to = T(n)
		return (ok || v == nil) && int64(*to) == n
	}}
}

// IntoBool reads what Flag wrote, NULL as false.
func IntoBool(to *bool) sql.Scanner {
	return field[bool]{at: to, read: func(v any, to *bool) bool {
		n, ok := v.(int64)
		*to = ok && n != 0
		return true
	}}
}

// IDs is ids as a JSON array, for json_each.
func IDs(ids []int64) string {
	b := []byte{'['}
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, id, 10)
	}
	return string(append(b, ']'))
}

// IntervalsAt is the field of intervals: [[from, until], …] in JSON.
func IntervalsAt(list *[]store.Interval) Field {
	return field[[]store.Interval]{list, readIntervals, writeIntervals}
}

func writeIntervals(list *[]store.Interval) any {
	pairs := make([][2]store.Micros, len(*list))
	for i, iv := range *list {
		pairs[i] = [2]store.Micros{iv.From, iv.Until}
	}
	b, _ := json.Marshal(pairs) // of numbers, which never fails
	return string(b)
}

func readIntervals(v any, list *[]store.Interval) bool {
	var pairs [][2]store.Micros
	s, ok := v.(string)
	if !ok || json.Unmarshal([]byte(s), &pairs) != nil {
		return false
	}
	*list = nil
	for _, p := range pairs {
		*list = append(*list, store.Interval{From: p[0], Until: p[1]})
	}
	return true
}

// DigestAt is the field of a SHA-256, zero for NULL.
func DigestAt(sum *[32]byte) Field {
	return field[[32]byte]{sum, readDigest, func(sum *[32]byte) any { return sum[:] }}
}

func readDigest(v any, sum *[32]byte) bool {
	*sum = [32]byte{}
	b, ok := v.([]byte)
	return v == nil || ok && copy(sum[:], b) == len(sum)
}

// CausedAt is the field of a text with its cause (store.WithCause).
func CausedAt(text, cause *string) Field { return caused{text, cause} }

type caused struct{ text, cause *string }

func (c caused) Value() (driver.Value, error) { return store.WithCause(*c.text, *c.cause), nil }

func (c caused) Scan(v any) error {
	kept, ok := v.(string)
	if !ok {
		return fmt.Errorf("%w: text is a %T", ErrDamaged, v)
	}
	*c.text, *c.cause = store.CutCause(kept)
	return nil
}
