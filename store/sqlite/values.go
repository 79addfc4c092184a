package sqlite

import (
	"fmt"
	"strconv"

	"resyncd/store"
)

// Conversions between values and the database. Reading goes through Scanners on the fields
// themselves, so that a row costs no copies.

// ms is an instant as an argument: NULL for none.
func ms(m store.Micros) any {
	if m == store.NoTime {
		return nil
	}
	return int64(m)
}

// text is a string as an argument where "" is NULL.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// blob is bytes as an argument where nil is NULL.
func blob(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// micros reads an instant, NULL as NoTime.
type micros store.Micros

func (m *micros) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*m = micros(store.NoTime)
	case int64:
		*m = micros(v)
	default:
		return fmt.Errorf("%w: instant is a %T", errPayload, v)
	}
	return nil
}

// nullText reads a string, NULL as "".
type nullText string

func (t *nullText) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*t = ""
	case string:
		*t = nullText(v)
	default:
		return fmt.Errorf("%w: text is a %T", errPayload, v)
	}
	return nil
}

// enumOf reads a number into an enumeration, NULL as 0.
type enumOf[T ~uint8] struct{ to *T }

func (s enumOf[T]) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*s.to = 0
	case int64:
		if v < 0 || v > 255 {
			return fmt.Errorf("%w: state %d", errPayload, v)
		}
		*s.to = T(v)
	default:
		return fmt.Errorf("%w: state is a %T", errPayload, v)
	}
	return nil
}

// nullInt reads a number, NULL as 0.
type nullInt int64

func (n *nullInt) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*n = 0
	case int64:
		*n = nullInt(v)
	default:
		return fmt.Errorf("%w: number is a %T", errPayload, v)
	}
	return nil
}

// nullBool reads a flag, NULL as false.
type nullBool struct{ to *bool }

func (b nullBool) Scan(v any) error {
	n, ok := v.(int64)
	*b.to = ok && n != 0
	return nil
}

// idList is ids as a JSON array, for json_each.
func idList(ids []int64) string {
	b := []byte{'['}
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, id, 10)
	}
	return string(append(b, ']'))
}
