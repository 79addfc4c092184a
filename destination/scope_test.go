package destination

import (
	"fmt"
	"net/url"
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"resyncd/destination/fuzztest"
)

func TestScope(t *testing.T) {
	t.Parallel()
	s, err := NewScope("https://Lib.example/a/cap.xml", []string{
		"https://cdn.example/data", "http://files.example:8080/pub/", "https://old.example:443", "https://q.example/get?set=1&id=", "https://[2001:DB8::1]:8443/x/",
	})
	if err != nil {
		t.Fatal(err)
	}
	for uri, want := range map[string]bool{
		"https://lib.example/":                true,
		"https://lib.example":                 true,
		"https://LIB.EXAMPLE:443/x":           true,
		"HTTPS://lib.example:/x":              true,
		"https://lib.example?x":               true,
		"https://lib.example/../x":            true, // all of the origin is in scope
		"https://lib.example/été?q=http://e/": true,

		"http://lib.example/":                    false,
		"https://lib.example:8443/":              false,
		"https://lib.example.evil/":              false,
		"https://lib.examplee/":                  false,
		"https://xlib.example/":                  false,
		"https://lib.example@evil.example/":      false,
		"https://lib.example:443@evil.example/":  false,
		"https://evil.example/@lib.example/":     false,
		"https://evil.example#@lib.example/":     false,
		"https://evil.example\\@lib.example/":    false,
		"https://lib.example\\.evil.example/":    false,
		"https://lib.example%2eevil.example/":    false,
		"https://lib.example%00.evil.example/":   false,
		"https://lib.example\t.evil.example/":    false,
		"https://lib.example\n/":                 false,
		"https://lib.example /":                  false,
		"https://lib.example./":                  false,
		"https://lib.example:0443/":              false,
		"https://lib.example:443:443/":           false,
		"https://lib.example:https/":             false,
		"https:///lib.example/":                  false,
		"https:lib.example/":                     false,
		"https:\\\\lib.example/":                 false,
		"//lib.example/":                         false,
		"lib.example/":                           false,
		"":                                       false,
		"https://":                               false,
		"https://?lib.example":                   false,
		" https://lib.example/":                  false,
		"ftp://lib.example/":                     false,
		"https://ſib.example/":                   false,
		"https://\u212Aib.example/":              false,
		"https://cdn.example/data":               true,
		"https://cdn.example/data/":              true,
		"https://cdn.example/data/x/../../y":     false,
		"https://cdn.example/data/..":            false,
		"https://cdn.example/data/%2e%2E/y":      false,
		"https://cdn.example/data/.%2e/y":        false,
		"https://cdn.example/data/..%2fy":        false,
		"https://cdn.example/data/..%5Cy":        false,
		"https://cdn.example/data/..\\y":         false,
		"https://cdn.example/data/..;x/y":        false,
		"https://cdn.example/data/./y":           false,
		"https://cdn.example/data/.y/..z/...":    true,
		"https://cdn.example/data/%2e%2e%2e":     true,
		"https://cdn.example/data?x=/../":        true,
		"https://cdn.example/data#x":             true,
		"https://cdn.example/database":           false,
		"https://cdn.example/Data/x":             false,
		"https://cdn.example/":                   false,
		"https://cdn.example/d%61ta/x":           false,
		"http://files.example:8080/pub/x":        true,
		"http://files.example:8080/pub":          false,
		"http://files.example/pub/x":             false,
		"https://old.example/any":                true,
		"https://q.example/get?set=1&id=7":       true,
		"https://q.example/get?set=2&id=7":       false,
		"https://[2001:db8::1]:8443/x/y":         true,
		"https://[2001:db8::1]/x/y":              false,
		"https://2001:db8::1:8443/x/y":           false,
		"https://[2001:db8::1].evil.example/x/y": false,
	} {
		if got := s.Contains(uri); got != want {
			t.Errorf("%q: %v", uri, got)
		}
	}
}

func TestScopeDigits(t *testing.T) {
	t.Parallel()
	s, err := NewScope("http://127.0.0.1:8080/cap.xml", []string{"http://127.0.0.1:9090/pack-"})
	if err != nil {
		t.Fatal(err)
	}
	for uri, want := range map[string]bool{
		"http://127.0.0.1:8080/x": true, "http://127.0.0.1/x": false, "http://127.0.0.1:80800/x": false, "http://127.0.0.1:808/x": false,
		"http://127.0.0.1:9090/pack-1/x": true, "http://127.0.0.1:9090/pack": false,
	} {
		if got := s.Contains(uri); got != want {
			t.Errorf("%q: %v", uri, got)
		}
	}
}

func TestScopeRefused(t *testing.T) {
	t.Parallel()
	for _, set := range []string{"", "lib.example", "ftp://lib.example/", "https://", "https://user@lib.example/", "https://lib example/"} {
		if _, err := NewScope(set, nil); err == nil {
			t.Errorf("set %q", set)
		}
	}
	for _, prefix := range []string{"/data", "https://a.example/x/../y", "https://a.example/x/%2e%2e/", "https://a.example/#x", "https://me:pw@a.example/"} {
		if _, err := NewScope("https://lib.example/", []string{prefix}); err == nil {
			t.Errorf("prefix %q", prefix)
		}
	}
}

