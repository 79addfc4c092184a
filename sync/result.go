package sync

import "encoding/json"

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
	Asked       int64   `json:"asked"` // resources that the Source was asked about because its documents did not decide
	Refused     int64   `json:"refused"`
	GapsFound   int64   `json:"gaps_found"`
	GapsClosed  int64   `json:"gaps_closed"`
	Odd         int64   `json:"odd"` // values of records that their format does not have, kept as they are
	DryRun      bool    `json:"dry_run"`
	Seconds     float64 `json:"seconds"`
	InStep      bool    `json:"in_step"`
	Problem     string  `json:"-"` // what went wrong with the set as a whole, "" if nothing
	Unavailable bool    `json:"-"` // no document of the set was usable
	*Would              // of a dry run only
}

// Would sums up what a dry run told of one set.
type Would struct {
	Fetch  int64 `json:"would_fetch"`
	Delete int64 `json:"would_delete"`
	Bytes  int64 `json:"would_bytes"` // of what would be fetched, as far as the Source tells lengths
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
