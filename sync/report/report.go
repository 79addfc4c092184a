// Package report knows how to tell what the state says of a Source, its resources and their lives. It only reads, and
// refuses to know how any of it came about.
package report

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"resyncd/destination/feed"
	"resyncd/store"
	"resyncd/sync/coverage"
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

// textOf is a text, nil for none.
func textOf(s string) *string {
	if s == "" {
		return nil
	}
	return &s
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
	Links    []Link  `json:"links"`
	// Meta is what a feed tells of an entry.
	Meta json.RawMessage `json:"meta,omitempty"`
}

// Link is a link as a row keeps it.
type Link struct {
	Rel      string  `json:"rel"`
	Href     string  `json:"href"`
	Type     *string `json:"type"`
	Profile  *string `json:"profile"`
	Modified *string `json:"modified"`
}

// Linked reports whether a resource has a link of a relation to href, "" for anything.
func (l *Listing) Linked(rel, href string) bool {
	return slices.ContainsFunc(l.Links, func(n Link) bool {
		return strings.EqualFold(n.Rel, rel) && (href == "" || n.Href == href)
	})
}

// MarshalJSON implements json.Marshaler: the URI of a file that belonged to no resource is null.
func (l Listing) MarshalJSON() ([]byte, error) {
	type line Listing // without this method
	if l.Links == nil {
		l.Links = []Link{}
	}
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
	l := Listing{URI: r.URI, Key: textOf(r.Key), State: stateName(r)}
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
	if l.Type = textOf(r.Have.Type); l.Type == nil && w != nil {
		l.Type = textOf(w.Type)
	}
	l.Changed = TimeOf(changedAt(w))
	if w != nil && json.Valid([]byte(w.Meta)) {
		l.Meta = json.RawMessage(w.Meta)
	}
	if w != nil && json.Unmarshal([]byte(w.Links), &l.Links) != nil {
		l.Links = nil
	}
	switch l.State {
	case "owed":
		l.Attempts, l.NextTry = &r.Work.Attempts, TimeOf(r.Work.Due)
		l.Reason = new(cmp.Or(r.Work.Reason, "not tried yet"))
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

// evidenceMark parts the URL of a Change List from its `from`, as earlier versions wrote it.
const evidenceMark = "#from="

// HistoryLine is a line of `history --json`.
type HistoryLine struct {
	URI      string  `json:"uri"`
	At       Time    `json:"at"` // local
	What     string  `json:"what"`
	Version  Time    `json:"version"` // Source time
	Detail   *string `json:"detail"`
	Evidence *string `json:"evidence"`
	*EditLine
}

// EditLine is what one edit of a record said (websub.md T-03); "" erases.
type EditLine struct {
	Observed Time              `json:"observed"` // Source time
	Received Time              `json:"received"` // local
	Author   *string           `json:"author"`
	Type     string            `json:"type"`
	Fields   map[string]string `json:"fields"`
	Odd      []string          `json:"odd"` // not as documented
}

// History tells a resource's life by time, its edits as they are merged, and how it stands now. The URI may also be the
// id of a feed's entry, or the subject of a record.
func History(ctx context.Context, st store.Store, source int64, uri string) ([]HistoryLine, error) {
	events, err := st.History(ctx, source, uri)
	if err != nil {
		return nil, err
	}
	// A version is recorded as fetched when the next one takes its place.
	slices.SortStableFunc(events, func(a, b store.Event) int { return cmp.Compare(a.At, b.At) })
	var out []HistoryLine
	for i := range events {
		e := &events[i]
		document, _, _ := strings.Cut(e.Document, evidenceMark)
		out = append(out, HistoryLine{
			URI: uri, At: TimeOf(e.At), What: e.What, Version: instant(e.Version), Detail: textOf(e.Detail),
			Evidence: textOf(document),
		})
	}
	edits, err := st.Edits(ctx, source, uri)
	if err != nil {
		return nil, err
	}
	for i := range edits {
		out = append(out, editLine(&edits[i]))
	}
	r, err := st.Resource(ctx, source, uri)
	if err != nil {
		if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		return out, err
	}
	return append(out, present(ctx, st, r)...), nil
}

// editLine tells what stands beside an edit also where that cannot be read.
func editLine(e *store.Edit) HistoryLine {
	l := HistoryLine{URI: e.URI, At: TimeOf(e.Received), What: "edit", Version: TimeOf(e.Observed), EditLine: &EditLine{
		Observed: TimeOf(e.Observed), Received: TimeOf(e.Received), Author: textOf(e.Author),
		Fields: map[string]string{}, Odd: []string{},
	}}
	document, _, _ := strings.Cut(e.Evidence, evidenceMark)
	if l.Evidence = textOf(document); document == store.EvidencePush {
		l.Evidence = new(coverage.ByNotification)
	}
	said, err := feed.UnmarshalEdit(e.Body)
	if err != nil {
		l.Detail = new("not readable: " + err.Error())
		return l
	}
	l.Type = said.Type
	l.Odd = append(l.Odd, said.Odd...)
	for _, f := range said.Fields {
		l.Fields[f.Name] = f.Value
	}
	return l
}

func present(ctx context.Context, st store.Documents, r *store.Resource) []HistoryLine {
	var out []HistoryLine
	for i := range r.Wants {
		w := &r.Wants[i]
		l := HistoryLine{URI: r.URI, What: "wanted", Version: instant(w.Version), Evidence: evidence(ctx, st,
			w.Version)}
		if w.State == store.WantAbsent {
			l.What = "wanted absent"
		} else if w.Digests != "" {
			l.Detail = &w.Digests
		}
		out = append(out, l)
	}
	if h := &r.Have; h.State != store.HaveNone {
		out = append(out, HistoryLine{URI: r.URI, At: TimeOf(h.Fetched), What: stateName(r),
			Version: instant(h.Version),
			Detail:  new(merge.DigestOf(h)), Evidence: evidence(ctx, st, h.Version)})
	}
	return out
}

// instant is unknown for the version of a restored file.
func instant(v store.Version) Time {
	if v == (store.Version{}) {
		return Time{}
	}
	return TimeOf(v.Until)
}

func evidence(ctx context.Context, st store.Documents, v store.Version) *string {
	switch {
	case v.Document == 0:
		return nil
	case v.Document < 0: // pushed
		return new(coverage.ByNotification)
	}
	d, err := st.DocumentByID(ctx, v.Document)
	if err != nil {
		return nil
	}
	url, _, _ := strings.Cut(d.URL, evidenceMark)
	return &url
}
