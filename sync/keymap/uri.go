package keymap

import "strings"

// originOf is the beginning of a URI, its scheme, host and port; "" where it has none, or names a user.
func OriginOf(uri string) string {
	_, _, rest, ok := splitURI(uri)
	if origin := strings.TrimSuffix(uri, rest); ok && !strings.Contains(origin, "@") {
		return origin
	}
	return ""
}

// URIOf is the URI below one of origins that has this natural key, "" where none has it or several may.
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

// pathOf is what a URI has in place of the part of a natural key that follows the host. It cannot be told where a byte is
// escaped that may just as well stand for itself in a URI, nor where the key was cut.
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
			if c := unhex(segment[j+1])<<4 | unhex(segment[j+2]); safeByte(c) || strings.IndexByte(":/?#[]!$&'*;", c) >= 0 {
				return "", false
			}
		}
	}
	return strings.Join(segments, "/"), true
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return lower(c) - 'a' + 10
}
