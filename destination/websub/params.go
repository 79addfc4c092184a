package websub

import (
	"errors"
	"strings"
	"unicode"
)

// FormType is the media type of every request to a hub.
const FormType = "application/x-www-form-urlencoded"

const (
	maxEncoded = 1 << 20 // of a query or form (P8)
	maxPairs   = 4096
	maxText    = 200 // characters of untrusted text
)

var errTooLong = errors.New("more parameters than anyone needs")

// values are decoded parameters in order.
type values []param

func (v values) get(name string) string {
	s, _ := v.lookup(name)
	return s
}

func (v values) lookup(name string) (string, bool) {
	for _, p := range v {
		if p.name == name {
			return p.value, true
		}
	}
	return "", false
}

// decode is lenient (S-39): only & separates, so that an unescaped ; belongs to its value; an invalid escape stays as
// written.
func decode(raw string) (values, error) {
	if len(raw) > maxEncoded {
		return nil, errTooLong
	}
	var all values
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		if pair == "" {
			continue
		}
		if len(all) == maxPairs {
			return nil, errTooLong
		}
		name, value, _ := strings.Cut(pair, "=")
		all = append(all, param{name: unescape(name), value: unescape(value)})
	}
	return all, nil
}

func unescape(s string) string {
	if !strings.ContainsAny(s, "%+") {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '+':
			b = append(b, ' ')
		case c == '%' && i+2 < len(s) && hexDigit(s[i+1]) >= 0 && hexDigit(s[i+2]) >= 0:
			b = append(b, byte(hexDigit(s[i+1])<<4|hexDigit(s[i+2])))
			i += 2
		default:
			b = append(b, c)
		}
	}
	return string(b)
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// formEncoder leaves empty values out (S-20).
type formEncoder struct{ b strings.Builder }

func (e *formEncoder) add(name, value string) {
	if value == "" {
		return
	}
	if e.b.Len() > 0 {
		e.b.WriteByte('&')
	}
	e.b.WriteString(name)
	e.b.WriteByte('=')
	escapeTo(&e.b, value)
}

// A blank becomes %20, because not every decoder understands +.
func escapeTo(b *strings.Builder, s string) {
	const digits = "0123456789ABCDEF"
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
}

// printable makes untrusted text fit for a log line.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsPrint(r):
			return r
		}
		return unicode.ReplacementChar
	}, shorten(s, 4*maxText))
	return shorten(strings.TrimSpace(s), maxText-1)
}

func shorten(s string, n int) string {
	count := 0
	for i := range s {
		if count == n {
			return s[:i] + "…"
		}
		count++
	}
	return s
}
