// Package logging knows how log lines look, what they may show and which keys they use. It refuses to know who logs
// what, and keeps no logger of its own.
package logging

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/lmittmann/tint"
)

// The attribute keys of all log lines.
const (
	KeySource = "source"
	KeyURI    = "uri" // as URI
	KeyHub    = "hub" // as URL
	KeyJob    = "job"
	KeyEpoch  = "epoch" // of the claim
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
func ParseLevel(text string) (slog.Level, error) {
	switch strings.ToLower(text) {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("log level %q is not allowed; write debug, info, warn or error", text)
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
