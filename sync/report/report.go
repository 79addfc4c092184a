// Package report knows how to tell people and scripts what the state says of a Source: how it stands, what it lists, and
// the life of a resource. It only reads, and refuses to know how any of it came about: it needs no claim, no mirror and
// no network.
package report

import (
	"time"

	"resyncd/store"
)

// RFC3339 is how times leave the program: UTC, the fraction only where there is one. NoTime is nil.
func RFC3339(m store.Micros) *string {
	if !m.Known() {
		return nil
	}
	s := m.Time().Format(time.RFC3339Nano)
	return &s
}
