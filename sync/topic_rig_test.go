package sync

import (
	"bytes"
	"crypto/sha256"
	"encoding/xml"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"resyncd/destination/peer/source"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/sync/keymap"
)

// post is one entry of a feed in a test. day is when it was updated; 0: it does not say.
type post struct {
	id    string
	day   int
	text  string
	gone  bool   // an at:deleted-entry
	extra string // XML of further elements
}

// on is noon of a day of the year in which these tests play.
func on(day int) time.Time { return time.Date(2024, 1, 1, 12, 0, 0, 0, time.UTC).AddDate(0, 0, day) }

// atom writes a feed by hand, so that the reader meets what it did not write itself. head is XML of feed-level elements.
func atom(head string, posts ...post) string {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom" xmlns:fh="http://purl.org/syndication/history/1.0" xmlns:at="http://purl.org/atompub/tombstones/1.0">
<title>News</title><id>tag:test,2024:feed</id>` + head + "\n")
	for _, p := range posts {
		updated := ""
		if p.day != 0 {
			updated = on(p.day).Format(time.RFC3339)
		}
		if p.gone {
			fmt.Fprintf(&b, "<at:deleted-entry ref=%q when=%q/>\n", p.id, updated)
			continue
		}
		if updated != "" {
			updated = "<updated>" + updated + "</updated>"
		}
		fmt.Fprintf(&b, "<entry><id>%s</id><title>%s</title>%s%s<content>%s</content></entry>\n", p.id, p.text, updated, p.extra, p.text)
	}
	return b.String() + "</feed>"
}

// posts are entries p1, p2 … of the days from first to last, the newest first.
func posts(first, last int) []post {
	var out []post
	for day := last; day >= first; day-- {
		out = append(out, post{id: fmt.Sprintf("tag:test,2024:p%d", day), day: day, text: fmt.Sprintf("text %d", day)})
	}
	return out
}

// page is what a path of a site answers.
type page struct {
	typ, body string
	links     []string // Link headers
	status    int
	location  string // of a redirect
	noTag     bool   // without a validator
	date      string // header
}

// site is a Source that is no ResourceSync Source: a few documents, the feed among them.
type site struct {
	*pusher
	mu    sync.Mutex
	pages map[string]page
}

const feedPath = "/feed.atom"

// newSite begins with a feed; no Follower runs yet.
func newSite(t *testing.T, tune func(*Target), posts ...post) *site {
	t.Helper()
	s := &site{pages: map[string]page{}}
	s.pusher = &pusher{jobs: map[Work]time.Time{}, wake: make(chan struct{}, 1), kind: store.ChannelFeed}
	s.rig = newRigIn(t, t.TempDir(), source.Options{}, nil)
	s.interpose(s.answer)
	s.tune = func(target *Target) {
		target.Kind, target.URL = KindFeed, s.srv.URL+feedPath
		if tune != nil {
			tune(target)
		}
	}
	s.feed(posts...)
	return s
}

func (s *site) answer(w http.ResponseWriter, r *http.Request) bool {
	s.mu.Lock()
	p, ok := s.pages[r.URL.Path]
	s.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return true
	}
	for _, l := range p.links {
		w.Header().Add("Link", l)
	}
	tag := fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(p.body)))
	if p.typ != "" {
		w.Header().Set("Content-Type", p.typ)
	}
	if p.date != "" {
		w.Header().Set("Date", p.date)
	}
	if p.location != "" {
		w.Header().Set("Location", p.location)
	}
	if p.status != 0 {
		w.WriteHeader(p.status)
	} else if !p.noTag {
		w.Header().Set("ETag", tag)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(p.body))
		return true
	}
	_, _ = w.Write([]byte(p.body))
	return true
}

func (s *site) set(path string, p page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[path] = p
}

// feed makes the feed's own document.
func (s *site) feed(posts ...post) {
	s.set(feedPath, page{typ: "application/atom+xml", body: atom("", posts...)})
}

// follow begins a Follower that ends with the test.
func (s *site) follow(t *testing.T) {
	t.Helper()
	s.pusher.follow()
	t.Cleanup(func() { s.stop() })
}

// sync catches up once and insists on nothing being owed.
func (s *site) sync() Result {
	s.t.Helper()
	res, err := s.run()
	if err != nil || !res.InStep {
		s.t.Fatalf("not in step: %+v, %v", res, err)
	}
	return res
}

// requests are the paths asked since the last run began.
func (s *site) requests() []string {
	s.rig.mu.Lock()
	defer s.rig.mu.Unlock()
	return append([]string(nil), s.asks...)
}

// push delivers a feed, signed.
func (s *site) push(posts ...post) {
	s.deliver(rsdoc.Interval{From: rsdoc.NoTime, Until: rsdoc.NoTime}, []byte(atom("", posts...)), true)
}

// texts are the contents of the entries in the mirror, by id.
func (s *site) texts() map[string]string {
	s.t.Helper()
	out := map[string]string{}
	root := s.root
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && d.Name() == ".resyncd" {
				return filepath.SkipDir
			}
			return nil // removed this very moment
		}
		b, err := os.ReadFile(path)
		if err != nil || !strings.HasSuffix(path, ".xml") {
			return nil
		}
		var e struct {
			ID      string `xml:"http://www.w3.org/2005/Atom id"`
			Content string `xml:"http://www.w3.org/2005/Atom content"`
		}
		if err := xml.NewDecoder(bytes.NewReader(b)).Decode(&e); err != nil {
			return fmt.Errorf("%s: %w\n%s", path, err, b)
		}
		out[strings.TrimPrefix(e.ID, "tag:test,2024:")] = e.Content
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// textsOf are the texts of posts.
func textsOf(posts ...post) map[string]string {
	out := map[string]string{}
	for _, p := range posts {
		if !p.gone {
			out[strings.TrimPrefix(p.id, "tag:test,2024:")] = p.text
		}
	}
	return out
}

// gaps are those of the only set, outside a run.
func (s *site) gapsOf() []store.Gap {
	s.t.Helper()
	var out []store.Gap
	s.with(func(e *Engine, _ Target) {
		src, err := e.Store.Source(s.t.Context(), "test")
		if err != nil {
			s.t.Fatal(err)
		}
		sets, err := e.Store.Sets(s.t.Context(), src.ID)
		if err != nil || len(sets) != 1 {
			s.t.Fatalf("%d sets, %v", len(sets), err)
		}
		if out, err = e.Store.Gaps(s.t.Context(), sets[0].ID); err != nil {
			s.t.Fatal(err)
		}
	})
	return out
}

func sumOf(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// key is the mirror key of a path of the site.
func (s *site) key(path string) string {
	key, err := keymap.NaturalKey(s.srv.URL + path)
	if err != nil {
		s.t.Fatal(err)
	}
	return key
}
