package keymap

import (
	"fmt"

	"resyncd/store"
)

// maxClashes bounds how often one URI is renamed. Each clash after the first needs another partial hash collision.
const maxClashes = 64

// Lookup tells how names are used in the mirror, aligned with names (store.Resources.Names).
type Lookup func(names []string) ([]store.NameUse, error)

// Assigner gives mirror keys to new URIs: the natural key, or on a clash the natural key with a suffix (contract.md 5,
// F83). It never gives one name twice, nor a file a name that is a folder, nor the other way round. It is for one goroutine.
type Assigner struct {
	fold bool
	last batch // whose memory the next one uses again
}

// NewAssigner returns an Assigner. fold says that the mirror's file system ignores letter case (F82): then names are
// looked up folded, as FoldKey does.
func NewAssigner(fold bool) *Assigner { return &Assigner{fold: fold} }

// AssignNamed returns keys for URIs that have none yet, aligned with uris. On a clash the later URI gets the suffix; a URI that
// occurs twice gets one key. A key is "" for a URI that no file can be named for, which fails nobody else (P11): see
// NaturalKey. The keys must be recorded before the next call, which learns of them through its lookup. The lookup is
// called once, and again only for the suffixed names of what clashed. AssignNamed fails where the lookup fails. natural
// gives some natural keys, aligned with uris, "" for that of the URI.
func (a *Assigner) AssignNamed(uris, natural []string, lookup Lookup) ([]string, error) {
	b := a.batch(uris)
	defer b.forget()
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

// keepNames is for how many URIs the memory of a call is kept for the next.
const keepNames = 2_000

// batch is one call of Assign.
type batch struct {
	fold bool
	uris []string
	keys []string
	open []candidateKey
	need []string                 // names that are to be looked up
	uses map[string]store.NameUse // how names are used, by folded name: as looked up, then as given
	done map[string]string        // URI to key
}

// candidateKey is the key that a URI is to get if its names are free.
type candidateKey struct {
	index        int
	natural, key string
	attempts     int
}

func (a *Assigner) batch(uris []string) *batch {
	b := &a.last
	if n := len(uris); b.uses == nil || n > keepNames {
		b = &batch{
			fold: a.fold, open: make([]candidateKey, 0, n), need: make([]string, 0, n), uses: make(map[string]store.NameUse, 2*n),
			done: make(map[string]string, n),
		}
		if n <= keepNames {
			a.last = *b
			b = &a.last
		}
	}
	b.uris, b.keys = uris, make([]string, len(uris))
	return b
}

// forget leaves nothing of a call but its memory.
func (b *batch) forget() {
	clear(b.open[:cap(b.open)])
	clear(b.need[:cap(b.need)])
	clear(b.uses)
	clear(b.done)
	b.uris, b.keys, b.open, b.need = nil, nil, b.open[:0], b.need[:0]
}

func (b *batch) folded(name string) string {
	if b.fold {
		return FoldKey(name)
	}
	return name
}

// learn looks up the names that the open candidates need and that are not known yet.
func (b *batch) learn(lookup Lookup) error {
	names := b.need[:0]
	defer func() { b.need = names }()
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

// place gives keys to the candidates whose names are free, in order, and renames the others.
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
			b.done[uri] = "" // somebody spent 2^38 hashes on this
			continue
		}
		// Always from the natural key: a suffix that is taken is replaced by the next one.
		c.key = clashKey(c.natural, uri, component, c.attempts)
		c.attempts++
		clashed = append(clashed, c)
	}
	b.open = clashed
}

// clash returns the component of key that is in the way, if any: an ancestor that is a file, or a last component that is
// a file or a folder.
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
