package feed

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
)

// FieldState is the newest value of a record's field. An empty Value was erased.
type FieldState struct {
	Value    string    `json:"value"`
	Observed time.Time `json:"observed,omitzero"` // zero: unknown, the oldest
	Author   string    `json:"author"`            // "" without
}

// Record is the result of its edits.
type Record struct {
	Subject  string                `json:"subject"`
	Observed time.Time             `json:"observed,omitzero"` // of the newest edit
	Edits    int                   `json:"edits"`             // distinct ones
	Fields   map[string]FieldState `json:"fields"`
}

// Merge makes the record of a subject: each field has the value of the newest edit that names it; of equally old ones,
// of that with the greater author, then value. So neither order nor repetition of the edits counts. Edits of other
// subjects are left out.
func Merge(subject string, edits []*Edit) *Record {
	r := &Record{Subject: subject, Fields: map[string]FieldState{}}
	seen := make(map[[32]byte]bool, len(edits))
	for _, e := range edits {
		if e.Subject != subject {
			continue
		}
		d := e.Digest()
		if seen[d] {
			continue
		}
		seen[d] = true
		r.Edits++
		if e.Observed.After(r.Observed) {
			r.Observed = e.Observed
		}
		for _, f := range e.Fields {
			now := FieldState{f.Value, e.Observed, e.Author}
			if old, ok := r.Fields[f.Name]; !ok || now.beats(old) {
				r.Fields[f.Name] = now
			}
		}
	}
	return r
}

func (f FieldState) beats(old FieldState) bool {
	if d := f.Observed.Compare(old.Observed); d != 0 {
		return d > 0
	}
	if d := strings.Compare(f.Author, old.Author); d != 0 {
		return d > 0
	}
	return f.Value > old.Value
}

// JSON is the record's file (contract.md 5): the same bytes for the same record, with a newline at the end.
func (r *Record) JSON() []byte {
	type field struct {
		Value    string  `json:"value"`
		Observed *string `json:"observed"`
		Author   *string `json:"author"`
	}
	file := struct {
		Subject  string           `json:"subject"`
		Observed *string          `json:"observed"`
		Edits    int              `json:"edits"`
		Fields   map[string]field `json:"fields"`
	}{r.Subject, nullIfEmpty(stamp(r.Observed)), r.Edits, map[string]field{}}
	for name, f := range r.Fields {
		file.Fields[name] = field{f.Value, nullIfEmpty(stamp(f.Observed)), nullIfEmpty(f.Author)}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(file); err != nil { // cannot fail: strings and a number
		return nil
	}
	return b.Bytes()
}

// nullIfEmpty is nil, JSON's null, for "" (contract.md 3).
func nullIfEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
