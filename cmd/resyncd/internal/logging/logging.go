// Package logging knows how log lines look, what they may show and which keys they use. It refuses to know who logs
// what, and keeps no logger of its own.
package logging

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/lmittmann/tint"
)

// The attribute keys of all log lines.
const (
	KeySource = "source"
	KeyHub    = "hub" // as URL
	KeyJob    = "job"
	KeyErr    = "err"
)

// Format is how a log line is written.
type Format string

// The formats of --log-format. Text is coloured and short on a terminal.
const (
	FormatText Format = "text"
	FormatJSON Format = "json"
)

// ParseFormat reads the value of --log-format.
func ParseFormat(text string) (Format, error) {
	switch f := Format(text); f {
	case FormatText, FormatJSON:
		return f, nil
	}
	return "", fmt.Errorf("log format %q is not allowed; write text or json", text)
}

// ParseLevel reads the value of --log-level.
func ParseLevel(text string) (level slog.Level, err error) {
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, strings.ToLower(text)) {
		return 0, fmt.Errorf("log level %q is not allowed; write debug, info, warn or error", text)
	}
	err = level.UnmarshalText([]byte(text))
	return level, err
}

// New is a logger that writes lines of at least level to w. On a terminal (tty) text is coloured unless $NO_COLOR is
// set. URLs are shortened as URI does, and nothing that plays tricks on a terminal passes.
func New(w io.Writer, format Format, level slog.Leveler, tty bool) *slog.Logger {
	return slog.New(bounded{handler(w, format, level, tty), new(sync.Map)})
}

func handler(w io.Writer, format Format, level slog.Leveler, tty bool) slog.Handler {
	switch {
	case format == FormatJSON:
		return slog.NewJSONHandler(escaper{w}, &slog.HandlerOptions{Level: level, ReplaceAttr: clean})
	case tty:
		return tint.NewTextHandler(escaper{w}, &tint.Options{
			Level:       level,
			ReplaceAttr: cleanForTint,
			TimeFormat:  "15:04:05",
			NoColor:     os.Getenv("NO_COLOR") != "",
		})
	}
	return slog.NewTextHandler(escaper{w}, &slog.HandlerOptions{Level: level, ReplaceAttr: clean})
}

// clean shortens the URLs in every value, whoever logs it: documents name lists by addresses that carry tokens.
func clean(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(Redact(a.Value.String()))
	case slog.KindAny:
		if err, ok := a.Value.Any().(error); ok {
			a.Value = redacted(err)
		} else if text := a.Value.String(); strings.Contains(text, "://") {
			a.Value = slog.StringValue(Redact(text))
		}
	}
	return a
}

// cleanForTint is clean for tint, which lets terminal sequences through.
func cleanForTint(groups []string, a slog.Attr) slog.Attr {
	a = clean(groups, a)
	switch v := a.Value; v.Kind() {
	case slog.KindString:
		text := noEscape(v.String())
		if len(groups) == 0 && a.Key == slog.MessageKey {
			text = oneLine(text)
		}
		a.Value = slog.StringValue(text)
	case slog.KindAny:
		if _, isLevel := v.Any().(slog.Level); !isLevel {
			a.Value = slog.StringValue(noEscape(v.String()))
		}
	}
	return a
}

// escaper writes invisible characters outside ASCII as \uXXXX: direction overrides, line separators and C1 controls
// reach the terminal else. ASCII is left to the handlers, which write whole lines.
type escaper struct{ w io.Writer }

// Write implements io.Writer; the count is that of p.
func (e escaper) Write(p []byte) (int, error) {
	if !bytes.ContainsFunc(p, suspect) {
		return e.w.Write(p)
	}
	out := make([]byte, 0, len(p)+32)
	for rest := p; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		switch {
		case !suspect(r), r == utf8.RuneError && size > 1: // the character itself
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

func suspect(r rune) bool { return r >= utf8.RuneSelf && !unicode.IsPrint(r) || r == utf8.RuneError }

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
