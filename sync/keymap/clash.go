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

// clashKey is key with "%x" and 8 hex digits of the URI's SHA-256 added to one component, counted from 0; an index
// outside the key means the last one (contract.md 5). The result keeps the limits of NaturalKey.
// The suffix is another one for each attempt, for the URI whose suffixed name is taken as well.
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
	// So close to the limit that there is no room behind the component: the end of the key carries both hashes.
	return string(cut([]byte(key), 0, keyLimit-clashTail)) + suffix
}

// componentEnd is where the component with that index ends in key.
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

// Folders iterates over the folders that hold the file of that key, outermost first.
func Folders(key string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := 0; i < len(key); i++ {
			if key[i] == '/' && !yield(key[:i]) {
				return
			}
		}
	}
}

// FoldKey is what a file system that ignores letter case makes of a key: two keys are one file there if their folded
// forms are equal (F82). Our keys are ASCII; other names (files found on disk) are folded rune by rune.
func FoldKey(key string) string {
	for i := 0; i < len(key); i++ {
		if c := key[i]; c >= utf8.RuneSelf {
			return strings.Map(foldRune, key)
		}
	}
	return strings.ToLower(key)
}

// foldRune is one fixed member of the set of runes that differ in case only, a lower-case ASCII letter where there is
// one.
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
