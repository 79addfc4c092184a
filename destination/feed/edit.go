package feed

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"time"
)

// Digest identifies the content of an edit: subject, observed, author, type and fields, however it was written.
func (e *Edit) Digest() [32]byte {
	h := sha256.New()
	add(h, e.Subject)
	add(h, stamp(e.Observed))
	add(h, e.Author)
	add(h, e.Type)
	for _, f := range e.Fields {
		add(h, f.Name)
		add(h, f.Value)
	}
	var sum [32]byte
	h.Sum(sum[:0])
	return sum
}

// add hashes s with its length before it, so that no two sequences of strings hash the same bytes.
func add(h hash.Hash, s string) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(s)))
	h.Write(n[:])
	h.Write([]byte(s))
}

// stamp is a time in RFC 3339, UTC; "" for the zero time.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

type keptEdit struct {
	Subject  string   `json:"subject"`
	Author   string   `json:"author,omitempty"`
	Observed string   `json:"observed,omitempty"`
	Type     string   `json:"type,omitempty"`
	Fields   []Field  `json:"fields"`
	Odd      []string `json:"odd,omitempty"`
}

// Marshal encodes the edit for the store, as JSON.
func (e *Edit) Marshal() []byte {
	b, err := json.Marshal(keptEdit{e.Subject, e.Author, stamp(e.Observed), e.Type, e.Fields, e.Odd})
	if err != nil { // cannot fail: strings only
		return nil
	}
	return b
}

// UnmarshalEdit decodes what Marshal encoded.
func UnmarshalEdit(b []byte) (*Edit, error) {
	var k keptEdit
	if err := json.Unmarshal(b, &k); err != nil {
		return nil, fmt.Errorf("decode a stored edit: %w", err)
	}
	e := &Edit{Subject: k.Subject, Author: k.Author, Type: k.Type, Fields: k.Fields, Odd: k.Odd}
	if k.Observed != "" {
		t, err := time.Parse(time.RFC3339, k.Observed)
		if err != nil {
			return nil, fmt.Errorf("decode a stored edit of %s: %w", quote(k.Subject), err)
		}
		e.Observed = t.UTC()
	}
	return e, nil
}
