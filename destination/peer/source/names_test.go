package source

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"resyncd/destination/fuzztest"
)

// oddNames are file names that try to be something else in a URI, in XML or on a path.
var oddNames = []string{
	"a b", "100%", "%41", "%2F", "%zz", "a#b", "a?b=c", "a+b", "a&b", "<a>", `quo"te'`, "back\\slash", "semi;colon", "c:drive",
	"tab\tnew\nline", "\x7f\x01", "\xff\xfe latin", "é", "e\u0301", "日本語", "\u202e", "...", "..x", "-", "~", "*", " ", "robots.txt",
	".hidden", ".well-known/other", "dir with space/a%20b/ü", "index.html", strings.Repeat("long", 60), "x/" + strings.Repeat("ü", 120),
}

// TestOddNames goes over a real connection: every name becomes a URI that leads back to exactly that file.
func TestOddNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range oddNames {
		write(t, dir, name, "body of "+name)
	}
	server, s := serveFolder(t, dir)
	if s.Len() != len(oddNames) {
		t.Fatalf("%d resources of %d files; skipped %+v", s.Len(), len(oddNames), s.backend.(*folder).skipped)
	}
	_, entries := read(t, overWire(t, server+"/"+resourceList, 200))
	got := map[string]bool{}
	for _, e := range entries {
		got[string(overWire(t, e.Loc, 200))] = true
	}
	for _, name := range oddNames {
		if !got["body of "+name] {
			t.Errorf("%q was not served under its listed URI", name)
		}
	}
	for _, path := range []string{
		"/..", "/../", "/%2e%2e/%2e%2e/etc/passwd", "/..%2fetc", "/.hidden/", "//.hidden", "/./.hidden", "/x//a", "/a%00b", "/x%2f" + oddNames[0],
		"/" + documents + "/../.hidden", "/dir%20with%20space", "/" + documents, "/" + documents + "/changelist/nothing.xml",
		"/" + documents + "/resourcelist/20260101T000000.000000Z-00001.xml",
	} {
		overWire(t, server+path, 404)
	}
}

// serveFolder serves over loopback until the test ends.
func serveFolder(t *testing.T, dir string) (string, *Source) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	base := "http://" + listener.Addr().String()
	s := newFolder(t, dir, Options{Base: base})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return base, s
}

func overWire(t *testing.T, uri string, status int) []byte {
	t.Helper()
	resp, err := http.Get(uri)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		t.Fatalf("GET %s: %s, want %d, %v", uri, resp.Status, status, err)
	}
	return b
}

// FuzzName leads every name there and back.
func FuzzName(f *testing.F) {
	for _, name := range oddNames {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		fuzztest.Bound(t)
		if !validName(name) {
			return
		}
		escaped := "/" + escapeName(name)
		u, err := url.Parse("http://a.example" + escaped)
		if err != nil || u.EscapedPath() != escaped {
			t.Fatalf("%q: a parser makes %q of %q (%v)", name, u.EscapedPath(), escaped, err)
		}
		r := httptest.NewRequest("GET", escaped, nil)
		if got, ok := requestName(r.URL); !ok || got != name {
			t.Errorf("%q came back as %q, %v", name, got, ok)
		}
	})
}

// FuzzRequest throws any path at the handler.
func FuzzRequest(f *testing.F) {
	for _, p := range []string{"/a", "/../a", "/%2e%2e/a", "//a", "/a%2Fb", "/.resourcesync/changelist/x.xml", "/.resourcesync/resourcelist/-1.xml", "/%"} {
		f.Add(p)
	}
	s, err := New(context.Background(), Options{Base: testBase, ListSize: 1})
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{"a", "b/c"} {
		if err := s.Put(name, []byte(name)); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, path string) {
		fuzztest.Bound(t)
		u, err := url.ParseRequestURI(path)
		if err != nil || u.Scheme != "" || u.Host != "" {
			return
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/", nil)
		r.URL = u
		s.Handler().ServeHTTP(w, r)
		if name, ok := requestName(u); w.Code == 200 && ok && !reservedName(name) && name != "robots.txt" && w.Body.String() != name {
			t.Errorf("%q gave %q", path, w.Body)
		}
	})
}
