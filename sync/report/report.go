// Package report knows how to tell what the state says of a Source, its resources and their lives. It only reads, and
// refuses to know how any of it came about.
package report

import (
	"time"

	"resyncd/store"
)

// Time is an instant of a report; the zero value is not known.
type Time struct{ time.Time }

// TimeOf is an instant of the state.
func TimeOf(m store.Micros) Time { return Time{m.Time()} }

// String is as in JSON, "-" for none.
func (t Time) String() string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// MarshalJSON implements json.Marshaler: RFC 3339 in UTC, or null.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return []byte(`"` + t.String() + `"`), nil
}

// RFC3339 is the text of an instant, nil for NoTime.
func RFC3339(m store.Micros) *string {
	if !m.Known() {
		return nil
	}
	return new(TimeOf(m).String())
}
