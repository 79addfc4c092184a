package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/destination/fuzztest"
)

// FuzzSnippet: whatever URL and places there are, the entry is a configuration that is read back as it was meant.
func FuzzSnippet(f *testing.F) {
	for _, url := range []string{
		"https://lib.example/", "http://127.0.0.1:8888/a?b=c&d=e#f", "https://[2001:db8::1]:8443/x", "https://con/", "https://com1.example/",
		"https://" + strings.Repeat("long-", 20) + "name.example/", "https://lib.example/a b", "https://lib.example/\u00e9", "https://-.example/", "https://a.example./x",
		"https://lib.example/" + strings.Repeat("x", 2029), // longer than a configuration takes
	} {
		f.Add(url, "https://cdn.example/")
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, asked, elsewhere string) {
		fuzztest.Bound(t)
		cfg := config.Default()
		if _, err := cfg.Adhoc("discover", asked); err != nil || !utf8.ValidString(asked+elsewhere) {
			return // no Source, so nothing to print
		}
		s := snippet{cfg: cfg, offerView: offerView{Asked: asked}}
		if _, err := cfg.Adhoc("elsewhere", elsewhere); err == nil {
			s.scope = []string{elsewhere}
		}
		file := filepath.Join(dir, "resyncd.yaml")
		text := written(t, &s)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := config.Load(file, nil)
		if err != nil && !strings.Contains(err.Error(), ".scope") { // a URL need not be a prefix
			t.Fatalf("%v\n%s", err, text)
		}
		if err == nil && (len(got.Sources) != 1 || got.Sources[0].URL != asked) {
			t.Fatalf("read back: %+v\n%s", got.Sources, text)
		}
	})
}

// TestSnippetNames: a name is the host's, is allowed, and is nobody else's.
func TestSnippetNames(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://Lib.Example/": "lib.example", "http://127.0.0.1:8888/": "127.0.0.1_8888", "https://[2001:db8::1]:8443/x": "2001_db8__1__8443",
		"https://con/": "source", "https://" + strings.Repeat("x", 70) + ".example/": "source",
	} {
		cfg := config.Default()
		s := snippet{cfg: cfg, offerView: offerView{Asked: url}}
		if got := s.name(); got != want {
			t.Errorf("%s is called %s, want %s", url, got, want)
		}
		other, err := cfg.Adhoc(want, "https://other.example/")
		if err != nil {
			t.Fatal(err)
		}
		cfg.Sources = []config.Source{other}
		if got := s.name(); got != want+"-2" {
			t.Errorf("beside another %s: %s", want, got)
		}
	}
}

// TestSnippetScope: a list that names places without end makes no entry without end.
func TestSnippetScope(t *testing.T) {
	t.Parallel()
	s := snippet{cfg: config.Default(), offerView: offerView{Asked: "https://lib.example/"}}
	for i := range 50 {
		s.scope = append(s.scope, "https://cdn"+strconv.Itoa(i)+".example/")
	}
	text := written(t, &s)
	if strings.Count(text, "      - ") != originsShown || !strings.Contains(text, "# and at 30 places more") {
		t.Error(text)
	}
}

// written is the text of an entry.
func written(t *testing.T, s *snippet) string {
	t.Helper()
	var b strings.Builder
	if err := s.write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
