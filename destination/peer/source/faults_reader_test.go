package source

import (
	"net/http"
	"strings"
	"testing"
)

// TestWhatReadersGet: resources are served as what they are named, never as what they look like, folders are not listed, and
// nothing of a request is repeated in an answer.
func TestWhatReadersGet(t *testing.T) {
	t.Parallel()
	s := newSource(t, Options{})
	const script = "<!doctype html><script>alert(1)</script>"
	for name, kind := range map[string]string{
		"page.html": "text/html", "text.txt": "text/plain", "sub/data": "application/octet-stream",
		"sub/picture.png": "image/png",
	} {
		mustPut(t, s, name, script)
		resp := ask(s, "GET", s.URI(name))
		if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != kind {
			t.Errorf("%s: %s as %q, want %q", name, resp.Status, got, kind)
		}
	}
	for path, status := range map[string]int{
		"/": 200, "/sub/": 404, "/sub": 404, "/sub/..": 404, "/.resourcesync/": 404, "/" + strings.Repeat("x", 5000): 404,
		"/%3Cscript%3Ealert(1)%3C/script%3E": 404, "/?%3Cscript%3E": 200,
	} {
		resp := ask(s, "GET", testBase+path)
		body := new(strings.Builder)
		if err := resp.Write(body); err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != status || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %s, %v", path, resp.Status, resp.Header)
		}
		if text := body.String(); strings.Contains(text, "<script>") || strings.Contains(text, "sub/data") {
			t.Errorf("%s: %s", path, text)
		}
	}
}
