package plan

import (
	"encoding/binary"
	"errors"

	"resyncd/store"
	"resyncd/sync/spill"
)

// A packed entry is its URI (the record's key) and its Candidate: strings behind their lengths, numbers as varints. No
// later run reads the form.

var errPacked = errors.New("not as it was written")

// pack appends the record of a baseline entry.
func pack(b []byte, e *Entry) []byte {
	c := &e.Cand
	b = spill.AppendKey(b, e.URI)
	b = append(b, byte(c.State))
	b = append(b, bit(e.Trusted)|bit(e.Hinted)<<1)
	for _, n := range [...]int64{
		int64(c.Version.From), int64(c.Version.Until), c.Version.Ordinal, c.Version.Document, c.Length,
		int64(c.LastMod),
	} {
		b = binary.AppendVarint(b, n)
	}
	for _, s := range [...]string{c.Digests, c.Type, c.Links} {
		b = spill.AppendKey(b, s)
	}
	return b
}

func bit(set bool) byte {
	if set {
		return 1
	}
	return 0
}

// unpack reads a record. All strings share one allocation.
func unpack(record []byte) (Entry, error) {
	u := unpacker{whole: string(record), rest: record}
	e := Entry{Baseline: true, URI: u.string()}
	c := &e.Cand
	c.State = store.WantState(u.byte())
	flags := u.byte()
	e.Trusted, e.Hinted = flags&1 != 0, flags&2 != 0
	c.Version = store.Version{From: store.Micros(u.int()), Until: store.Micros(u.int()), Ordinal: u.int(),
		Document: u.int()}
	c.Length, c.LastMod = u.int(), store.Micros(u.int())
	c.Digests, c.Type, c.Links = u.string(), u.string(), u.string()
	if u.bad || len(u.rest) > 0 {
		return Entry{}, errPacked
	}
	return e, nil
}

// unpacker returns zero values after the first missing part.
type unpacker struct {
	whole string
	rest  []byte
	bad   bool
}

func (u *unpacker) skip(n int) {
	if n <= 0 || n > len(u.rest) {
		u.bad, n = true, len(u.rest)
	}
	u.rest = u.rest[n:]
}

func (u *unpacker) byte() (b byte) {
	if len(u.rest) > 0 {
		b = u.rest[0]
	}
	u.skip(1)
	return b
}

func (u *unpacker) int() int64 {
	n, w := binary.Varint(u.rest)
	u.skip(w)
	return n
}

func (u *unpacker) string() string {
	n, w := binary.Uvarint(u.rest)
	u.skip(w)
	if u.bad || n > uint64(len(u.rest)) {
		u.bad = true
		return ""
	}
	at := len(u.whole) - len(u.rest)
	u.rest = u.rest[n:]
	return u.whole[at : at+int(n)]
}
