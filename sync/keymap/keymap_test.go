package keymap

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"resyncd/store"
)

// TestNaturalKey holds the sentences of contract.md 5.
func TestNaturalKey(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	tests := []struct{ name, uri, want string }{
		{"plain", "https://lib.example/a/b.pdf", "lib.example/a/b.pdf"},
		{"port", "http://lib.example:8080/a", "lib.example_8080/a"},
		{"default port is kept", "http://lib.example:80/a", "lib.example_80/a"},
		{"empty port", "http://lib.example:/a", "lib.example/a"},
		{"scheme and host case", "HTTP://LIB.Example/A", "lib.example/A"},
		{"host root", "http://h/", "h/%index"},
		{"no path", "http://h", "h/%index"},
		{"no path, query", "http://h?a=1", "h/%index%qa=1"},
		{"folder", "http://h/a/", "h/a/%index"},
		{"empty segments", "http://h//a//b//", "h/%z/a/%z/b/%z/%index"},
		{"dot segments", "http://h/a/./../b", "h/a/%2E/%2E%2E/b"},
		{"more dots", "http://h/.../a.", "h/%2E%2E%2E/a%2E"},
		{"inner dots", "http://h/..a/a.b", "h/..a/a.b"},
		{"escapes stay", "http://h/%2e%2E/%c3%A9", "h/%2e%2E/%c3%A9"},
		{"slash escape is no slash", "http://h/a%2Fb", "h/a%2Fb"},
		{"stray percent", "http://h/100%/%zz/%4", "h/100%25/%25zz/%254"},
		{"unsafe bytes", "http://h/a b:c*d\\e\x00é\xff", "h/a%20b%3Ac%2Ad%5Ce%00%C3%A9%FF"},
		{"safe bytes", "http://h/AZaz09-_.~+,=@()x", "h/AZaz09-_.~+,=@()x"},
		{"query", "http://h/a?b=c/d&e?f", "h/a%qb=c%2Fd%26e%3Ff"},
		{"empty query", "http://h/a?", "h/a%q"},
		{"query ends in dot", "http://h/a?b.", "h/a%qb%2E"},
		{"folder with query", "http://h/a/?b", "h/a/%index%qb"},
		{"fragment", "http://h/a#b/c", "h/a%23b%2Fc"},
		{"query and fragment", "http://h/a?q#f?g", "h/a%qq%23f%3Fg"},
		{"user info never shows", "http://user:secret@h/a", "h/a"},
		{"IPv6", "http://[::1]/a", "%5B%3A%3A1%5D/a"},
		{"IPv6 and port", "http://[2001:DB8::1]:8080/a", "%5B2001%3Adb8%3A%3A1%5D_8080/a"},
		{"reserved", "http://h/CON/nul.txt/Com1/lpt9.a.b", "h/%43ON/%6Eul.txt/%43om1/%6Cpt9.a.b"},
		{"reserved superscript", "http://h/LPT¹/com²", "h/%4CPT%C2%B9/%63om%C2%B2"},
		{"reserved console", "http://h/CONIN$/conout$", "h/%43ONIN%24/%63onout%24"},
		{"not reserved", "http://h/CONS/nulx/com0/com10/xcon", "h/CONS/nulx/com0/com10/xcon"},
		{"reserved host", "http://aux.example/a", "%61ux.example/a"},
		{"host ends in dot", "http://h.example.:80/a", "h.example%2E_80/a"},
		{"our own folder", "http://.resyncd/trash", "%2Eresyncd/trash"},
		{"our own folder, other case", "http://.ReSyncd/trash", "%2Eresyncd/trash"},
		{"our own name below the root", "http://h/.resyncd/x", "h/.resyncd/x"},
		{"long segment", "http://h/" + long + "/a", "h/" + long[:182] + "%h0d4e2ca9e9cbced7/a"},
	}
	for _, tt := range tests {
		got, err := NaturalKey(tt.uri)
		if err != nil || got != tt.want {
			t.Errorf("%s: NaturalKey(%q) = %q, %v; want %q", tt.name, tt.uri, got, err, tt.want)
		}
	}
	for _, uri := range []string{"", "a", "/a", "ftp://h/a", "file:///etc/passwd", "http:/h/a", "http:///a", "http://:80/", "http://u@/", "://h/a", "urn:x:y", "http//h"} {
		if key, err := NaturalKey(uri); err == nil {
			t.Errorf("NaturalKey(%q) = %q, want an error", uri, key)
		}
	}
}

