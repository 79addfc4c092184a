package destination

import (
	"errors"
	"fmt"
	"strings"
)

// Filter chooses resources by URI globs. Its zero value lets everything pass.
type Filter struct{ include, exclude []*glob }

// NewFilter parses globs, which are compared with the whole URI, byte by byte. A single star stands for any run of
// characters without a slash, two stars for any run; every other character, the question mark too, stands for itself:
//
//	https://a.example/**.pdf    is every PDF of that host,
//	**/tmp/**                   is everything below a folder tmp,
//	https://a.example/*.xml     is only what lies at the top.
func NewFilter(include, exclude []string) (*Filter, error) {
	f := &Filter{}
	for _, list := range []struct {
		name  string
		globs []string
		to    *[]*glob
	}{{"include", include, &f.include}, {"exclude", exclude, &f.exclude}} {
		for _, s := range list.globs {
			g, err := compileGlob(s)
			if err != nil {
				return nil, fmt.Errorf("%s glob %q: %w", list.name, s, err)
			}
			*list.to = append(*list.to, g)
		}
	}
	return f, nil
}

// Passes reports whether an include glob matches, or there is none, and no exclude glob does.
func (f *Filter) Passes(uri string) bool {
	if f == nil {
		return true
	}
	return (len(f.include) == 0 || anyMatch(f.include, uri)) && !anyMatch(f.exclude, uri)
}

func anyMatch(globs []*glob, uri string) bool {
	for _, g := range globs {
		if g.match(uri) {
			return true
		}
	}
	return false
}

const (
	globMax   = 511 // bytes of a glob
	globWords = (globMax + 1) / 64
)

// glob is a pattern as an automaton whose states are the positions in the pattern, a bit each. A match takes time in
// proportion to the URI, whatever a Source writes into it, and no memory.
type glob struct {
	words   int
	literal [256][]uint64 // by byte: the positions that it moves on from
	within  []uint64      // that stay for anything but a slash: *
	across  []uint64      // that stay for anything: **
	start   [globWords]uint64
	last    int
}

func compileGlob(s string) (*glob, error) {
	switch {
	case s == "":
		return nil, errors.New("an empty glob matches nothing")
	case len(s) > globMax:
		return nil, fmt.Errorf("longer than %d bytes", globMax)
	case !strings.Contains(s, "**") && !strings.Contains(s, "/"):
		return nil, errors.New("matches no URI, because * does not match a slash: begin with the scheme or with **")
	}
	type item struct {
		c     byte
		stars int
	}
	var items []item
	for i := range len(s) {
		if n := len(items); s[i] == '*' && n > 0 && items[n-1].stars > 0 {
			items[n-1].stars = 2
			continue
		}
		it := item{c: s[i]}
		if s[i] == '*' {
			it.stars = 1
		}
		items = append(items, it)
	}
	g := &glob{last: len(items), words: len(items)/64 + 1}
	g.within, g.across = make([]uint64, g.words), make([]uint64, g.words)
	none := make([]uint64, g.words)
	for c := range g.literal {
		g.literal[c] = none
	}
	for i, it := range items {
		word, bit := i/64, uint64(1)<<(i%64)
		switch it.stars {
		case 1:
			g.within[word] |= bit
		case 2:
			g.across[word] |= bit
		default:
			if &g.literal[it.c][0] == &none[0] {
				g.literal[it.c] = make([]uint64, g.words)
			}
			g.literal[it.c][word] |= bit
		}
	}
	g.start[0] = 1
	g.skipStars(&g.start)
	return g, nil
}

func (g *glob) match(s string) bool {
	at := g.start
	for i := range len(s) {
		moves := g.literal[s[i]]
		var carry, alive uint64
		for w := range g.words {
			stay := g.across[w]
			if s[i] != '/' {
				stay |= g.within[w]
			}
			now := at[w]
			on := now & moves[w]
			at[w] = on<<1 | carry | now&stay
			carry = on >> 63
			alive |= at[w]
		}
		if alive == 0 {
			return false
		}
		g.skipStars(&at)
	}
	return at[g.last/64]&(1<<(g.last%64)) != 0
}

// A star may match nothing; two never stand side by side.
func (g *glob) skipStars(at *[globWords]uint64) {
	var carry uint64
	for w := range g.words {
		on := at[w] & (g.within[w] | g.across[w])
		at[w] |= on<<1 | carry
		carry = on >> 63
	}
}
