package keymap

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/fuzztest"
	"resyncd/store"
)

// suffixOf is "%x" and the 8 hex digits for a URI.
func suffixOf(uri string) string { return clashKey("k", uri, 0, 0)[1:] }

func TestAssignClashes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		fold bool
		have []string // keys in the mirror
		uris []string
		want []string // with $ for the suffix of its URI
	}{
		{"file against folder", false, []string{"h/a/b"}, []string{"http://h/a"}, []string{"h/a$"}},
		{"folder against file", false, []string{"h/a"}, []string{"http://h/a/b", "http://h/a/c"}, []string{"h/a$/b", "h/a$/c"}},
		{"both new, file first", false, nil, []string{"http://h/a", "http://h/a/b"}, []string{"h/a", "h/a$/b"}},
		{"both new, folder first", false, nil, []string{"http://h/a/b", "http://h/a"}, []string{"h/a/b", "h/a$"}},
		{"deep ancestor", false, []string{"h/a/b"}, []string{"http://h/a/b/c/d"}, []string{"h/a/b$/c/d"}},
		{"http and https", false, nil, []string{"http://h/a", "https://h/a"}, []string{"h/a", "h/a$"}},
		{"dots against escaped dots", false, nil, []string{"http://h/../a", "http://h/%2E%2E/a"}, []string{"h/%2E%2E/a", "h/%2E%2E/a$"}},
		{"case, exact file system", false, nil, []string{"http://h/A", "http://h/a"}, []string{"h/A", "h/a"}},
		{"case, folding file system", true, nil, []string{"http://h/A", "http://h/a"}, []string{"h/A", "h/a$"}},
		{"case of a folder, folding", true, []string{"h/Readme"}, []string{"http://h/README/x"}, []string{"h/README$/x"}},
		{"folders that fold are one", true, []string{"h/Doc/x"}, []string{"http://h/doc/y"}, []string{"h/doc/y"}},
		{"the same URI twice", false, []string{"h/a"}, []string{"http://h/a", "http://h/a"}, []string{"h/a$", "h/a$"}},
		{"no key", false, nil, []string{"urn:x", "http://h/a"}, []string{"", "h/a"}},
	}
	for _, tt := range tests {
		m := newMirror(tt.fold)
		for _, k := range tt.have {
			m.record(t, k)
		}
		got, err := Assign(tt.fold, tt.uris, nil, m.lookup)
		if err != nil {
			t.Fatal(err)
		}
		want := slices.Clone(tt.want)
		for i := range want {
			want[i] = strings.ReplaceAll(want[i], "$", suffixOf(tt.uris[i]))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestAssignSuffixTaken: even the suffixed name may be taken; the lookup is then asked again, and one URI that somebody
// blocked for good fails nobody else.
func TestAssignSuffixTaken(t *testing.T) {
	t.Parallel()
	m := newMirror(false)
	m.record(t, "h/a")
	m.record(t, clashKey("h/a", "https://h/a", 1, 0))
	calls := 0
	got, err := Assign(false, []string{"https://h/a", "http://h/b"}, nil, func(n []string) ([]store.NameUse, error) {
		calls++
		return m.lookup(n)
	})
	if err != nil || got[0] == "" || got[1] != "h/b" || calls != 3 {
		t.Fatalf("got %q, %v after %d lookups", got, err, calls)
	}
	m.record(t, got[0])

	all := func(n []string) ([]store.NameUse, error) {
		out := make([]store.NameUse, len(n))
		for i := range n {
			if strings.HasPrefix(n[i], "h/a") {
				out[i] = store.NameFile
			}
		}
		return out, nil
	}
	got, err = Assign(false, []string{"https://h/a", "http://h/b"}, nil, all)
	if diff := cmp.Diff([]string{"", "h/b"}, got); diff != "" || err != nil {
		t.Fatalf("%v\n%s", err, diff)
	}
}

func TestAssignLookupFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	if _, err := Assign(false, []string{"http://h/a"}, nil, func([]string) ([]store.NameUse, error) {
		return nil, broken
	}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if _, err := Assign(false, []string{"http://h/a"}, nil, func([]string) ([]store.NameUse, error) {
		return nil, nil
	}); err == nil {
		t.Error("a short answer was taken")
	}
}

func TestClashKeyLimits(t *testing.T) {
	t.Parallel()
	for n := 480; n < 520; n++ {
		key, err := NaturalKey("http://h/" + strings.Repeat("a/", n) + "bc")
		if err != nil {
			t.Fatal(err)
		}
		for component := -1; component <= n+3; component++ {
			got := clashKey(key, "http://h/x", component, 0)
			checkKey(t, got)
			parts, was := strings.Split(got, "/"), strings.Split(key, "/")
			at := component
			if at < 0 || at >= len(was) {
				at = len(was) - 1
			}
			if at < len(parts) && strings.Join(parts[:at+1], "/") == strings.Join(was[:at+1], "/") {
				t.Fatalf("component %d of %q still stands in %q", component, key, got)
			}
		}
	}
	if got, want := clashKey("h/a/b", "http://h/a/b", 1, 0), "h/a"+suffixOf("http://h/a/b")+"/b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFoldKey(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{{"A/b%C3", "a/B%c3"}, {"É", "é"}, {"K", "\u212a"}, {"ſ", "S"}, {"Σς", "σΣ"}} {
		if FoldKey(pair[0]) != FoldKey(pair[1]) {
			t.Errorf("%q and %q differ", pair[0], pair[1])
		}
	}
	if FoldKey("a") == FoldKey("b") || FoldKey("é") == FoldKey("e") {
		t.Error("different letters fold to one")
	}
}

func FuzzNaturalKey(f *testing.F) {
	for _, s := range []string{"http://h/a", "https://u@[::1]:80/%2e/../CON?%#x", "http://h" + strings.Repeat("/é", 400)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		fuzztest.Bound(t)
		key, err := NaturalKey(uri)
		if err != nil {
			return
		}
		checkKey(t, key)
		for _, c := range []int{0, 1, -1} {
			clash := clashKey(key, uri, c, 0)
			checkKey(t, clash)
			if clash == key {
				t.Fatalf("no suffix on %q", key)
			}
		}
	})
}

func BenchmarkNaturalKey(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := NaturalKey("https://lib.example.org/collections/theses/2024/00017/thesis-final.pdf"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAssign(b *testing.B) {
	uris := make([]string, 1000)
	for i := range uris {
		uris[i] = fmt.Sprintf("https://lib.example.org/collections/%d/item-%d.pdf", i/100, i)
	}
	m := newMirror(false)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Assign(false, uris, nil, m.lookup); err != nil {
			b.Fatal(err)
		}
	}
}
