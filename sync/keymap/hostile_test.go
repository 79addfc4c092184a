package keymap

import (
	"math/rand/v2"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// TestAMillionHostileNames gives a million different URIs, each made to hit another's name or to leave the mirror, their
// keys: no two share a name, no file is a folder, and no key leads out of the mirror, into our own folder or onto a device.
func TestAMillionHostileNames(t *testing.T) {
	t.Parallel()
	n := 200_000
	if millionNames {
		n = 1_000_000
	}
	h := &nameMaker{r: rand.New(rand.NewPCG(7, 7)), seen: make(map[string]bool, n)}
	m := newMirror(false)
	clashes, batch := 0, make([]string, 0, 1000)
	for made := 0; made < n; made += len(batch) {
		for batch = batch[:0]; len(batch) < cap(batch); {
			batch = append(batch, h.next())
		}
		keys, err := Assign(false, batch, nil, m.lookup)
		if err != nil {
			t.Fatal(err)
		}
		for i, key := range keys {
			if key == "" {
				t.Fatalf("%q got no key", batch[i])
			}
			checkKey(t, key)
			if local := filepath.FromSlash(key); !filepath.IsLocal(local) || path.Clean(key) != key {
				t.Fatalf("%q leads out: %q", batch[i], key)
			}
			m.record(t, key) // fails where the name is taken
			if natural, _ := NaturalKey(batch[i]); natural != key {
				clashes++
			}
			h.remember(key)
		}
	}
	t.Logf("%d hostile URIs: 0 collisions, 0 escapes (%d wanted a name that was taken)", n, clashes)
}

// nameMaker makes URIs that are near each other, and some that spell the keys that others got.
type nameMaker struct {
	r    *rand.Rand
	seen map[string]bool
	keys []string // some of those given
}

func (h *nameMaker) pick(from ...string) string { return from[h.r.IntN(len(from))] }

// next is one that was never made before.
func (h *nameMaker) next() string {
	for {
		if uri := h.make(); !h.seen[uri] {
			h.seen[uri] = true
			return uri
		}
	}
}

func (h *nameMaker) make() string {
	scheme := h.pick("http://", "https://", "HTTP://")
	if len(h.keys) > 0 && h.r.IntN(4) == 0 { // what another one got, as a name of its own
		return scheme + h.keys[h.r.IntN(len(h.keys))] + h.pick("", "/", "?", "/x", "%", ".", "%2E", "#")
	}
	var b strings.Builder
	b.WriteString(scheme + h.pick("", "", "u:p@") + h.pick("h", "H", "h.", "h_80", ".resyncd", ".RESYNCD", "con", "[::1]", "..", "%2e%2e", "a\\b"))
	b.WriteString(h.pick("", "", ":", ":80", ":../..", ":%2F"))
	for range 1 + h.r.IntN(9) {
		b.WriteByte('/')
		for range h.r.IntN(3) {
			b.WriteString(h.pick("a", "A", "b", ".", "..", "...", "%2E", "%2e", "%2F", "%5c", "\\", "con", "NUL.txt", "aux", "LPT\u00b9", "\u00e9", "e\u0301", "%C3%A9",
				"%", "%25", "%00", "\x00", "\n", " ", "\xff", "%h", "%x", "%q", "%z", "%index", "%h0123456789abcdef", "%x01234567", ".resyncd", ":", "*", "?", "#", ";", "~",
				"\u202e", "\U0001F4A9", strings.Repeat("l", 181+h.r.IntN(40)), strings.Repeat("%41", 60+h.r.IntN(10)), string(rune('a'+h.r.IntN(26)))))
		}
	}
	if h.r.IntN(40) == 0 {
		b.WriteString(strings.Repeat("/deep", 180+h.r.IntN(40)))
	}
	return b.String()
}

// remember keeps a sample of the keys that were given.
func (h *nameMaker) remember(key string) {
	switch {
	case len(h.keys) < 1000:
		h.keys = append(h.keys, key)
	case h.r.IntN(20) == 0:
		h.keys[h.r.IntN(len(h.keys))] = key
	}
}
