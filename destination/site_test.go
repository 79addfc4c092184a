package destination

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"resyncd/destination/fetch"
)

// site is a Source made of pages. SITE in a body stands for its address. Pages have an ETag; every request is counted.
type site struct {
	*httptest.Server
	mu    sync.Mutex
	pages map[string]page
	asked []string // "PATH STATUS"
	hook  func(w http.ResponseWriter, r *http.Request) bool
}

type page struct {
	body   string
	kind   string // Content-Type
	status int
	header map[string]string
	noETag bool
}

const xmlns = ` xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"`

func urlset(body string) string  { return "<urlset" + xmlns + ">" + body + "</urlset>" }
func indexOf(body string) string { return "<sitemapindex" + xmlns + ">" + body + "</sitemapindex>" }

func entry(loc, md string) string {
	return "<url><loc>SITE" + loc + "</loc><rs:md " + md + "/></url>"
}

func part(loc, md string) string {
	return "<sitemap><loc>SITE" + loc + "</loc><rs:md " + md + "/></sitemap>"
}

func capability(loc, kind string) string { return entry(loc, `capability="`+kind+`"`) }
func rootMD(attrs string) string         { return "<rs:md " + attrs + "/>" }
func link(rel, loc string) string        { return `<rs:ln rel="` + rel + `" href="SITE` + loc + `"/>` }

func xml(body string) page { return page{body: body, kind: "application/xml"} }

func newSite(t *testing.T, pages map[string]page) *site {
	t.Helper()
	s := &site{pages: pages}
	if s.pages == nil {
		s.pages = map[string]page{}
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	hook := s.hook
	s.mu.Unlock()
	if hook != nil && hook(w, r) {
		return
	}
	s.serve(w, r)
}

func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.pages[r.URL.RequestURI()]
	status := http.StatusOK
	switch {
	case !ok:
		status = http.StatusNotFound
	case p.status != 0:
		status = p.status
	}
	body := strings.ReplaceAll(p.body, "SITE", s.URL)
	etag := fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(body)))
	if !p.noETag {
		w.Header().Set("ETag", etag)
	}
	for k, v := range p.header {
		w.Header().Set(k, strings.ReplaceAll(v, "SITE", s.URL))
	}
	if p.kind != "" {
		w.Header().Set("Content-Type", p.kind)
	}
	if status == http.StatusOK && r.Header.Get("If-None-Match") == etag && !p.noETag {
		status = http.StatusNotModified
	}
	s.asked = append(s.asked, fmt.Sprintf("%s %d", r.URL.RequestURI(), status))
	w.WriteHeader(status)
	if status == http.StatusOK {
		_, _ = w.Write([]byte(body))
	}
}

func (s *site) set(path string, p page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[path] = p
}

func (s *site) remove(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pages, path)
}

func (s *site) on(hook func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

// requests returns what was asked since the last call, for comparing.
func (s *site) requests() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := strings.Join(s.asked, ", ")
	s.asked = nil
	return got
}

// memory remembers as the engine does: through JSON.
type memory map[string][]byte

func (m memory) Recall(_ context.Context, url string) (*Document, error) {
	b, ok := m[url]
	if !ok {
		return nil, nil
	}
	d := new(Document)
	return d, json.Unmarshal(b, d)
}

func (m memory) Remember(_ context.Context, d *Document) error {
	b, err := json.Marshal(d)
	m[d.URL] = b
	return err
}

func testClient(t *testing.T) *fetch.Client {
	t.Helper()
	c := fetch.New(fetch.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Retries: -1})
	t.Cleanup(c.Close)
	return c
}

// testReader is a reader whose clock moves only when it sleeps.
func testReader(t *testing.T, change func(*ReaderOptions)) *Reader {
	t.Helper()
	o := ReaderOptions{Client: testClient(t), Memory: memory{}}
	if change != nil {
		change(&o)
	}
	r := NewReader(o)
	clock := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r.now = func() time.Time { return clock }
	r.sleep = func(ctx context.Context, d time.Duration) error {
		clock = clock.Add(d)
		return context.Cause(ctx)
	}
	r.jitter = func(d time.Duration) time.Duration { return d }
	return r
}
