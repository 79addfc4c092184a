package feed

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
)

// FieldState is what a record has in a field: the newest that an edit said of it. An empty Value was erased then.
type FieldState struct {
	Value    string    `json:"value"`
	Observed time.Time `json:"observed,omitzero"` // zero: unknown, older than everything
	Author   string    `json:"author"`            // "" without
}

// Record is what its edits make of it.
type Record struct {
	Subject  string                `json:"subject"`
	Observed time.Time             `json:"observed,omitzero"` // of the newest edit
	Edits    int                   `json:"edits"`             // distinct ones
	Fields   map[string]FieldState `json:"fields"`
}

// Merge makes the record of a subject: each field is what the newest edit says that names it, and of equally old ones
// the one with the greater author, then value. So neither order nor repetition of the edits counts. Edits of other
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
	}{r.Subject, orNull(stamp(r.Observed)), r.Edits, map[string]field{}}
	for name, f := range r.Fields {
		file.Fields[name] = field{f.Value, orNull(stamp(f.Observed)), orNull(f.Author)}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(file); err != nil { // strings and a number: it cannot be
		return nil
	}
	return b.Bytes()
}

// orNull is absent as null (contract.md 3).
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
