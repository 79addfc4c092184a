package websub

import (
	"encoding/hex"
	"errors"
	"net/url"
	"regexp"
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

var escape = regexp.MustCompile("%[0-9A-Fa-f]{2}")

func unescape(s string) string {
	return escape.ReplaceAllStringFunc(strings.ReplaceAll(s, "+", " "), func(found string) string {
		b, err := hex.DecodeString(found[1:])
		if err != nil {
			return found
		}
		return string(b)
	})
}

// encode leaves empty values out (S-20). A blank becomes %20, because not every decoder understands +.
func (v values) encode() string {
	var pairs []string
	for _, p := range v {
		if p.value != "" {
			pairs = append(pairs, p.name+"="+strings.ReplaceAll(url.QueryEscape(p.value), "+", "%20"))
		}
	}
	return strings.Join(pairs, "&")
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
