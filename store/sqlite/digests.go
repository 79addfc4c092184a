package sqlite

import (
	"encoding/binary"
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

// appendDigests packs "alg:hex alg:hex": a count and, for each, its number and bytes. Text that
// would not come back unchanged is kept as it is behind a count of 255.
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
		b = append(b, byte(i))
		var bad byte
		for j := 0; j < len(sum); j += 2 {
			high, low := nibbles[sum[j]], nibbles[sum[j+1]]
			bad |= high | low
			b = append(b, high<<4|low)
		}
		return b, bad < 16
	}
	return b, false
}

// nibbles are the values of lower-case hexadecimal digits, 0xff for any other byte. It is a table
// that is checked only at the end, because branches on random digits are mispredicted half the
// time.
const nibbles = notHex16 + notHex16 + notHex16 + "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\xff\xff\xff\xff\xff\xff" +
	notHex16 + notHex16 + "\xff\x0a\x0b\x0c\x0d\x0e\x0f\xff\xff\xff\xff\xff\xff\xff\xff\xff" + notHex16 +
	notHex16 + notHex16 + notHex16 + notHex16 + notHex16 + notHex16 + notHex16 + notHex16

const notHex16 = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"

// digests reads what appendDigests wrote.
func (u *unpacker) digests() string {
	count := u.byte()
	switch count {
	case 0:
		return ""
	case 255:
		return u.string()
	}
	var buf [160]byte
	out := buf[:0]
	known := algorithms()
	for i := range int(count) {
		n := int(u.byte())
		if n >= len(known) || len(u.rest) < known[n].size {
			u.bad = true
			return ""
		}
		if i > 0 {
			out = append(out, ' ')
		}
		out = append(out, known[n].prefix...)
		sum := u.take(uint64(known[n].size))
		for j := range len(sum) {
			const digits = "0123456789abcdef"
			out = append(out, digits[sum[j]>>4], digits[sum[j]&15])
		}
	}
	return string(out)
}
