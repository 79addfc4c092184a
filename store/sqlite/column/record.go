package column

import (
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"resyncd/store"
)

// ErrDamaged says that a packed record cannot be read.
var ErrDamaged = errors.New("a packed record is damaged")

// The packed records: fields one after another, numbers as varints, strings behind their length. A new field goes to
// the end, where its absence in an older record reads as zero; nothing else ever changes.

// PackFile packs the fields of a Have that SQL does not query: all but State and Length.
func PackFile(h *store.Have) []byte { return pack(h, (*packed).file) }

// IntoFile reads what PackFile wrote; NULL leaves h as it is.
func IntoFile(h *store.Have) sql.Scanner { return &scanner[store.Have]{to: h, fields: (*packed).file} }

func (p *packed) file(h *store.Have) {
	p.raw(h.SHA256[:])
	p.int(&h.ModTime)
	p.micros(&h.Version.From)
	p.micros(&h.Version.Until)
	p.int(&h.Version.Ordinal)
	p.int(&h.Version.Document)
	p.micros(&h.Fetched)
	p.string(&h.ETag)
	p.string(&h.LastModified)
	p.string(&h.Type)
	p.digests(&h.Checked)
}

// PackFailure packs a Work without Action and Due.
func PackFailure(w *store.Work) []byte { return pack(w, (*packed).failure) }

// IntoFailure reads what PackFailure wrote; NULL leaves w as it is.
func IntoFailure(w *store.Work) sql.Scanner {
	return &scanner[store.Work]{to: w, fields: (*packed).failure}
}

func (p *packed) failure(w *store.Work) {
	attempts, class := int64(w.Attempts), store.WithCause(w.Class, w.Cause)
	p.int(&attempts)
	p.micros(&w.Since)
	p.string(&class)
	p.string(&w.Reason)
	if p.reading {
		w.Attempts = int(attempts)
		w.Class, w.Cause = store.CutCause(class)
	}
}

// PackWant packs the fields of a Want that SQL does not query, and whether it is pushed, so that it
// reads the same without the column.
func PackWant(w *store.Want) []byte { return pack(w, (*packed).want) }

// IntoWant reads what PackWant wrote; NULL leaves w as it is.
func IntoWant(w *store.Want) sql.Scanner { return &scanner[store.Want]{to: w, fields: (*packed).want} }

// want ends with the marks of a special want, and behind them the documents' want and the meta, each behind its length.
func (p *packed) want(w *store.Want) {
	p.said(w)
	listed, meta := w.Listed != nil, w.Meta != ""
	p.marks(&w.Pushed, &listed, &w.Inline, &meta)
	if listed {
		p.nested(w)
	}
	if meta {
		p.string(&w.Meta)
	}
}

// said is what every want says, special or not.
func (p *packed) said(w *store.Want) {
	p.int(&w.Version.Ordinal)
	p.int(&w.Version.Document)
	p.int(&w.Length)
	p.micros(&w.LastMod)
	p.bool(&w.Settled)
	p.string(&w.Type)
	p.string(&w.Links)
	p.digests(&w.Digests)
}

// nested is the documents' want of a pushed one, as a record of its own.
func (p *packed) nested(w *store.Want) {
	if !p.reading {
		text := string(pack(w.Listed, (*packed).listed))
		p.string(&text)
		return
	}
	inner := packed{reading: true}
	p.string(&inner.rest)
	w.Listed = &store.Want{}
	inner.listed(w.Listed)
	p.bad = p.bad || inner.bad
}

// listed is a whole want without columns. The documents' want is never itself pushed.
func (p *packed) listed(w *store.Want) {
	p.int(&w.SetID)
	p.byte((*byte)(&w.State))
	p.bool(&w.Held)
	p.micros(&w.Version.From)
	p.micros(&w.Version.Until)
	p.int(&w.Generation)
	p.string(&w.Refused)
	p.said(w)
	if p.reading || w.Inline || w.Meta != "" {
		p.bool(&w.Inline)
		p.string(&w.Meta)
	}
}

func pack[T any](record *T, fields func(*packed, *T)) []byte {
	p := packed{out: make([]byte, 0, 128)}
	fields(&p, record)
	return p.out
}

// scanner reads a packed record from a column. It holds the reader, which would be an allocation for each record.
type scanner[T any] struct {
	to     *T
	fields func(*packed, *T)
	p      packed
}

func (s *scanner[T]) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		return nil
	case []byte:
		s.p = packed{rest: string(v), reading: true}
	default:
		return fmt.Errorf("%w: it is a %T", ErrDamaged, v)
	}
	if s.fields(&s.p, s.to); s.p.bad {
		return ErrDamaged
	}
	return nil
}

// packed passes over the fields of a record, and reads each or writes it. The strings read share one copy of the
// record. Fields beyond its end are zero; a cut or invalid one makes it bad.
type packed struct {
	out     []byte
	rest    string
	reading bool
	bad     bool
}

