// Package keymap knows which name in the mirror a URI gets, and which URI a name may stand for; it refuses to know
// files and rows.
package keymap

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
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

const upperHex = "0123456789ABCDEF"

// The safe bytes A-Z a-z 0-9 - _ . ~ + , = @ ( ) as two bit sets: bytes 0 to 63 and 64 to 127.
const (
	safeLow  = 0x3ff<<'0' | 1<<'-' | 1<<'.' | 1<<'+' | 1<<',' | 1<<'=' | 1<<'(' | 1<<')'
	safeHigh = 0x3ffffff<<('A'-64) | 0x3ffffff<<('a'-64) | 1<<('_'-64) | 1<<('~'-64) | 1<<('@'-64)
)

func safeByte(c byte) bool {
	switch {
	case c < 64:
		return uint64(safeLow)>>c&1 != 0
	case c < 128:
		return uint64(safeHigh)>>(c-64)&1 != 0
	}
	return false
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

func appendHex(b []byte, c byte) []byte { return append(b, '%', upperHex[c>>4], upperHex[c&15]) }

// appendEscaped encodes unsafe bytes and keeps valid escapes as they stand.
func appendEscaped(b []byte, text string, toLower bool) []byte {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case safeByte(c):
			if toLower {
				c = lower(c)
			}
			b = append(b, c)
		case c == '%' && i+2 < len(text) && isHex(text[i+1]) && isHex(text[i+2]):
			b = append(b, text[i:i+3]...)
			i += 2
		default:
			b = appendHex(b, c)
		}
	}
	return b
}

// escapeTrailingDots encodes the dots at the end, which Windows drops.
func escapeTrailingDots(b []byte, start int) []byte {
	end := start + len(bytes.TrimRight(b[start:], "."))
	return append(b[:end], strings.Repeat("%2E", len(b)-end)...)
}

// reservedNames are the device names of Windows.
var reservedNames = strings.Fields("con prn aux nul conin$ conout$ com1 com2 com3 com4 com5 com6 com7 com8 com9 " +
	"com¹ com² com³ lpt1 lpt2 lpt3 lpt4 lpt5 lpt6 lpt7 lpt8 lpt9 lpt¹ lpt² lpt³")

func reservedName(name string) bool {
	stem, _, _ := strings.Cut(name, ".")
	if len(stem) < len("con") || len(stem) > len("conout$") || strings.IndexByte("acnlpACNLP", stem[0]) < 0 {
		return false // as nearly all are
	}
	return slices.ContainsFunc(reservedNames, func(r string) bool { return strings.EqualFold(r, stem) })
}

func shorten(b []byte, start int) []byte {
	if len(b)-start <= segmentLimit {
		return b
	}
	return cut(b, start, segmentLimit)
}

// cut keeps the beginning and adds "%h" and a hash of the whole. It cuts no escape in two.
func cut(b []byte, start, limit int) []byte {
	sum := sha256.Sum256(b[start:])
	end := start + limit - hashedTail
	for back := 1; back <= 2; back++ {
		if b[end-back] == '%' {
			end -= back
			break
		}
	}
	b = append(b[:end], "%h"...)
	return hex.AppendEncode(b, sum[:8])
}

// OriginOf is the scheme, host and port of a URI, "" if there is none or it names a user.
func OriginOf(uri string) string {
	_, _, rest, ok := splitURI(uri)
	if origin := strings.TrimSuffix(uri, rest); ok && !strings.Contains(origin, "@") {
		return origin
	}
	return ""
}

// URIOf is the only URI below origins with this natural key, else "".
func URIOf(origins []string, key string) (uri string) {
	path, ok := "", false
	for _, origin := range origins {
		host, port, _, _ := splitURI(origin)
		rest, below := strings.CutPrefix(key, string(appendHost(nil, host, port))+"/")
		if !below {
			continue
		}
		if path, ok = pathOf(rest); !ok || uri != "" { // http and https have one key
			return ""
		}
		uri = origin + "/" + path
	}
	if natural, err := NaturalKey(uri); err != nil || natural != key {
		return ""
	}
	return uri
}

// pathOf is the path of a natural key; false if the key was cut or an escaped byte may stand raw in a URI.
func pathOf(key string) (string, bool) {
	segments := strings.Split(key, "/")
	leaf := &segments[len(segments)-1]
	if *leaf == "%index" {
		*leaf = ""
	}
	*leaf = strings.Replace(*leaf, "%q", "?", 1)
	for i, segment := range segments {
		if segment == "%z" {
			segments[i] = ""
			continue
		}
		for j := 0; j < len(segment); j++ {
			if segment[j] != '%' {
				continue
			}
			if j+2 >= len(segment) || !isHex(segment[j+1]) || !isHex(segment[j+2]) {
				return "", false
			}
			c, _ := strconv.ParseUint(segment[j+1:j+3], 16, 8)
			if safeByte(byte(c)) || strings.IndexByte(":/?#[]!$&'*;", byte(c)) >= 0 {
				return "", false
			}
		}
	}
	return strings.Join(segments, "/"), true
}
