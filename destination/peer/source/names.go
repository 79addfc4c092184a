package source

import (
	"mime"
	"net/url"
	"path"
	"strings"
)

const upperHex = "0123456789ABCDEF"

// escapeName makes the path of a URI from a name. It escapes what a client, a proxy or a file system might treat as
// special (F80, F81).
func escapeName(name string) string {
	b := make([]byte, 0, len(name))
	for i := range len(name) {
		if c := name[i]; plainByte(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return string(b)
}

func plainByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("/-._~+,=@()", c) >= 0
}

// requestName is the name that a request asks for. Escaped slashes, empty segments, dots and NUL are refused.
func requestName(u *url.URL) (string, bool) {
	p, ok := strings.CutPrefix(u.EscapedPath(), "/")
	if !ok {
		return "", false
	}
	segments := strings.Split(p, "/")
	for i, s := range segments {
		s, err := url.PathUnescape(s)
		if err != nil || !validSegment(s) {
			return "", false
		}
		segments[i] = s
	}
	return strings.Join(segments, "/"), true
}

func validSegment(s string) bool {
	return s != "" && s != "." && s != ".." && !strings.ContainsAny(s, "/\x00")
}

func validName(name string) bool {
	for s := range strings.SplitSeq(name, "/") {
		if !validSegment(s) {
			return false
		}
	}
	return !reservedName(name)
}

// reserved reports the names that no resource of this Source can have.
func (s *Source) reserved(name string) bool {
	return reservedName(name) ||
		s.recordFeed != nil && (name == recordFeed || strings.HasPrefix(name, recordFeedArchive))
}

// reservedName reports the names of the Source's own documents.
func reservedName(name string) bool {
	return name == wellKnown || name == documents || strings.HasPrefix(name, documents+"/")
}

// mediaType guesses from the name; made-up resources are text. It has no parameters, which the schema of rs:md does not
// allow [6].
func (s *Source) mediaType(name string) string {
	if s.options.Synthetic != nil {
		return "text/plain"
	}
	if t, _, _ := strings.Cut(mime.TypeByExtension(path.Ext(name)), ";"); t != "" {
		return t
	}
	return "application/octet-stream"
}
