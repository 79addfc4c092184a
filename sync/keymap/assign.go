package keymap

import (
	"fmt"

	"resyncd/store"
)

// maxClashes bounds the renames of one URI.
const maxClashes = 64

// Lookup returns the use of names, aligned with them (store.Resources.Names).
type Lookup func(names []string) ([]store.NameUse, error)

// Assigner gives mirror keys to new URIs, with a suffix on a clash (contract.md 5, F83). It is for one goroutine.
type Assigner struct {
	fold bool
	last batch // memory for the next call
}

// NewAssigner returns an Assigner. With fold it looks names up folded (FoldKey), because the file system ignores letter
// case (F82).
func NewAssigner(fold bool) *Assigner { return &Assigner{fold: fold} }

// AssignNamed returns keys for new URIs, aligned with uris; natural may give some natural keys. A key is "" if no file
// can be named for the URI (P11), and the keys must be recorded before the next call.
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

// keepNames bounds the memory kept between calls.
const keepNames = 2_000

type batch struct {
	fold bool
	uris []string
	keys []string
	open []candidateKey
	need []string
	uses map[string]store.NameUse // by folded name
	done map[string]string        // URI to key
}

type candidateKey struct {
	index        int
	natural, key string
	attempts     int
}

func (a *Assigner) batch(uris []string) *batch {
	b := &a.last
	if n := len(uris); b.uses == nil || n > keepNames {
		b = &batch{
			fold: a.fold, open: make([]candidateKey, 0, n), need: make([]string, 0, n),
			uses: make(map[string]store.NameUse, 2*n),
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
