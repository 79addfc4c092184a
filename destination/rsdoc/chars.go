package rsdoc

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

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
func hexDigit(c byte) byte {
	switch low := c | 0x20; {
	case isDigit(c):
		return c - '0'
	case 'a' <= low && low <= 'f':
		return low - 'a' + 10
	}
	return 0xFF
}

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
	n, err := strconv.ParseUint(string(trimSpace(s)), 10, 63)
	if err != nil {
		return -1
	}
	return int64(n)
}

// quote shortens foreign text for a message, so that no peer decides its length.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
}

// split parts a qualified name at its colon, 0 for none.
func split(full []byte, colon int) (prefix, local []byte) {
	if colon == 0 {
		return nil, full
	}
	return full[:colon], full[colon+1:]
}

// name finds the end of the qualified name at i of the token at pos, and its colon, 0 for none. Where b ends in or
// right behind the name, end is len(b).
func (s *scanner) name(b []byte, i int) (end, colon int, err error) {
	from, part := i, i
	wide := false
	for ; i < len(b); i++ {
		switch nameClasses[b[i]] {
		case isNameStart:
			continue
		case isNameRest:
			if i == part {
				return 0, 0, s.errorAt(Malformed, i, "a name that begins with "+quote(string(rune(b[i]))))
			}
			continue
		case isColon:
			if colon > 0 || i == from {
				return 0, 0, s.errorAt(Malformed, i, "a name with a misplaced colon")
			}
			colon, part = i-from, i+1
			continue
		case isWide:
			wide = true
			continue
		}
		break
	}
	if i == len(b) {
		return i, colon, nil
	}
	if i == part {
		return 0, 0, s.errorAt(Malformed, i, "no name where one must be")
	}
	if wide && !(wideName(b[from:max(from, part-1)]) && wideName(b[part:i])) {
		return 0, 0, s.errorAt(Malformed, from, "a name with a character that names cannot have")
	}
	return i, colon, nil
}

const (
	noName = iota
	isNameStart
	isNameRest
	isColon
	isWide // part of a character beyond ASCII
)

var nameClasses = func() (of [256]byte) {
	for c := range of {
		switch c := byte(c); {
		case 'a' <= lower(c) && lower(c) <= 'z', c == '_':
			of[c] = isNameStart
		case isDigit(c), c == '-', c == '.':
			of[c] = isNameRest
		case c == ':':
			of[c] = isColon
		case c >= utf8.RuneSelf:
			of[c] = isWide
		}
	}
	return of
}()

func wideName(b []byte) bool {
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if r >= utf8.RuneSelf && !nameStart(r) && (i == 0 || !nameRest(r)) {
			return false
		}
		i += size
	}
	return true
}

// NameStartChar of XML 1.0 (fifth edition) beyond ASCII.
func nameStart(r rune) bool {
	return 0xC0 <= r && r <= 0x2FF && r != 0xD7 && r != 0xF7 || 0x370 <= r && r <= 0x1FFF && r != 0x37E ||
		r == 0x200C || r == 0x200D || 0x2070 <= r && r <= 0x218F || 0x2C00 <= r && r <= 0x2FEF ||
		0x3001 <= r && r <= 0xD7FF || 0xF900 <= r && r <= 0xFDCF || 0xFDF0 <= r && r <= 0xFFFD ||
		0x10000 <= r && r <= 0xEFFFF
}

// What NameChar adds to nameStart.
func nameRest(r rune) bool {
	return r == 0xB7 || 0x300 <= r && r <= 0x36F || r == 0x203F || r == 0x2040
}

func clip(b []byte) string {
	const most = 60
	if len(b) > most {
		return string(b[:most]) + "…"
	}
	return string(b)
}

// uri is the absolute URI of b: exactly b where it is absolute (identity is the string, F81), else resolved. fault is
// the end of a sentence.
func (r *Reader) uri(b []byte) (uri, fault string) {
	if len(b) == 0 {
		return "", "is empty"
	}
	s := string(b)
	if plainHTTP(s) {
		return s, ""
	}
	u, err := url.Parse(s)
	if err != nil { // servers accept a stray % (contract.md 5)
		u, err = url.Parse(escapeStrayPercent(s))
	}
	switch {
	case err != nil:
		return "", "is no URI"
	case !u.IsAbs() && r.opts.Base == nil:
		return "", "is relative, and there is nothing to resolve it against"
	case !u.IsAbs():
		u = r.opts.Base.ResolveReference(u)
		s = u.String()
	}
	if !u.IsAbs() || (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() == "" {
		return "", "is a URI without scheme or host"
	}
	return s, ""
}

// plainHTTP reports URIs that need no parser. It accepts nothing that url.Parse refuses, and saves its allocation for
// nearly every entry.
func plainHTTP(s string) bool {
	const secure, open = "https://", "http://"
	i := len(open)
	if strings.HasPrefix(s, secure) {
		i = len(secure)
	} else if !strings.HasPrefix(s, open) {
		return false
	}
	host := i
	for i < len(s) && hostChar(s[i]) {
		i++
	}
	if i == host {
		return false
	}
	if i < len(s) && s[i] == ':' {
		port := i + 1
		for i = port; i < len(s) && isDigit(s[i]); i++ {
		}
		if i == port {
			return false
		}
	}
	if i < len(s) && s[i] != '/' && s[i] != '?' {
		return false
	}
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case c == '%':
			if i+2 >= len(s) || hexDigit(s[i+1])|hexDigit(s[i+2]) > 15 {
				return false
			}
			i += 2
		case c <= ' ' || c == 0x7F:
			return false
		}
	}
	return true
}

var percent = regexp.MustCompile("%([0-9A-Fa-f]{2})?")

func escapeStrayPercent(s string) string {
	from := 0
	if _, rest, ok := strings.Cut(s, "//"); ok {
		if from = strings.IndexAny(rest, "/?#"); from < 0 {
			return s
		}
		from += len(s) - len(rest)
	}
	return s[:from] + percent.ReplaceAllStringFunc(s[from:], func(found string) string {
		if found == "%" {
			return "%25"
		}
		return found
	})
}

func hostChar(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || isDigit(c) || c == '.' || c == '-' || c == '_'
}
