package report

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"resyncd/destination/feed"
	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/merge"
)

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
		l := HistoryLine{URI: uri, At: TimeOf(e.At), What: e.What, Version: instant(e.Version)}
		if e.Detail != "" {
			l.Detail = &e.Detail
		}
		if url, _, _ := strings.Cut(e.Document, evidenceMark); url != "" {
			l.Evidence = &url
		}
		out = append(out, l)
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
		Observed: TimeOf(e.Observed), Received: TimeOf(e.Received), Fields: map[string]string{}, Odd: []string{},
	}}
	if e.Author != "" {
		l.Author = &e.Author
	}
	if url, _, _ := strings.Cut(e.Evidence, evidenceMark); url == store.EvidencePush {
		l.Evidence = new(coverage.ByNotification)
	} else if url != "" {
		l.Evidence = &url
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
