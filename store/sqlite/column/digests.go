package column

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
)

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
