package sync

import (
	"encoding/json"
	"reflect"
	"time"

	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/pull"
	"resyncd/sync/transfer"
)

// Observer receives events for metrics and people. Its functions may be nil; they must be quick, safe for concurrent
// use, and call nothing of the Follower.
type Observer struct {
	// Mirrored reports a notification whose changes are all durable or owed.
	Mirrored func(Mirrored)
	// Notified counts notifications taken up, by verdict.
	Notified func(verdict coverage.Verdict, n int)
	// Missed counts changes that a pull saw first despite an active subscription.
	Missed func(setID int64, n int64)
	// Odd counts record values that violate their format.
	Odd func(setID int64, n int64)
	// Settled reports each resource after its result is recorded.
	Settled func(transfer.Settled)
	// Removed counts files removed from the mirror.
	Removed func(n int64)
	// Gap reports a found, changed or ended gap; a false alarm ends without ClosedBy.
	Gap func(g store.Gap)
	// Pulled reports each concluded pull.
	Pulled func(Result)
	// Discovered reports each offered set and how it was found: given, well-known, link-header, html-link, robots,
	// description, up, index.
	Discovered func(setID int64, how string)
	// Unread reports why a pull or a part of it could not be read; fetch.KindOf classifies network errors.
	Unread func(err error)
	// Skipped counts unreadable entries that were left out (F46).
	Skipped func(n int64)
	// Doubted reports why a document was not fully trusted, by the reasons of destination.ReaderOptions.Doubted.
	Doubted func(reason string)
	// Held reports the number of files in a sweep that waits for the operator.
	Held func(setID int64, n int64)
	// Halted reports why the mirror stops taking files (F6), and nil once it takes them again.
	Halted func(err error)
	// Rotten counts damaged mirror files (F13), which are fetched anew.
	Rotten func(n int64)
}

// Mirrored is one notification that was carried out.
type Mirrored struct {
	SetID       int64
	From, Until store.Micros
	Changes     int           // entries that asked for something new
	Owed        int           // of those, failed and tried again
	Received    time.Time     // when the hub delivered it
	Took        time.Duration // from then until everything was durable
}

// whole returns o with a function that does nothing for each that is nil.
func (o Observer) whole() *Observer {
	v := reflect.ValueOf(&o).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.IsNil() {
			f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value { return nil }))
		}
	}
	return &o
}

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

// Aliases for callers of this package.
type (
	// Target is one Source with everything that a run of it needs.
	Target = pull.Target
	// Kind says what a Source's URL leads to.
	Kind = pull.Kind
	// DeleteMode decides about the file of a resource that the Source deleted.
	DeleteMode = transfer.DeleteMode
	// Progress is a step of a run.
	Progress = transfer.Progress
	// Settled is how the work on one resource ended.
	Settled = transfer.Settled
)

// KindFeed follows any topic.
const KindFeed = pull.KindFeed
