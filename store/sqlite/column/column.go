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

// InstantAt is the field of an instant, NULL for none.
func InstantAt(m *store.Micros) Field { return (*micros)(m) }

type micros store.Micros

func (m *micros) Value() (driver.Value, error) { return Instant(store.Micros(*m)), nil }

func (m *micros) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*m = micros(store.NoTime)
	case int64:
		*m = micros(v)
	default:
		return fmt.Errorf("%w: instant is a %T", ErrDamaged, v)
	}
	return nil
}

// IntoText reads a string, NULL as "".
func IntoText(t *string) sql.Scanner { return (*nullText)(t) }

type nullText string

func (t *nullText) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*t = ""
	case string:
		*t = nullText(v)
	default:
		return fmt.Errorf("%w: text is a %T", ErrDamaged, v)
	}
	return nil
}

// IntoNumber reads a number, NULL as 0.
func IntoNumber[T ~uint8 | ~int64](to *T) sql.Scanner { return number[T]{to} }

type number[T ~uint8 | ~int64] struct{ to *T }

func (n number[T]) Scan(v any) error {
	from, ok := v.(int64)
	if *n.to = T(from); !ok && v != nil || int64(*n.to) != from {
		return fmt.Errorf("%w: %v as a number", ErrDamaged, v)
	}
	return nil
}

// IntoBool reads what Flag wrote, NULL as false.
func IntoBool(to *bool) sql.Scanner { return nullBool{to} }

type nullBool struct{ to *bool }

func (b nullBool) Scan(v any) error {
	n, ok := v.(int64)
	*b.to = ok && n != 0
	return nil
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
func IntervalsAt(list *[]store.Interval) Field { return (*intervals)(list) }

type intervals []store.Interval

func (v *intervals) Value() (driver.Value, error) {
	pairs := make([][2]store.Micros, len(*v))
	for i, iv := range *v {
		pairs[i] = [2]store.Micros{iv.From, iv.Until}
	}
	b, err := json.Marshal(pairs)
	return string(b), err
}

func (v *intervals) Scan(from any) error {
	s, ok := from.(string)
	if !ok {
		return fmt.Errorf("%w: intervals are a %T", ErrDamaged, from)
	}
	var pairs [][2]store.Micros
	if err := json.Unmarshal([]byte(s), &pairs); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	*v = nil
	for _, p := range pairs {
		*v = append(*v, store.Interval{From: p[0], Until: p[1]})
	}
	return nil
}

// DigestAt is the field of a SHA-256, zero for NULL.
func DigestAt(sum *[32]byte) Field { return (*digest)(sum) }

type digest [32]byte

func (d *digest) Value() (driver.Value, error) { return d[:], nil }

func (d *digest) Scan(v any) error {
	b, ok := v.([]byte)
	if v == nil {
		*d = digest{}
		return nil
	}
	if !ok || copy(d[:], b) != len(d) {
		return fmt.Errorf("%w: a digest of %d bytes", ErrDamaged, len(b))
	}
	return nil
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
