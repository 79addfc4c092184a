package column

import (
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"

	"resyncd/store"
)

// ErrDamaged says that a packed record cannot be read.
var ErrDamaged = errors.New("a packed record is damaged")

// The packed records: fields one after another, numbers as varints, strings behind their length. A new field goes to
// the end, where its absence in an older record reads as zero; nothing else ever changes.

func putMicros(b []byte, m store.Micros) []byte {
	if m == store.NoTime {
		return append(b, 0)
	}
	return binary.AppendUvarint(b, (uint64(m)<<1^uint64(m>>63))+1)
}

func putString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// PackFile packs the fields of a Have that SQL does not query: all but State and Length.
func PackFile(h *store.Have) []byte {
	b := make([]byte, 0, 96+len(h.ETag)+len(h.LastModified)+len(h.Type)+len(h.Checked))
	b = append(b, h.SHA256[:]...)
	b = binary.AppendVarint(b, h.ModTime)
	b = putMicros(b, h.Version.From)
	b = putMicros(b, h.Version.Until)
	b = binary.AppendVarint(b, h.Version.Ordinal)
	b = binary.AppendVarint(b, h.Version.Document)
	b = putMicros(b, h.Fetched)
	b = putString(b, h.ETag)
	b = putString(b, h.LastModified)
	b = putString(b, h.Type)
	return appendDigests(b, h.Checked)
}

// IntoFile reads what PackFile wrote; NULL leaves h as it is.
func IntoFile(h *store.Have) sql.Scanner { return fileScanner{h} }

type fileScanner struct{ h *store.Have }

func (f fileScanner) Scan(v any) error {
	u, known, err := newUnpacker(v)
	if !known {
		return err
	}
	h := f.h
	u.raw(h.SHA256[:])
	h.ModTime = u.int()
	h.Version.From, h.Version.Until = u.micros(), u.micros()
	h.Version.Ordinal, h.Version.Document = u.int(), u.int()
	h.Fetched = u.micros()
	h.ETag, h.LastModified, h.Type = u.string(), u.string(), u.string()
	h.Checked = u.digests()
	return u.err()
}

// PackFailure packs a Work without Action and Due.
func PackFailure(w *store.Work) []byte {
	b := binary.AppendVarint(make([]byte, 0, 64), int64(w.Attempts))
	b = putMicros(b, w.Since)
	b = putString(b, store.WithCause(w.Class, w.Cause))
	return putString(b, w.Reason)
}

// IntoFailure reads what PackFailure wrote; NULL leaves w as it is.
func IntoFailure(w *store.Work) sql.Scanner { return failureScanner{w} }

type failureScanner struct{ w *store.Work }

func (f failureScanner) Scan(v any) error {
	u, known, err := newUnpacker(v)
	if !known {
		return err
	}
	f.w.Attempts = int(u.int())
	f.w.Since = u.micros()
	f.w.Class, f.w.Cause = store.CutCause(u.string())
	f.w.Reason = u.string()
	return u.err()
}

// Bits that a special want adds to the end of its data; with dataListed and dataMeta, in this
// order, follow the documents' want and the meta, each behind its length.
const dataPushed, dataListed, dataInline, dataMeta = 1, 2, 4, 8

// PackWant packs the fields of a Want that SQL does not query, and whether it is pushed, so that it
// reads the same without the column.
func PackWant(w *store.Want) []byte {
	b := appendWant(make([]byte, 0, 96), w)
	bits := byte(Flag(w.Pushed))*dataPushed | byte(Flag(w.Listed != nil))*dataListed |
		byte(Flag(w.Inline))*dataInline | byte(Flag(w.Meta != ""))*dataMeta
	if bits == 0 {
		return b
	}
	b = append(b, bits)
	if w.Listed != nil {
		b = putString(b, string(appendListed(nil, w.Listed)))
	}
	if w.Meta != "" {
		b = putString(b, w.Meta)
	}
	return b
}

func appendWant(b []byte, w *store.Want) []byte {
	b = binary.AppendVarint(b, w.Version.Ordinal)
	b = binary.AppendVarint(b, w.Version.Document)
	b = binary.AppendVarint(b, w.Length)
	b = putMicros(b, w.LastMod)
	b = append(b, byte(Flag(w.Settled)))
	b = putString(b, w.Type)
	b = putString(b, w.Links)
	return appendDigests(b, w.Digests)
}

