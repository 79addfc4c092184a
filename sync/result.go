package sync

import "encoding/json"

// Result is a run's work on one set and the set's state. It is the line of `sync --json`.
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
	Asked       int64   `json:"asked"` // resources that documents did not decide
	Refused     int64   `json:"refused"`
	GapsFound   int64   `json:"gaps_found"`
	GapsClosed  int64   `json:"gaps_closed"`
	Odd         int64   `json:"odd"` // record values that violate their format
	DryRun      bool    `json:"dry_run"`
	Seconds     float64 `json:"seconds"`
	InStep      bool    `json:"in_step"`
	Problem     string  `json:"-"` // "" if nothing
	Unavailable bool    `json:"-"` // no document of the set was usable
	*Would              // of a dry run only
}

// Would sums up a dry run of one set.
type Would struct {
	Fetch  int64 `json:"would_fetch"`
	Delete int64 `json:"would_delete"`
	Bytes  int64 `json:"would_bytes"` // as far as the Source gives lengths
}

func (w *Would) count(p Planned) {
	switch p.Action {
	case "fetch":
		w.Fetch++
		w.Bytes += max(p.Length, 0)
	case "delete":
		w.Delete++
	}
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
