package logging

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// escaper writes invisible characters outside ASCII as \uXXXX: direction overrides, line separators and C1 controls
// reach the terminal else. ASCII is left to the handlers, which write whole lines.
type escaper struct{ w io.Writer }

// Write implements io.Writer; the count is that of p.
func (e escaper) Write(p []byte) (int, error) {
	first := indexHidden(p)
	if first < 0 {
		return e.w.Write(p)
	}
	out := append(make([]byte, 0, len(p)+32), p[:first]...)
	for rest := p[first:]; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		switch {
		case !hiddenRune(r, size):
			out = append(out, rest[:size]...)
		case r >= 0x10000:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default: // no UTF-8
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		rest = rest[size:]
	}
	if n, err := e.w.Write(out); err != nil {
		return min(n, len(p)), err
	}
	return len(p), nil
}

func indexHidden(p []byte) int {
	for i := 0; i < len(p); {
		if p[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRune(p[i:])
		if hiddenRune(r, size) {
			return i
		}
		i += size
	}
	return -1
}

func hiddenRune(r rune, size int) bool {
	return r >= utf8.RuneSelf && !unicode.IsPrint(r) || r == utf8.RuneError && size == 1
}

// oneLine escapes what would leave the line or drive the terminal.
func oneLine(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return text
	}
	quoted := strconv.Quote(text)
	return quoted[1 : len(quoted)-1]
}

// noEscape takes the escape character out of text, and its written form, which tint turns back into the character.
func noEscape(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\x1b", "\u241b"), `\x1b`, `\x1B`)
}
