package rsdoc

import (
	"net/url"
	"regexp"
	"strings"
)

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
