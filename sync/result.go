package sync

import (
	"encoding/json"
	"time"

	"resyncd/store"
)

// Result is what a run did with one set, and how it stands now. It is the line of `sync --json`.
type Result struct {
	Source      string  `json:"source"`
	Set         string  `json:"set"`
	Kind        string  `json:"kind"` // baseline, incremental, none
	Position    *string `json:"position"`
	Fetched     int64   `json:"fetched"`
	Unchanged   int64   `json:"unchanged"`
	Deleted     int64   `json:"deleted"`
	Failed      int64   `json:"failed"`
	Owed        int64   `json:"owed"`
	Held        int64   `json:"held"`
	Bytes       int64   `json:"bytes"`
	Requests    int64   `json:"requests"`
	Refused     int64   `json:"refused"`
	GapsFound   int64   `json:"gaps_found"`
	GapsClosed  int64   `json:"gaps_closed"`
	Odd         int64   `json:"odd"` // values of records that their format does not have, kept as they are
	DryRun      bool    `json:"dry_run"`
	Seconds     float64 `json:"seconds"`
	InStep      bool    `json:"in_step"`
	Problem     string  `json:"-"` // what went wrong with the set as a whole, "" if nothing
	Unavailable bool    `json:"-"` // no document of the set was usable
}

// MarshalJSON implements json.Marshaler: an absent problem is null.
func (r Result) MarshalJSON() ([]byte, error) {
	type line Result // without this method
	out := struct {
		line
		Problem *string `json:"problem"`
	}{line: line(r)}
	if r.Problem != "" {
		out.Problem = &r.Problem
	}
	return json.Marshal(out)
}

// RFC3339 is how times leave the program: UTC, the fraction only where there is one. NoTime is nil.
func RFC3339(m store.Micros) *string {
	if !m.Known() {
		return nil
	}
	s := m.Time().Format(time.RFC3339Nano)
	return &s
}
