// Package column knows the form in which values and records lie in columns. It refuses to know tables and statements.
package column

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"

	"resyncd/store"
)

// Reading goes through Scanners on the fields themselves, so that a row costs no copies.

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

// Blob is bytes as an argument where nil is NULL.
func Blob(b []byte) any {
	if b == nil {
		return nil
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

// IntoInstant reads what Instant wrote.
func IntoInstant(m *store.Micros) sql.Scanner { return (*micros)(m) }

type micros store.Micros

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

// IntoEnum reads a number into an enumeration, NULL as 0.
func IntoEnum[T ~uint8](to *T) sql.Scanner { return enumOf[T]{to} }

type enumOf[T ~uint8] struct{ to *T }

func (s enumOf[T]) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*s.to = 0
	case int64:
		if v < 0 || v > 255 {
			return fmt.Errorf("%w: state %d", ErrDamaged, v)
		}
		*s.to = T(v)
	default:
		return fmt.Errorf("%w: state is a %T", ErrDamaged, v)
	}
	return nil
}

// IntoInt reads a number, NULL as 0.
func IntoInt(n *int64) sql.Scanner { return (*nullInt)(n) }

type nullInt int64

func (n *nullInt) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*n = 0
	case int64:
		*n = nullInt(v)
	default:
		return fmt.Errorf("%w: number is a %T", ErrDamaged, v)
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

// Intervals is intervals as an argument: [[from, until], …] in JSON.
func Intervals(list []store.Interval) (string, error) {
	pairs := make([][2]store.Micros, len(list))
	for i, iv := range list {
		pairs[i] = [2]store.Micros{iv.From, iv.Until}
	}
	b, err := json.Marshal(pairs)
	return string(b), err
}

// IntoIntervals reads what Intervals wrote.
func IntoIntervals(list *[]store.Interval) sql.Scanner { return (*intervals)(list) }

type intervals []store.Interval

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

// IntoDigest reads a SHA-256.
func IntoDigest(sum *[32]byte) sql.Scanner { return (*digest)(sum) }

type digest [32]byte

func (d *digest) Scan(v any) error {
	b, ok := v.([]byte)
	if !ok || copy(d[:], b) != len(d) {
		return fmt.Errorf("%w: a digest of %d bytes", ErrDamaged, len(b))
	}
	return nil
}
