package keymap

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clashKey adds "%x" and 8 hex digits of the URI's SHA-256 to one component (contract.md 5), different ones for each
// attempt. An index outside the key means the last component.
func clashKey(key, uri string, component, attempt int) string {
	if attempt > 0 {
		uri += "\x00" + strconv.Itoa(attempt) // no URI contains a NUL byte
	}
	sum := sha256.Sum256([]byte(uri))
	suffix := "%x" + hex.EncodeToString(sum[:clashTail/2-1])

	end := componentEnd(key, component)
	long := len(key)+clashTail > keyLimit
	if !long {
		return key[:end] + suffix + key[end:]
	}
	if end+clashTail <= keyLimit-hashedTail { // the suffix survives the cut
		return string(cut([]byte(key[:end]+suffix+key[end:]), 0, keyLimit))
	}
	// Without room behind the component, the end of the key carries both hashes.
	return string(cut([]byte(key), 0, keyLimit-clashTail)) + suffix
}

func componentEnd(key string, component int) int {
	end := 0
	for ; component >= 0; component-- {
		i := strings.IndexByte(key[end:], '/')
		if i < 0 {
			return len(key)
		}
		end += i
		if component > 0 {
			end++
		}
	}
	if end == 0 { // a negative index
		return len(key)
	}
	return end
}

// Folders iterates over the folders of a key, outermost first.
func Folders(key string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := 0; i < len(key); i++ {
			if key[i] == '/' && !yield(key[:i]) {
				return
			}
		}
	}
}

// FoldKey folds letter case: keys with equal folds are one file on some file systems (F82).
func FoldKey(key string) string {
	for i := 0; i < len(key); i++ {
		if c := key[i]; c >= utf8.RuneSelf {
			return strings.Map(foldRune, key)
		}
	}
	return strings.ToLower(key)
}

// foldRune picks one fixed member of a case set.
func foldRune(r rune) rune {
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	if 'A' <= least && least <= 'Z' {
		least += 'a' - 'A'
	}
	return least
}
