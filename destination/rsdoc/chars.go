package rsdoc

import "strconv"

// text lets the small parsers read callers' strings and bytes of the scanner's window without copying.
type text interface{ ~string | ~[]byte }

func isSpace(c byte) bool {
	return c <= ' ' && (c == ' ' || c == '\n' || c == '\t' || c == '\r')
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

func trimSpace[T text](s T) T {
	i, j := 0, len(s)
	for i < j && isSpace(s[i]) {
		i++
	}
	for i < j && isSpace(s[j-1]) {
		j--
	}
	return s[i:j]
}

// hexDigit is above 15 for anything else.
func hexDigit(c byte) byte { return hexValues[c] }

// hexValues is a constant, so that nothing can change the table.
const hexValues = no16 + no16 + no16 + "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09" + no6 +
	"\xff\x0a\x0b\x0c\x0d\x0e\x0f" + no9 + no16 + "\xff\x0a\x0b\x0c\x0d\x0e\x0f" + no9 + no16 +
	no16 + no16 + no16 + no16 + no16 + no16 + no16 + no16

const (
	no3  = "\xff\xff\xff"
	no6  = no3 + no3
	no9  = no6 + no3
	no16 = no9 + no6 + "\xff"
)

// foldEqual compares s with want, which is in lower case, in ASCII.
func foldEqual[T text](s T, want string) bool {
	if len(s) != len(want) {
		return false
	}
	for i := range len(want) {
		if lower(s[i]) != want[i] {
			return false
		}
	}
	return true
}

// parseLength is -1 for anything but a decimal number [7].
func parseLength[T text](s T) int64 {
	s = trimSpace(s)
	if len(s) == 0 {
		return -1
	}
	const last = (1<<63 - 1) / 10
	var n int64
	for i := range len(s) {
		d := int64(s[i]) - '0'
		if d < 0 || d > 9 || n > last || n == last && d > 7 {
			return -1
		}
		n = n*10 + d
	}
	return n
}

// quote shortens foreign text for a message, so that no peer decides its length.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
}
