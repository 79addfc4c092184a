// Package logging knows how log lines look, what they may show and which keys they use. It refuses to know who logs
// what, and keeps no logger of its own.
package logging

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/lmittmann/tint"

	"resyncd/destination/safe"
)

// The attribute keys of all log lines.
const (
	KeySource = "source"
	KeyHub    = "hub" // as URL
	KeyJob    = "job"
	KeyErr    = "err"
)

// ParseLevel reads the value of --log-level.
func ParseLevel(text string) (level slog.Level, err error) {
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, strings.ToLower(text)) {
		return 0, fmt.Errorf("log level %q is not allowed; write debug, info, warn or error", text)
	}
	err = level.UnmarshalText([]byte(text))
	return level, err
}

// New is a logger that writes lines of at least level to w, as JSON or as text. On a terminal (tty) text is short, and
// coloured unless $NO_COLOR is set. URLs are shortened as URI does, and nothing that plays tricks on a terminal passes.
func New(w io.Writer, asJSON bool, level slog.Leveler, tty bool) *slog.Logger {
	safely, options := escaper{w}, &slog.HandlerOptions{Level: level, ReplaceAttr: clean}
	var lines slog.Handler = slog.NewTextHandler(safely, options)
	switch {
	case asJSON:
		lines = slog.NewJSONHandler(safely, options)
	case tty:
		lines = tint.NewTextHandler(safely, &tint.Options{
			Level: level, ReplaceAttr: cleanForTint, TimeFormat: "15:04:05", NoColor: os.Getenv("NO_COLOR") != "",
		})
	}
	return slog.New(bounded{lines, new(sync.Map)})
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

// How often one message may be written.
const (
	repeatsMost = 100 // of one Source
	repeatsIn   = 10 * time.Second
)

// bounded writes a message at most repeatsMost times in a stretch and counts the rest: a flood of notifications, which
// anybody may send, must not fill the disk. Lines at debug are not bounded.
type bounded struct {
	slog.Handler
	seen *sync.Map // of message, *repeats
}

type message struct {
	level slog.Level
	text  string
}

type repeats struct{ since, n atomic.Int64 }

// Handle implements slog.Handler.
func (b bounded) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelInfo {
		return b.Handler.Handle(ctx, r)
	}
	found, _ := b.seen.LoadOrStore(message{r.Level, r.Message}, new(repeats))
	c := found.(*repeats) //nolint:forcetypeassert // nothing else is in it
	now, since := time.Now().UnixNano(), c.since.Load()
	if now-since >= int64(repeatsIn) && c.n.Load() <= repeatsMost && c.since.CompareAndSwap(since, now) {
		c.n.Store(0)
	}
	switch n := c.n.Add(1); {
	case n <= repeatsMost:
		return b.Handler.Handle(ctx, r)
	case n == repeatsMost+1:
		time.AfterFunc(repeatsIn, func() { b.sumUp(c, r.Level, r.Message) })
		return b.about(ctx, r.Level, "lines that say the same are left out for a while", slog.String("message",
			r.Message))
	}
	return nil
}

func (b bounded) sumUp(c *repeats, level slog.Level, text string) {
	c.since.Store(time.Now().UnixNano())
	left := c.n.Swap(0) - repeatsMost
	_ = b.about(context.Background(), level, "lines that said the same were left out", slog.String("message", text),
		slog.Int64("lines", left))
}

func (b bounded) about(ctx context.Context, level slog.Level, text string, attrs ...slog.Attr) error {
	r := slog.NewRecord(time.Now(), level, text, 0)
	r.AddAttrs(attrs...)
	return b.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler. Each Source has a count of its own.
func (b bounded) WithAttrs(attrs []slog.Attr) slog.Handler {
	seen := b.seen
	if slices.ContainsFunc(attrs, func(a slog.Attr) bool { return a.Key == KeySource }) {
		seen = new(sync.Map)
	}
	return bounded{b.Handler.WithAttrs(attrs), seen}
}

// WithGroup implements slog.Handler.
func (b bounded) WithGroup(name string) slog.Handler {
	return bounded{b.Handler.WithGroup(name), b.seen}
}

// URL is a URL that may carry a token anywhere, as a log value: scheme, host and a hash that tells two apart.
type URL string

// LogValue implements slog.LogValuer.
func (u URL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// String is the short form, https://host/#1a2b3c4d5e6f.
func (u URL) String() string {
	if p := parsed(string(u)); p != nil {
		return p.Scheme + "://" + p.Host + "/#" + digest(string(u))
	}
	return "#" + digest(string(u))
}

// URI is the URI of a resource or document as a log value: a hash stands for its query and user, which may carry
// tokens.
type URI string

// LogValue implements slog.LogValuer.
func (u URI) LogValue() slog.Value { return slog.StringValue(u.String()) }

// String is the short form, https://host/path?#1a2b3c4d5e6f, or the whole URI where there is nothing to hide.
func (u URI) String() string {
	p := parsed(string(u))
	if p == nil {
		return "#" + digest(string(u))
	}
	short := p.Scheme + "://" + p.Host + p.EscapedPath()
	switch plain := p.User == nil && p.Fragment == ""; {
	case plain && p.RawQuery == "":
		return short
	case plain && p.RawQuery == "…": // shortened already
		return short + "?…"
	}
	return short + "?#" + digest(string(u))
}

// parsed is nil for what has no host.
func parsed(text string) *url.URL {
	p, err := url.Parse(text)
	if err != nil || p.Host == "" {
		return nil
	}
	return p
}

// digest names a text without telling it.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}

// Err is err under its key.
func Err(err error) slog.Attr { return slog.Any(KeyErr, err) }

// isDigest keeps what is shortened as it is.
func isDigest(fragment string) bool {
	_, err := hex.DecodeString(fragment)
	return err == nil && len(fragment) == 12
}

// anyURL finds URLs within a text: net/http puts whole ones into its errors.
var anyURL = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://[^\s"'<>` + "`" + `]+`)

// Redact shortens every URL within text as URI does, for errors shown outside a log.
func Redact(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	return anyURL.ReplaceAllStringFunc(text, func(found string) string {
		body := strings.TrimRight(found, ".,:;)]}")
		if p, err := url.Parse(body); err == nil && p.User == nil && p.RawQuery == "" &&
			(p.Fragment == "" || isDigest(p.Fragment)) {
			return found
		}
		return URI(body).String() + found[len(body):]
	})
}

// redacted is the text of err with its URLs shortened. A nil pointer as an error must not panic.
func redacted(err error) slog.Value {
	var text string
	if safe.Do(func() error { text = Redact(err.Error()); return nil }) != nil {
		text = fmt.Sprintf("error of type %T that cannot be shown", err)
	}
	return slog.StringValue(text)
}
