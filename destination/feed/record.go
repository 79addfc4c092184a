package feed

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Digest identifies the content of an edit: subject, observed, author, type and fields, however it was written.
func (e *Edit) Digest() [32]byte {
	said := []string{e.Subject, stamp(e.Observed), e.Author, e.Type}
	for _, f := range e.Fields {
		said = append(said, f.Name, f.Value)
	}
	// Each has its length before it, so that no two sequences are the same bytes.
	all := make([]byte, 0, 1<<10)
	for _, s := range said {
		all = append(binary.BigEndian.AppendUint64(all, uint64(len(s))), s...)
	}
	return sha256.Sum256(all)
}

// stamp is a time in RFC 3339, UTC; "" for the zero time.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// Marshal encodes the edit for the store, as JSON.
func (e *Edit) Marshal() []byte {
	b, err := json.Marshal(e)
	if err != nil { // cannot fail: strings, and a time of a year that can be
		return nil
	}
	return b
}

// UnmarshalEdit decodes what Marshal encoded.
func UnmarshalEdit(b []byte) (*Edit, error) {
	e := &Edit{}
	if err := json.Unmarshal(b, e); err != nil {
		return nil, fmt.Errorf("decode a stored edit: %w", err)
	}
	e.Observed = e.Observed.UTC()
	return e, nil
}

const maxOdd = 20 // remarks on an edit

// readEdit reads the edit of a record in an entry (T-03); nil if there is none. An edit without a subject is an error.
func readEdit(n *node) (*Edit, error) {
	parts := map[string][]*node{}
	for _, k := range n.kids {
		if name := k.name(report); name != "" {
			parts[name] = append(parts[name], k)
		}
	}
	if len(parts["subject"])+len(parts["observed"])+len(parts["content"]) == 0 {
		return nil, nil //nolint:nilnil // no edit and nothing wrong
	}
	e := &Edit{}
	for _, k := range parts["subject"] {
		if s := strings.TrimSpace(k.content()); e.Subject == "" {
			e.Subject = s
		} else if s != e.Subject {
			e.note("another subject: %s", quote(s))
		}
	}
	if e.Subject == "" {
		return nil, entryError("an edit that does not say of what (no report:subject)")
	}
	e.readAuthor(n)
	e.readObserved(parts["observed"])
	e.readContents(parts["content"])
	return e, nil
}

func (e *Edit) note(format string, args ...any) {
	if len(e.Odd) < maxOdd {
		e.Odd = append(e.Odd, fmt.Sprintf(format, args...))
	}
}

func (e *Edit) readAuthor(n *node) {
	for _, k := range n.kids {
		if k.name(atomVocabulary) != "author" && k.name(rssVocabulary) != "author" {
			continue
		}
		if e.Author = k.childText(k.vocabulary, "uri"); e.Author != "" {
			break
		}
		if mail := k.childText(k.vocabulary, "email"); mail != "" {
			e.Author = "mailto:" + mail
			e.note("author with an email and no uri")
			return
		}
	}
	if scheme, _, _ := strings.Cut(strings.ToLower(e.Author), ":"); scheme != "tel" && scheme != "mailto" {
		e.note("author is no tel: or mailto: URL: %s", quote(e.Author))
	}
}

func (e *Edit) readObserved(said []*node) {
	if len(said) == 0 {
		e.note("no report:observed")
		return
	}
	if len(said) > 1 {
		e.note("report:observed given %d times", len(said))
	}
	text := strings.TrimSpace(said[0].content())
	t, err := time.Parse(time.RFC3339, strings.ToUpper(text))
	if err != nil {
		e.note("observed is no RFC 3339 time: %s", quote(text))
		return
	}
	if _, east := t.Zone(); east != 0 {
		e.note("observed is not in UTC: %s", quote(text))
	}
	if e.Observed = t.UTC().Truncate(time.Microsecond); e.Observed.Year() < 1 || e.Observed.Year() > 9999 {
		e.note("observed is in no year that can be: %s", quote(text))
		e.Observed = time.Time{}
	}
}

