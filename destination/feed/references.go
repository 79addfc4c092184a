package feed

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// reference reports whether the '&' just read begins a reference to no character of XML, and drops
// that. Two halves of a UTF-16 pair become their character.
func (in *input) reference() bool {
	r, n := in.charRef(0)
	if n == 0 || xmlChar(r) {
		return false
	}
	if 0xD800 <= r && r < 0xDC00 {
		if low, m := in.charRef(n + 1); m > 0 && 0xDC00 <= low && low < 0xE000 {
			in.pending = utf8.AppendRune(in.scratch[:0], 0x10000+(r-0xD800)<<10+(low-0xDC00))
			n += 1 + m
		}
	}
	_, _ = in.r.Discard(n)
	return true
}

// charRef reads the rest of a character reference, behind its '&', skip bytes ahead; n is 0 for
// none.
func (in *input) charRef(skip int) (r rune, n int) {
	const longest = 12
	b, _ := in.r.Peek(skip + longest)
	if len(b) < skip || skip > 0 && b[skip-1] != '&' {
		return 0, 0
	}
	digits, ok := strings.CutPrefix(string(b[skip:]), "#")
	end := strings.IndexByte(digits, ';')
	if !ok || end < 1 {
		return 0, 0
	}
	base, from := 10, 0
	if digits[0] == 'x' || digits[0] == 'X' {
		base, from = 16, 1
	}
	v, err := strconv.ParseUint(digits[from:end], base, 32)
	if err != nil {
		return 0, 0
	}
	return rune(min(v, utf8.MaxRune+1)), len("#") + end + 1 //nolint:gosec // bounded on this line
}

// xmlChar is the production Char of XML 1.0.
func xmlChar(r rune) bool {
	return r == '\t' || r == '\n' || r == '\r' || ' ' <= r && r <= 0xD7FF || 0xE000 <= r && r <= 0xFFFD ||
		0x10000 <= r && r <= utf8.MaxRune
}
