package keymap

import (
	"strconv"
	"strings"
)

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