func (e *Edit) readContents(contents []*node) {
	if len(contents) != 1 {
		e.note("%d report:content elements instead of one", len(contents))
	}
	values := map[string]string{}
	rows := 0
	for _, c := range contents {
		if e.Type == "" {
			e.Type = strings.TrimSpace(c.attr("type"))
		}
		for _, row := range c.kids {
			if row.name(report) != "row" {
				continue
			}
			rows++
			for _, f := range row.kids {
				if f.name(sheet) == "field" {
					e.readField(f, values)
				}
			}
		}
	}
	if rows != 1 {
		e.note("%d report:row elements instead of one", rows)
	}
	for name, value := range values {
		e.Fields = append(e.Fields, Field{name, value})
	}
	slices.SortFunc(e.Fields, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range e.Fields {
		if fault := validate(f); fault != "" {
			e.note("%s is %s: %s", quote(f.Name), fault, quote(f.Value))
		}
	}
}

// readField takes a field as received. White space alone counts as empty, because pretty-printers insert it.
func (e *Edit) readField(n *node, values map[string]string) {
	name := strings.TrimSpace(n.attr("name"))
	if name == "" {
		for _, a := range n.attrs {
			if a.local == "name" {
				name = strings.TrimSpace(a.value)
			}
		}
	}
	if name == "" {
		e.note("a field without a name: %s", quote(n.content()))
	}
	value := n.content()
	if strings.TrimSpace(value) == "" {
		value = ""
	}
	if old, twice := values[name]; twice {
		e.note("%s given twice, first as %s", quote(name), quote(old))
	}
	values[name] = value
}

// validate describes how a field's value deviates from resource-finder.md; "" for not at all. An empty value erases and
// is valid. A deviating value is kept all the same.
func validate(f Field) string {
	value := strings.TrimSpace(f.Value)
	if value == "" {
		return ""
	}
	switch f.Name {
	case "available_beds", "total_beds":
		if _, err := strconv.ParseInt(value, 10, 64); err != nil {
			return "no integer"
		}
	case "services":
		for _, s := range strings.Split(value, ",") {
			if !slices.Contains(permitted[f.Name], strings.TrimSpace(s)) {
				return "no set of known services"
			}
		}
	case "location":
		if !isLocation(value) {
			return `no "latitude,longitude" in degrees`
		}
	default:
		if p := permitted[f.Name]; p != nil && !slices.Contains(p, value) {
			return "none of the permitted values"
		}
	}
	return ""
}

// permitted are the documented values of fields.
var permitted = map[string][]string{
	"services": {
		"GENERAL_SURGERY", "ORTHOPEDICS", "NEUROSURGERY", "VASCULAR_SURGERY", "INTERNAL_MEDICINE", "CARDIOLOGY",
		"INFECTIOUS_DISEASE", "PEDIATRICS", "POSTOPERATIVE_CARE", "REHABILITATION", "OBSTETRICS_GYNECOLOGY",
		"MENTAL_HEALTH", "DIALYSIS", "LAB", "X_RAY", "CT_SCAN", "BLOOD_BANK", "MORTUARY_SERVICES",
	},
	"organization_type": {
		"PUBLIC", "FOR_PROFIT", "UNIVERSITY", "COMMUNITY", "NGO", "FAITH_BASED", "MILITARY", "MIXED",
	},
	"category":     {"HOSPITAL", "CLINIC", "MOBILE_CLINIC", "DISPENSARY"},
	"construction": {"REINFORCED_CONCRETE", "UNREINFORCED_MASONRY", "WOOD_FRAME", "ADOBE"},
	"operational_status": {
		"OPERATIONAL", "NO_SURGICAL_CAPACITY", "FIELD_HOSPITAL", "FIELD_WITH_HOSPITAL", "CLOSED_OR_CLOSING",
	},
	"reachable_by_road":    {"TRUE", "FALSE"},
	"can_pick_up_patients": {"TRUE", "FALSE"},
}

func isLocation(value string) bool {
	lat, lon, ok := strings.Cut(value, ",")
	return ok && within(lat, 90) && within(lon, 180)
}

func within(degrees string, most float64) bool {
	v, err := strconv.ParseFloat(strings.TrimSpace(degrees), 64)
	return err == nil && math.Abs(v) <= most // NaN is not
}

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
	return cmp.Or(f.Observed.Compare(old.Observed), strings.Compare(f.Author, old.Author),
		strings.Compare(f.Value, old.Value)) > 0
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
