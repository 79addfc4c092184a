// Package keymap knows which name in the mirror a URI gets, and which URI a name may stand for; it refuses to know
// files and rows.
package keymap

import (
	"errors"
	"strings"
)

// The limits of a mirror key (contract.md 5, F84). A suffix and a hash may exceed segmentLimit, but stay below 255
// bytes.
const (
	keyLimit     = 1024
	segmentLimit = 200
	// hashedTail is the length of "%h" and 16 digits, clashTail of "%x" and 8.
	hashedTail = 2 + 16
	clashTail  = 2 + 8
)

// reservedRoot is our own folder in a mirror.
const reservedRoot = ".resyncd"

// ErrNoKey does not quote the URI, which may carry secrets (P10).
var ErrNoKey = errors.New("not an absolute http or https URI with a host")

// NaturalKey is the mirror key of a URI as written, never decoded (contract.md 5, F80, F81): host[_port]/path,
// percent-encoded. Our own marks ("%index", "%q", "%z", "%h", "%x") are no valid escapes, so no URI can spell them.
func NaturalKey(uri string) (string, error) {
	host, port, rest, ok := splitURI(uri)
	if !ok {
		return "", ErrNoKey
	}
	var array [512]byte // saves an allocation
	b := appendHost(array[:0], host, port)

	path, query, fragment := splitRest(rest)
	leaf := strings.TrimPrefix(path, "/")
	for {
		segment, after, more := strings.Cut(leaf, "/")
		if !more {
			break
		}
		leaf = after
		b = append(b, '/')
		start := len(b)
		b = appendSegment(b, segment)
		b = shorten(b, start)
	}
	b = append(b, '/')
	start := len(b)
	if leaf == "" {
		b = append(b, "%index"...)
	} else {
		b = appendSegment(b, leaf)
	}
	if query != "" {
		b = append(b, "%q"...)
		b = appendEscaped(b, query[1:], false)
	}
	b = appendEscaped(b, fragment, false)
	b = escapeTrailingDots(b, start)
	b = shorten(b, start)
	if len(b) > keyLimit {
		b = cut(b, 0, keyLimit)
	}
	return string(b), nil
}

// splitURI leaves out user info, which must not reach a file name (P10).
func splitURI(uri string) (host, port, rest string, ok bool) {
	i := strings.Index(uri, "://")
	if i < 0 || !strings.EqualFold(uri[:i], "http") && !strings.EqualFold(uri[:i], "https") {
		return "", "", "", false
	}
	host = uri[i+3:]
	if i := strings.IndexAny(host, "/?#"); i >= 0 {
		host, rest = host[:i], host[i:]
	}
	host = host[strings.LastIndexByte(host, '@')+1:]
	// A colon inside the brackets of IPv6 begins no port.
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host, port = host[:i], host[i+1:]
	}
	return host, port, rest, host != ""
}

func splitRest(rest string) (path, query, fragment string) {
	path = rest
	if i := strings.IndexByte(path, '#'); i >= 0 {
		path, fragment = path[:i], path[i:]
	}
	if i := strings.IndexByte(path, '?'); i >= 0 {
		path, query = path[:i], path[i:]
	}
	return path, query, fragment
}

// appendHost lower-cases the host, so that one host has one folder.
func appendHost(b []byte, host, port string) []byte {
	if strings.EqualFold(host, reservedRoot) {
		b = append(b, "%2E"...)
		host = host[1:]
	} else if reservedName(host) {
		b = appendHex(b, lower(host[0]))
		host = host[1:]
	}
	start := len(b)
	b = appendEscaped(b, host, true)
	b = escapeTrailingDots(b, start)
	if port != "" {
		b = append(b, '_')
		b = appendEscaped(b, port, true)
		b = escapeTrailingDots(b, start)
	}
	return shorten(b, 0)
}

// appendSegment applies the rules of all systems, for the same tree everywhere (F85).
func appendSegment(b []byte, segment string) []byte {
	if segment == "" {
		return append(b, "%z"...)
	}
	start := len(b)
	if reservedName(segment) {
		b = appendHex(b, segment[0])
		segment = segment[1:]
	}
	b = appendEscaped(b, segment, false)
	return escapeTrailingDots(b, start)
}

// RecordLeaf ends the names of records (contract.md 5).
const (
	entryLeaf   = ".xml"
	RecordLeaf  = ".json"
	recordsName = "records/"
)

// EntryKey is the natural key of a feed's entry. It fails with ErrNoKey.
func EntryKey(feedURL, id string) (string, error) { return inlineKey(feedURL, "", id, entryLeaf) }

// RecordKey is that of a record.
func RecordKey(feedURL, subject string) (string, error) {
	return inlineKey(feedURL, recordsName, subject, RecordLeaf)
}

// inlineKey escapes an id as one component, slashes included.
func inlineKey(feedURL, below, id, leaf string) (string, error) {
	own, err := NaturalKey(feedURL)
	if err != nil {
		return "", err
	}
	b := append([]byte(strings.TrimSuffix(own, "/%index")), '/')
	b = append(b, below...)
	start := len(b)
	b = appendSegment(b, id)
	if len(b)-start > segmentLimit-len(leaf) {
		b = cut(b, start, segmentLimit-len(leaf))
	}
	if over := len(b) + len(leaf) - keyLimit; over > 0 {
		b = cut(b, 0, keyLimit-len(leaf))
	}
	return string(append(b, leaf...)), nil
}
