package logging

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
)

// URL is a URL that may carry a token anywhere (callbacks, hubs, topics), as a log value: scheme, host and a hash by
// which two lines can be matched. It is made only if the line is written.
type URL string

// LogValue implements slog.LogValuer.
func (u URL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// String is the short form, https://host/#1a2b3c4d5e6f.
func (u URL) String() string {
	p, err := url.Parse(string(u))
	if err != nil || p.Host == "" {
		return "#" + digest(string(u))
	}
	return p.Scheme + "://" + p.Host + "/#" + digest(string(u))
}

// URI is the URI of a resource or document as a log value: its path tells the operator which one it is, so only what
// commonly carries tokens, the query and the user, is replaced by a hash.
type URI string

// LogValue implements slog.LogValuer.
func (u URI) LogValue() slog.Value { return slog.StringValue(u.String()) }

// String is the short form, https://host/path?#1a2b3c4d5e6f; without query and user it is the whole URI.
func (u URI) String() string {
	p, err := url.Parse(string(u))
	if err != nil || p.Host == "" {
		return "#" + digest(string(u))
	}
	short := p.Scheme + "://" + p.Host + p.EscapedPath()
	if p.User == nil && p.RawQuery == "" && p.Fragment == "" {
		return short
	}
	if p.User == nil && p.RawQuery == "…" && p.Fragment == "" { // shortened already (fetch.RedactURL)
		return short + "?…"
	}
	return short + "?#" + digest(string(u))
}

// digest names a text without telling it: 48 bits of its SHA-256.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}

// Err is err under its key.
func Err(err error) slog.Attr { return slog.Any(KeyErr, err) }

// isDigest reports whether a fragment is what digest gives, so that what is shortened stays as it is.
func isDigest(fragment string) bool {
	_, err := hex.DecodeString(fragment)
	return err == nil && len(fragment) == 12
}

// anyURL finds URLs within a text; net/http and net/url put whole ones into their errors (go-notes, net/http client).
var anyURL = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://[^\s"'<>` + "`" + `]+`)

// Redact shortens every URL within text as URI does. It is for errors shown outside a log: on stderr, in reports and
// in pages.
func Redact(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	return anyURL.ReplaceAllStringFunc(text, func(found string) string {
		body := strings.TrimRight(found, ".,:;)]}") // the sentence's, not the URL's
		if p, err := url.Parse(body); err == nil && p.User == nil && p.RawQuery == "" &&
			(p.Fragment == "" || isDigest(p.Fragment)) {
			return found // as it stands, whatever its path is made of
		}
		return URI(body).String() + found[len(body):]
	})
}

// redacted is the text of err with its URLs shortened; a nil pointer in an error's clothes is no reason to panic.
func redacted(err error) (v slog.Value) {
	defer func() {
		if p := recover(); p != nil {
			v = slog.StringValue(fmt.Sprintf("error of type %T that cannot be shown", err))
		}
	}()
	return slog.StringValue(Redact(err.Error()))
}
