package logging

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strings"

	"resyncd/destination/safe"
)

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