// IntoWant reads what PackWant wrote; NULL leaves w as it is.
func IntoWant(w *store.Want) sql.Scanner { return wantScanner{w} }

type wantScanner struct{ w *store.Want }

func (s wantScanner) Scan(v any) error {
	u, known, err := newUnpacker(v)
	if !known {
		return err
	}
	u.wantFields(s.w)
	bits := u.byte()
	s.w.Pushed, s.w.Inline = bits&dataPushed != 0, bits&dataInline != 0
	if bits&dataListed != 0 {
		listed := unpacker{rest: u.string()}
		s.w.Listed = listed.listed()
		u.bad = u.bad || listed.bad
	}
	if bits&dataMeta != 0 {
		s.w.Meta = u.string()
	}
	return u.err()
}

// appendListed packs a whole want without columns. The documents' want is never itself pushed.
func appendListed(b []byte, w *store.Want) []byte {
	b = binary.AppendVarint(b, w.SetID)
	b = append(b, byte(w.State), byte(Flag(w.Held)))
	b = putMicros(b, w.Version.From)
	b = putMicros(b, w.Version.Until)
	b = binary.AppendVarint(b, w.Generation)
	b = putString(b, w.Refused)
	b = appendWant(b, w)
	if w.Inline || w.Meta != "" {
		b = putString(append(b, byte(Flag(w.Inline))), w.Meta)
	}
	return b
}

func (u *unpacker) listed() *store.Want {
	w := &store.Want{SetID: u.int(), State: store.WantState(u.byte()), Held: u.byte() != 0}
	w.Version.From, w.Version.Until = u.micros(), u.micros()
	w.Generation = u.int()
	w.Refused = u.string()
	u.wantFields(w)
	w.Inline, w.Meta = u.byte() != 0, u.string()
	return w
}

// wantFields reads what appendWant wrote.
func (u *unpacker) wantFields(w *store.Want) {
	w.Version.Ordinal, w.Version.Document = u.int(), u.int()
	w.Length = u.int()
	w.LastMod = u.micros()
	w.Settled = u.byte() != 0
	w.Type, w.Links = u.string(), u.string()
	w.Digests = u.digests()
}

// unpacker reads a packed record. Its strings share one copy of it. Fields beyond its end are zero;
// a cut or invalid field sets err.
type unpacker struct {
	rest string
	bad  bool
}

// newUnpacker makes an unpacker, known is false for NULL. It returns a value, because a pointer
// would be an allocation for each record.
func newUnpacker(v any) (u unpacker, known bool, err error) {
	switch v := v.(type) {
	case nil:
		return unpacker{}, false, nil
	case []byte:
		return unpacker{rest: string(v)}, true, nil
	default:
		return unpacker{}, false, fmt.Errorf("%w: it is a %T", ErrDamaged, v)
	}
}

func (u *unpacker) err() error {
	if u.bad {
		return ErrDamaged
	}
	return nil
}

func (u *unpacker) uint() uint64 {
	var x uint64
	for i := 0; i < len(u.rest) && i < binary.MaxVarintLen64; i++ {
		c := u.rest[i]
		x |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			u.rest = u.rest[i+1:]
			return x
		}
	}
	u.bad = u.bad || u.rest != ""
	u.rest = ""
	return 0
}

func (u *unpacker) int() int64 {
	x := u.uint()
	return int64(x>>1) ^ -int64(x&1)
}

func (u *unpacker) micros() store.Micros {
	x := u.uint()
	if x == 0 {
		return store.NoTime
	}
	x--
	return store.Micros(int64(x>>1) ^ -int64(x&1))
}

func (u *unpacker) byte() byte {
	if u.rest == "" {
		return 0
	}
	c := u.rest[0]
	u.rest = u.rest[1:]
	return c
}

// take cuts n bytes off; "" if nothing is left.
func (u *unpacker) take(n uint64) string {
	if n > uint64(len(u.rest)) {
		u.bad = u.bad || u.rest != "" || n > 0
		u.rest = ""
		return ""
	}
	s := u.rest[:n]
	u.rest = u.rest[n:]
	return s
}

func (u *unpacker) raw(to []byte) { copy(to, u.take(uint64(len(to)))) }

func (u *unpacker) string() string { return u.take(u.uint()) }
