package sync

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/peer/source"
	"resyncd/sync/keymap"
)

// fake is a Source written by hand, page by page, for what a well-behaved one never says.
type fake struct {
	*rig
	mu    sync.Mutex
	pages map[string]http.HandlerFunc
}

func newFake(t *testing.T) *fake {
	t.Helper()
	return newFakeIn(t, ramDir(t))
}

func newFakeIn(t tester, folder string) *fake {
	t.Helper()
	f := &fake{rig: newRigIn(t, folder, source.Options{}, nil), pages: map[string]http.HandlerFunc{}}
	f.rig.fetch = quick
	f.interpose(func(w http.ResponseWriter, req *http.Request) bool {
		f.mu.Lock()
		h := f.pages[req.URL.Path]
		f.mu.Unlock()
		if h == nil {
			w.WriteHeader(http.StatusNotFound)
		} else {
			h(w, req)
		}
		return true
	})
	return f
}

// handle answers a path; nil for 404.
func (f *fake) handle(path string, h http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pages[path] = h
}

// page puts a text at a path, with an ETag made of it.
func (f *fake) page(path, text string) {
	tag := fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(text)))
	f.handle(path, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("ETag", tag)
		if req.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, text)
	})
}

func (f *fake) uri(path string) string { return f.srv.URL + path }

// when is an instant of the fake's history: minutes since its beginning.
func when(minute int) string {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(minute) * time.Minute).Format(time.RFC3339)
}

func document(root, kind, attributes string, entries ...string) string {
	return `<?xml version="1.0" encoding="UTF-8"?><` + root + ` xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"` +
		` xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="` + kind + `" ` + attributes + `/>` +
		strings.Join(entries, "") + `</` + root + `>`
}

func list(kind, attributes string, entries ...string) string {
	return document("urlset", kind, attributes, entries...)
}

func index(kind, attributes string, entries ...string) string {
	return document("sitemapindex", kind, attributes, entries...)
}

// entry is one url of a document; more stands behind its loc.
func (f *fake) entry(path, md string, more ...string) string {
	return `<url><loc>` + f.uri(path) + `</loc>` + strings.Join(more, "") + `<rs:md ` + md + `/></url>`
}

func (f *fake) part(path, md string, more ...string) string {
	return `<sitemap><loc>` + f.uri(path) + `</loc>` + strings.Join(more, "") + `<rs:md ` + md + `/></sitemap>`
}

// res lists a resource as it is served: its body is put there, too.
func (f *fake) res(path, body string) string {
	f.page(path, body)
	return f.entry(path, fixity(body))
}

func fixity(body string) string {
	return fmt.Sprintf(`hash="sha-256:%x" length="%d"`, sha256.Sum256([]byte(body)), len(body))
}

// changed is an entry of a Change List about a resource that is served so.
func (f *fake) changed(path, body, change string, minute int) string {
	f.page(path, body)
	return f.entry(path, fmt.Sprintf(`change="%s" datetime="%s" %s`, change, when(minute), fixity(body)))
}

func (f *fake) deleted(path string, minute int) string {
	f.handle(path, nil)
	return f.entry(path, fmt.Sprintf(`change="deleted" datetime="%s"`, when(minute)))
}

// set publishes one set, kinds and paths of its documents in turn.
func (f *fake) set(kindsAndPaths ...string) {
	f.description("/capabilities.xml")
	f.capabilities("/capabilities.xml", kindsAndPaths...)
}

func (f *fake) description(paths ...string) {
	var entries []string
	for _, p := range paths {
		entries = append(entries, f.entry(p, `capability="capabilitylist"`))
	}
	f.page("/.well-known/resourcesync", list("description", "", entries...))
}

func (f *fake) capabilities(path string, kindsAndPaths ...string) {
	var entries []string
	for i := 0; i+1 < len(kindsAndPaths); i += 2 {
		entries = append(entries, f.entry(kindsAndPaths[i+1], `capability="`+kindsAndPaths[i]+`"`))
	}
	f.page(path, list("capabilitylist", "", entries...))
}

// holds insists on exactly these bodies in the mirror.
func (f *fake) holds(bodies map[string]string) {
	f.t.Helper()
	want := map[string]string{}
	for path, body := range bodies {
		key, err := keymap.NaturalKey(f.uri(path))
		if err != nil {
			f.t.Fatal(err)
		}
		want[key] = fmt.Sprintf("%x", sha256.Sum256([]byte(body)))
	}
	if diff := cmp.Diff(want, f.files()); diff != "" {
		f.t.Fatalf("the mirror (-want +got):\n%s", diff)
	}
}

// all runs once and returns the results of all sets.
func (f *fake) all() []Result {
	f.t.Helper()
	f.rig.mu.Lock()
	f.asks = nil
	f.rig.mu.Unlock()
	e, target, done := f.open()
	defer done()
	results, err := e.Run(context.Background(), target, f.opts)
	if err != nil {
		f.t.Fatalf("%+v, %v", results, err)
	}
	return results
}

// one runs once and insists on being in step, or not.
func (f *fake) one(inStep bool) Result {
	f.t.Helper()
	res, err := f.run()
	if err != nil || res.InStep != inStep {
		f.t.Fatalf("in step: want %t: %+v, %v", inStep, res, err)
	}
	return res
}

// quiet runs once more and insists that nothing is asked for but documents, without taking a baseline.
func (f *fake) quiet() {
	f.t.Helper()
	f.quietWith(4)
}

func (f *fake) quietWith(requests int64) {
	f.t.Helper()
	res := f.one(true)
	if res.Kind != "none" || res.Requests > requests || res.Fetched != 0 {
		f.t.Fatalf("nothing is new: %+v", res)
	}
}
