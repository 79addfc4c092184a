package keymap

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"unicode"

	"resyncd/store"
)

// maxClashes bounds the renames of one URI.
const maxClashes = 64

// Lookup returns the use of names, aligned with them (store.Resources.Names).
type Lookup func(names []string) ([]store.NameUse, error)

// Assign returns mirror keys for new URIs, with a suffix on a clash (contract.md 5, F83); natural may give some natural
// keys. A key is "" if no file can be named for the URI (P11). Keys must be recorded before the next call.
//
// With fold the file system ignores letter case (F82): names are looked up folded.
func Assign(fold bool, uris, natural []string, lookup Lookup) ([]string, error) {
	b := &batch{
		fold: fold, uris: uris, keys: make([]string, len(uris)), open: make([]candidateKey, 0, len(uris)),
		uses: make(map[string]store.NameUse, 2*len(uris)), done: make(map[string]string, len(uris)),
	}
	for i, uri := range uris {
		if i < len(natural) && natural[i] != "" {
			b.open = append(b.open, candidateKey{index: i, natural: natural[i], key: natural[i]})
		} else if key, err := NaturalKey(uri); err == nil {
			b.open = append(b.open, candidateKey{index: i, natural: key, key: key})
		}
	}
	for len(b.open) > 0 {
		if err := b.learn(lookup); err != nil {
			return nil, err
		}
		b.place()
	}
	return b.keys, nil
}

type batch struct {
	fold bool
	uris []string
	keys []string
	open []candidateKey
	uses map[string]store.NameUse // by folded name
	done map[string]string        // URI to key
}

type candidateKey struct {
	index        int
	natural, key string
	attempts     int
}

func (b *batch) folded(name string) string {
	if b.fold {
		return FoldKey(name)
	}
	return name
}

func (b *batch) learn(lookup Lookup) error {
	names := make([]string, 0, len(b.open))
	need := func(name string) {
		name = b.folded(name)
		if _, known := b.uses[name]; !known {
			b.uses[name] = store.NameFree
			names = append(names, name)
		}
	}
	for _, c := range b.open {
		need(c.key)
		for folder := range Folders(c.key) {
			need(folder)
		}
	}
	if len(names) == 0 {
		return nil
	}
	uses, err := lookup(names)
	if err != nil {
		return fmt.Errorf("look up %d names in the mirror: %w", len(names), err)
	}
	if len(uses) != len(names) {
		return fmt.Errorf("look up %d names in the mirror: got %d answers", len(names), len(uses))
	}
	for i, name := range names {
		b.uses[name] = uses[i]
	}
	return nil
}

func (b *batch) place() {
	clashed := b.open[:0]
	for _, c := range b.open {
		uri := b.uris[c.index]
		if key, again := b.done[uri]; again {
			b.keys[c.index] = key
			continue
		}
		component, clash := b.clash(c.key)
		if !clash {
			b.give(uri, c.key)
			b.keys[c.index] = c.key
			continue
		}
		if c.attempts == maxClashes {
			b.done[uri] = "" // an attack
			continue
		}
		// The suffix always goes on the natural key.
		c.key = clashKey(c.natural, uri, component, c.attempts)
		c.attempts++
		clashed = append(clashed, c)
	}
	b.open = clashed
}

// clash returns the component of key that is in the way.
func (b *batch) clash(key string) (component int, clash bool) {
	for folder := range Folders(key) {
		if b.uses[b.folded(folder)] == store.NameFile {
			return component, true
		}
		component++
	}
	return component, b.uses[b.folded(key)] != store.NameFree
}

func (b *batch) give(uri, key string) {
	b.done[uri] = key
	b.uses[b.folded(key)] = store.NameFile
	for folder := range Folders(key) {
		b.uses[b.folded(folder)] = store.NameFolder
	}
}

// clashKey adds "%x" and 8 hex digits of the URI's SHA-256 to one component (contract.md 5), different ones for each
// attempt. An index outside the key means the last component.
func clashKey(key, uri string, component, attempt int) string {
	if attempt > 0 {
		uri += "\x00" + strconv.Itoa(attempt) // no URI contains a NUL byte
	}
	sum := sha256.Sum256([]byte(uri))
	suffix := "%x" + hex.EncodeToString(sum[:clashTail/2-1])

	end := len(key)
	for folder := range Folders(key) {
		if component == 0 {
			end = len(folder)
			break
		}
		component--
	}
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
	for i := range len(key) {
		if key[i] > unicode.MaxASCII {
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