func TestNaturalKeyLimits(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for n := 0; n < 1200; n += 3 {
		for _, uri := range []string{
			"http://h/" + strings.Repeat("a/", n) + "b",
			"http://h/" + strings.Repeat("%41", n),
			"http://h/" + strings.Repeat("é/", n),
			"http://h/a?" + strings.Repeat("%", n),
			"http://" + strings.Repeat("h", n+1) + "/c",
		} {
			key, err := NaturalKey(uri)
			if err != nil {
				t.Fatal(err)
			}
			checkKey(t, key)
			if other, ok := seen[key]; ok && other != uri {
				t.Fatalf("%q and %q share %q", other, uri, key)
			}
			seen[key] = uri
		}
	}
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkKey holds what every key must be, whatever the URI.
func checkKey(t fataler, key string) {
	t.Helper()
	if len(key) > keyLimit {
		t.Fatalf("key of %d bytes: %q", len(key), key)
	}
	parts := strings.Split(key, "/")
	if len(parts) < 2 {
		t.Fatalf("key without a folder: %q", key)
	}
	for i, p := range parts {
		switch {
		case p == "", len(p) > 255, strings.HasSuffix(p, "."), reservedName(p), i == 0 && strings.EqualFold(p, reservedRoot):
			t.Fatalf("bad component %q of %q", p, key)
		}
		for j := range len(p) {
			if !safeByte(p[j]) && p[j] != '%' {
				t.Fatalf("unsafe byte %q in %q", p[j], key)
			}
		}
	}
}

// genURI draws URIs that are near each other, to make clashes of every kind.
func genURI() *rapid.Generator[string] {
	part := rapid.SampledFrom([]string{
		"a", "b", "A", "a.", ".", "..", "%2E", "%2e", "", "con", "nul.txt", "é", "%C3%A9", "%", "%25", "%h0", "%x00000000", "%index",
		"%q", "%z", " ", "\x00", "\xff", "LPT¹", ".resyncd", strings.Repeat("z", 199), strings.Repeat("%41", 80), "\\", ":",
	})
	return rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		b.WriteString(rapid.SampledFrom([]string{"http", "https", "HTTP"}).Draw(t, "scheme"))
		b.WriteString("://")
		b.WriteString(rapid.SampledFrom([]string{"", "u:p@", "a@"}).Draw(t, "user"))
		b.WriteString(rapid.SampledFrom([]string{"h", "H", "h.", ".resyncd", "[::1]", "con", "h_80"}).Draw(t, "host"))
		b.WriteString(rapid.SampledFrom([]string{"", ":", ":80", ":8080"}).Draw(t, "port"))
		for range rapid.IntRange(0, 8).Draw(t, "depth") {
			b.WriteString("/" + part.Draw(t, "part"))
		}
		if rapid.IntRange(0, 3).Draw(t, "rest") == 0 {
			b.WriteString(rapid.SampledFrom([]string{"?", "#"}).Draw(t, "mark") + part.Draw(t, "text"))
		}
		return b.String()
	})
}

// mirror is the names that a store would know.
type mirror struct {
	fold bool
	uses map[string]store.NameUse
}

func newMirror(fold bool) *mirror { return &mirror{fold: fold, uses: map[string]store.NameUse{}} }

func (m *mirror) lookup(names []string) ([]store.NameUse, error) {
	out := make([]store.NameUse, len(names))
	for i, n := range names {
		out[i] = m.uses[n]
	}
	return out, nil
}

// record adds a file and fails if its names are not free.
func (m *mirror) record(t fataler, key string) {
	t.Helper()
	name := func(n string) string {
		if m.fold {
			return FoldKey(n)
		}
		return n
	}
	if u := m.uses[name(key)]; u != store.NameFree {
		t.Fatalf("%q is taken (%d)", key, u)
	}
	m.uses[name(key)] = store.NameFile
	for folder := range Folders(key) {
		if m.uses[name(folder)] == store.NameFile {
			t.Fatalf("folder %q of %q is a file", folder, key)
		}
		m.uses[name(folder)] = store.NameFolder
	}
}

// TestAssignInjective: whatever the URIs and batches, no two share a name and no file is a folder.
func TestAssignInjective(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newMirror(rapid.Bool().Draw(t, "fold"))
		keys := map[string]string{}
		uris := rapid.SliceOfN(genURI(), 1, 80).Draw(t, "uris")
		for len(uris) > 0 {
			n := rapid.IntRange(1, len(uris)).Draw(t, "batch")
			var fresh []string
			for _, u := range uris[:n] {
				if keys[u] == "" {
					fresh = append(fresh, u)
				}
			}
			uris = uris[n:]
			got, err := Assign(m.fold, fresh, nil, m.lookup)
			if err != nil {
				t.Fatal(err)
			}
			for i, u := range fresh {
				if keys[u] != "" {
					if keys[u] != got[i] {
						t.Fatalf("%q got %q and %q", u, keys[u], got[i])
					}
					continue
				}
				checkKey(t, got[i])
				keys[u] = got[i]
				m.record(t, got[i])
			}
		}
	})
}

// TestAssignMany is TestAssignInjective for a hundred thousand URIs.
func TestAssignMany(t *testing.T) {
	t.Parallel()
	uris := make([]string, 100_000)
	for i := range uris {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		pick := func(from ...string) string { return from[r.IntN(len(from))] }
		uris[i] = pick("http", "https") + "://" + pick("h", "H", "h.", "h:80", "h_80")
		for range r.IntN(7) {
			uris[i] += "/" + pick("a", "b", "A", "a.", "..", "%2E%2E", "", "con", "é", "%C3%A9", "%25", "%", "c?q", "d#f")
		}
	}
	slices.Sort(uris)
	uris = slices.Compact(uris)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(uris), func(i, j int) { uris[i], uris[j] = uris[j], uris[i] })
	for _, fold := range []bool{false, true} {
		m := newMirror(fold)
		for batch := range slices.Chunk(uris, 1000) {
			keys, err := Assign(fold, batch, nil, m.lookup)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range keys {
				checkKey(t, k)
				m.record(t, k)
			}
		}
	}
}

// TestAssignOrder: where nothing clashes the key is the natural one, whatever the order.
func TestAssignOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		uris := rapid.SliceOfNDistinct(genURI(), 1, 20, rapid.ID[string]).Draw(t, "uris")
		natural := newMirror(false)
		for _, u := range uris {
			k, _ := NaturalKey(u)
			if natural.uses[k] != store.NameFree {
				return
			}
			for f := range Folders(k) {
				if natural.uses[f] == store.NameFile {
					return
				}
			}
			natural.record(t, k)
		}
		shuffled := rapid.Permutation(uris).Draw(t, "order")
		got, err := Assign(false, shuffled, nil, newMirror(false).lookup)
		if err != nil {
			t.Fatal(err)
		}
		for i, u := range shuffled {
			if k, _ := NaturalKey(u); k != got[i] {
				t.Fatalf("%q got %q, want %q", u, got[i], k)
			}
		}
	})
}