func (p *packed) int(n *int64) {
	if p.reading {
		*n = signed(p.uint())
	} else {
		p.out = binary.AppendVarint(p.out, *n)
	}
}

// micros is 0 for no instant, and one more than a number elsewhere.
func (p *packed) micros(m *store.Micros) {
	switch {
	case !p.reading && *m == store.NoTime:
		p.out = append(p.out, 0)
	case !p.reading:
		p.out = binary.AppendUvarint(p.out, (uint64(*m)<<1^uint64(*m>>63))+1)
	default:
		*m = store.NoTime
		if x := p.uint(); x > 0 {
			*m = store.Micros(signed(x - 1))
		}
	}
}

func signed(x uint64) int64 { return int64(x>>1) ^ -int64(x&1) }

func (p *packed) string(s *string) {
	if p.reading {
		*s = p.take(p.uint())
		return
	}
	p.out = append(binary.AppendUvarint(p.out, uint64(len(*s))), *s...)
}

func (p *packed) raw(b []byte) {
	if p.reading {
		copy(b, p.take(uint64(len(b))))
		return
	}
	p.out = append(p.out, b...)
}

func (p *packed) byte(b *byte) {
	if !p.reading {
		p.out = append(p.out, *b)
		return
	}
	if *b = 0; p.rest != "" {
		*b, p.rest = p.rest[0], p.rest[1:]
	}
}

func (p *packed) bool(is *bool) {
	b := byte(Flag(*is))
	if p.byte(&b); p.reading {
		*is = b != 0
	}
}

// marks are bits of one byte, which is left out at the end of a record without any.
func (p *packed) marks(marks ...*bool) {
	var bits byte
	for i, is := range marks {
		bits |= byte(Flag(*is)) << i
	}
	if p.reading || bits != 0 {
		p.byte(&bits)
	}
	for i, is := range marks {
		if p.reading {
			*is = bits&(1<<i) != 0
		}
	}
}

func (p *packed) uint() uint64 {
	var x uint64
	for i := 0; i < len(p.rest) && i < binary.MaxVarintLen64; i++ {
		c := p.rest[i]
		x |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			p.rest = p.rest[i+1:]
			return x
		}
	}
	p.bad = p.bad || p.rest != ""
	p.rest = ""
	return 0
}

// take cuts n bytes off; "" if nothing is left.
func (p *packed) take(n uint64) string {
	if n > uint64(len(p.rest)) {
		p.bad = p.bad || p.rest != "" || n > 0
		p.rest = ""
		return ""
	}
	s := p.rest[:n]
	p.rest = p.rest[n:]
	return s
}

// algorithm is a digest that is kept as bytes instead of hex, which halves it. Its index in the
// list is on disk: append only.
type algorithm struct {
	prefix string
	size   int
}

func algorithms() [5]algorithm {
	return [5]algorithm{{"md5:", 16}, {"sha-1:", 20}, {"sha-256:", 32}, {"sha-384:", 48}, {"sha-512:", 64}}
}

// digests packs "alg:hex alg:hex": a count and, for each, its number and bytes. Text that
// would not come back unchanged is kept as it is behind a count of 255.
func (p *packed) digests(text *string) {
	if p.reading {
		*text = p.readDigests()
	} else {
		p.out = appendDigests(p.out, *text)
	}
}

func appendDigests(b []byte, s string) []byte {
	if s == "" {
		return append(b, 0)
	}
	start := len(b)
	b = append(b, 0)
	for token := range strings.SplitSeq(s, " ") {
		packed, ok := appendDigest(b, token)
		if !ok || packed[start] == 254 {
			b = append(b[:start], 255)
			return append(binary.AppendUvarint(b, uint64(len(s))), s...)
		}
		b = packed
		b[start]++
	}
	return b
}

func appendDigest(b []byte, token string) ([]byte, bool) {
	for i, a := range algorithms() {
		sum, ok := strings.CutPrefix(token, a.prefix)
		if !ok {
			continue
		}
		if len(sum) != 2*a.size {
			return b, false
		}
		// Hex that is not lower case would come back changed.
		packed, err := hex.AppendDecode(append(b, byte(i)), []byte(sum))
		return packed, err == nil && !strings.ContainsAny(sum, "ABCDEF")
	}
	return b, false
}

func (p *packed) readDigests() (text string) {
	var count, n byte
	p.byte(&count)
	switch count {
	case 0:
		return ""
	case 255:
		p.string(&text)
		return text
	}
	var out []byte
	known := algorithms()
	for i := range int(count) {
		p.byte(&n)
		if int(n) >= len(known) || len(p.rest) < known[n].size {
			p.bad = true
			return ""
		}
		if i > 0 {
			out = append(out, ' ')
		}
		out = append(out, known[n].prefix...)
		out = hex.AppendEncode(out, []byte(p.take(uint64(known[n].size))))
	}
	return string(out)
}
