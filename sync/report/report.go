// Package report knows how to tell what the state says of a Source, its resources and their lives. It only reads, and
// refuses to know how any of it came about.
package report

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"time"

	"resyncd/store"
	"resyncd/sync/merge"
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

// Listing is a line of `ls --json`.
type Listing struct {
	URI      string  `json:"uri"`
	Key      *string `json:"key"`
	Length   *int64  `json:"length"`
	SHA256   *string `json:"sha256"`
	Type     *string `json:"type"`
	Changed  Time    `json:"changed"`
	State    string  `json:"state"` // present, owed, held, kept, refused, trash
	Reason   *string `json:"reason,omitempty"`
	Attempts *int    `json:"attempts,omitempty"`
	NextTry  Time    `json:"next_try,omitzero"`
	// Meta is what a feed tells of an entry.
	Meta json.RawMessage `json:"meta,omitempty"`
}

// MarshalJSON implements json.Marshaler: the URI of a file that belonged to no resource is null.
func (l Listing) MarshalJSON() ([]byte, error) {
	type line Listing // without this method
	if l.URI != "" {
		return json.Marshal(line(l))
	}
	return json.Marshal(struct {
		URI *string `json:"uri"`
		line
	}{line: line(l)})
}

// ListFilter selects what List shows.
type ListFilter string

// The filters. ListAll leaves trash and refused out.
const (
	ListAll     ListFilter = ""
	ListOwed    ListFilter = "owed"
	ListHeld    ListFilter = "held"
	ListRefused ListFilter = "refused"
	ListTrash   ListFilter = "trash"
)

// List calls each for the resources of a Source. Nothing is held open in between.
func List(ctx context.Context, st store.Store, source int64, f ListFilter, each func(Listing) error) error {
	if f == ListTrash {
		return listTrash(ctx, st, source, each)
	}
	filter := map[ListFilter]store.Filter{
		ListAll: store.FilterAll, ListOwed: store.FilterOwed, ListHeld: store.FilterHeld,
		ListRefused: store.FilterRefused,
	}[f]
	for after := int64(0); ; {
		rs, err := st.Scan(ctx, store.ScanQuery{SourceID: source, Filter: filter, After: after, Limit: 1000})
		if err != nil || len(rs) == 0 {
			return err
		}
		for _, r := range rs {
			after = r.ID
			l := ListingOf(r)
			if l.State == "" || f == ListAll && l.State == "refused" {
				continue
			}
			if err := each(l); err != nil {
				return err
			}
		}
	}
}

// ListingOf is one resource; its State is "" for a tombstone.
func ListingOf(r *store.Resource) Listing {
	l := Listing{URI: r.URI, State: stateName(r)}
	if r.Key != "" {
		l.Key = &r.Key
	}
	w := merge.Effective(r.Wants)
	for i := range r.Wants {
		if r.Wants[i].Held || w == nil {
			w = &r.Wants[i]
		}
	}
	if r.Have.State != store.HaveNone {
		l.Length, l.SHA256 = &r.Have.Length, new(hex.EncodeToString(r.Have.SHA256[:]))
	} else if w != nil && w.Length >= 0 {
		l.Length = &w.Length
	}
	t := r.Have.Type
	if t == "" && w != nil {
		t = w.Type
	}
	if t != "" {
		l.Type = &t
	}
	l.Changed = TimeOf(changedAt(w))
	if w != nil && json.Valid([]byte(w.Meta)) {
		l.Meta = json.RawMessage(w.Meta)
	}
	switch l.State {
	case "owed":
		l.Attempts, l.NextTry = &r.Work.Attempts, TimeOf(r.Work.Due)
		if r.Work.Reason != "" {
			l.Reason = &r.Work.Reason
		} else {
			l.Reason = new("not tried yet")
		}
	case "held":
		l.Reason = new("the sweep guard held its removal: `resyncd approve` carries it out, `approve " +
			"--reject` keeps it")
	case "refused":
		for i := range r.Wants {
			if r.Wants[i].Refused != "" {
				l.Reason = &r.Wants[i].Refused
			}
		}
	}
	return l
}

// changedAt is the change's own time, else its Last-Modified.
func changedAt(w *store.Want) store.Micros {
	switch {
	case w == nil:
		return store.NoTime
	case w.Generation == 0 && w.Version.Until.Known():
		return w.Version.Until
	}
	return w.LastMod
}

// stateName is "" for a tombstone.
func stateName(r *store.Resource) string {
	refused := false
	for i := range r.Wants {
		if r.Wants[i].Held {
			return "held"
		}
		refused = refused || r.Wants[i].Refused != ""
	}
	switch {
	case r.Work.Action != store.ActionNone:
		return "owed"
	case r.Have.State == store.HaveKept:
		return "kept"
	case r.Have.State == store.HavePresent:
		return "present"
	case refused:
		return "refused"
	}
	return ""
}

func listTrash(ctx context.Context, st store.Ledger, source int64, each func(Listing) error) error {
	for after := ""; ; {
		ts, err := st.Trash(ctx, source, store.NoTime, after, 1000)
		if err != nil || len(ts) == 0 {
			return err
		}
		for i := range ts {
			t := &ts[i]
			after = t.ID
			l := Listing{URI: t.URI, Key: &t.Key, State: "trash", Reason: &t.Reason, Changed: TimeOf(t.At)}
			if t.Length >= 0 {
				l.Length, l.SHA256 = &t.Length, new(hex.EncodeToString(t.SHA256[:]))
			}
			if err := each(l); err != nil {
				return err
			}
		}
	}
}