func TestScopeAllocatesNothing(t *testing.T) {
	s, err := NewScope("https://lib.example/", []string{"https://cdn.example/data/", "https://more.example/"})
	if err != nil {
		t.Fatal(err)
	}
	n := testing.AllocsPerRun(100, func() {
		for _, u := range [...]string{"https://lib.example/a/b/c.pdf", "https://CDN.example:443/data/x?y", "https://evil.example/"} {
			s.Contains(u)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What Contains lets through, net/url must read as lying at the origin or below the prefix: nobody is fooled.
func FuzzScope(f *testing.F) {
	for _, s := range []string{
		"https://lib.example/x", "https://lib.example:443@evil/", "https://cdn.example/data/%2e%2e/x", "https://lib.example\\@evil/",
		"https://cdn.example/data/..;/x", "HTTPS://LIB.example:?#", "https://[::1]/", "http://lib.example/",
	} {
		f.Add(s)
	}
	s, err := NewScope("https://lib.example/cap.xml", []string{"https://cdn.example/data/"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		fuzztest.Bound(t)
		if !s.Contains(uri) {
			return
		}
		u, err := url.Parse(uri)
		if err != nil {
			return // it cannot be asked for
		}
		if u.Scheme != "https" || u.User != nil || u.Port() != "" && u.Port() != "443" {
			t.Fatalf("%q is read as %+v", uri, u)
		}
		switch strings.ToLower(u.Hostname()) {
		case "lib.example":
		case "cdn.example":
			if !strings.HasPrefix(path.Clean(u.Path)+"/", "/data/") {
				t.Fatalf("%q leaves the prefix: %q", uri, path.Clean(u.Path))
			}
		default:
			t.Fatalf("%q is at %q", uri, u.Host)
		}
	})
}

func TestFilter(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		include, exclude []string
		uri              string
		want             bool
	}{
		{nil, nil, "https://a.example/x", true},
		{[]string{"https://a.example/**.pdf"}, nil, "https://a.example/x/y.pdf", true},
		{[]string{"https://a.example/**.pdf"}, nil, "https://a.example/x/y.PDF", false},
		{[]string{"https://a.example/*.pdf"}, nil, "https://a.example/x/y.pdf", false},
		{[]string{"https://a.example/*.pdf"}, nil, "https://a.example/y.pdf", true},
		{[]string{"https://a.example/*/y.pdf"}, nil, "https://a.example//y.pdf", true},
		{[]string{"https://*/x"}, nil, "https://a.example/x", true},
		{[]string{"https://*/x"}, nil, "https://a.example/b/x", false},
		{[]string{"**"}, []string{"**/tmp/**"}, "https://a.example/b/tmp/x", false},
		{[]string{"**"}, []string{"**/tmp/**"}, "https://a.example/b/tmpx/x", true},
		{nil, []string{"https://a.example/x?y=*"}, "https://a.example/x?y=1", false},
		{nil, []string{"https://a.example/x?y"}, "https://a.example/xzy", true},
		{nil, []string{"https://a.example/x"}, "https://a.example/xx", true},
		{[]string{"https://b.example/**", "https://a.example/**"}, nil, "https://a.example/", true},
		{[]string{"https://a.example/***x"}, nil, "https://a.example/b/x", true},
		{[]string{"https://a.example/a*b**c*d"}, nil, "https://a.example/a1b/2/c3d", true},
		{[]string{"https://a.example/a*b**c*d"}, nil, "https://a.example/a1b/2/c/3d", false},
	} {
		f, err := NewFilter(tc.include, tc.exclude)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Passes(tc.uri); got != tc.want {
			t.Errorf("%v but %v, %q: %v", tc.include, tc.exclude, tc.uri, got)
		}
	}
	for _, bad := range []string{"", "*.pdf", strings.Repeat("/", 600)} {
		if _, err := NewFilter(nil, []string{bad}); err == nil {
			t.Errorf("glob %q", bad)
		}
	}
	var none *Filter
	if !none.Passes("x") {
		t.Error("no filter refuses")
	}
}

// matches is what a glob means, told by trying.
func matches(glob, s string) bool {
	run := len(glob) - len(strings.TrimLeft(glob, "*"))
	if run == 0 {
		return glob == "" && s == "" || glob != "" && s != "" && glob[0] == s[0] && matches(glob[1:], s[1:])
	}
	for i := 0; ; i++ {
		if matches(glob[run:], s[i:]) {
			return true
		}
		if i == len(s) || run == 1 && s[i] == '/' {
			return false
		}
	}
}

func TestGlob(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pattern := "/" + rapid.StringMatching(`([ab/.]|\*){0,12}`).Draw(t, "glob")
		s := "/" + rapid.StringMatching(`[ab/.]{0,14}`).Draw(t, "uri")
		f, err := NewFilter([]string{pattern}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := f.Passes(s), matches(pattern, s); got != want {
			t.Fatalf("%q on %q: %v, want %v", pattern, s, got, want)
		}
	})
}

func FuzzFilter(f *testing.F) {
	f.Add("https://a.example/**/x*", "https://a.example/b/xy")
	f.Add("**a*a*a*a*b", strings.Repeat("a", 100))
	f.Fuzz(func(t *testing.T, pattern, uri string) {
		fuzztest.Bound(t)
		filter, err := NewFilter([]string{pattern}, nil)
		if err != nil {
			return
		}
		got := filter.Passes(uri)
		if utf8.ValidString(uri) && !strings.Contains(pattern, "*") && got != (pattern == uri) {
			t.Fatalf("%q on %q: %v", pattern, uri, got)
		}
		if filter, err = NewFilter(nil, []string{pattern}); err != nil || filter.Passes(uri) == got {
			t.Fatalf("exclude is not the opposite of include: %v", err)
		}
	})
}

func BenchmarkScope(b *testing.B) {
	s, err := NewScope("https://lib.example/", []string{"https://cdn.example/data/"})
	if err != nil {
		b.Fatal(err)
	}
	uri := fmt.Sprintf("https://lib.example/resources/%09d.pdf", 7)
	for b.Loop() {
		s.Contains(uri)
	}
}
