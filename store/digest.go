package store

import "strings"

// DigestsAgree compares two lists of digests by the strongest algorithm that both have. known is
// false if they have none in common.
func DigestsAgree(a, b string) (agree, known bool) {
	for token := range strings.FieldsSeq(a) {
		alg, _, _ := strings.Cut(token, ":")
		if other := digestBy(b, alg); other != "" {
			return other == token, true
		}
	}
	return false, false
}

// digestBy is the digest of an algorithm in a list, "" for none.
func digestBy(list, alg string) string {
	for token := range strings.FieldsSeq(list) {
		if len(token) > len(alg) && token[len(alg)] == ':' && token[:len(alg)] == alg {
			return token
		}
	}
	return ""
}
