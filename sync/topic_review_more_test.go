package sync

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination"
	"resyncd/store"
	"resyncd/sync/pull"
)

// TestFeedDeletedAtOnce: a tombstone of the very instant of its entry counts wherever it stands in the document.
func TestFeedDeletedAtOnce(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		entry, gone := posts(2, 2)[0], post{id: "tag:test,2024:p2", day: 2, gone: true}
		both := []post{entry, gone}
		if first {
			both = []post{gone, entry}
		}
		s := newSite(t, nil, append(both, posts(1, 1)...)...)
		s.sync()
		if diff := cmp.Diff(textsOf(posts(1, 1)...), s.texts()); diff != "" {
			t.Errorf("tombstone first %v: %s", first, diff)
		}
	}
}

// TestFeedPushedRelative: an entry with a relative link is the same by push and by pull, also of a feed behind a redirect.
func TestFeedPushedRelative(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	entry := posts(2, 2)[0]
	entry.extra = `<link rel="alternate" href="x.html"/>`
	self := `<link rel="self" href="` + s.srv.URL + feedPath + `"/>`
	s.set("/a/feed", page{body: atom(self, posts(1, 1)...)})
	s.set(feedPath, page{status: 302, location: "/a/feed"})
	s.follow(t)
	s.pull(false)
	s.push(entry)
	s.shows(textsOf(append(posts(1, 1), entry)...))
	s.set("/a/feed", page{body: atom(self, append(posts(1, 1), entry)...)})
	s.pull(false)
	if s.missed != 0 {
		t.Errorf("%d misses of what was pushed", s.missed)
	}
}

// TestFeedOldCopy: a cache that gives an old copy of the feed, with its old Date, takes nothing back (P6).
func TestFeedOldCopy(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, posts(1, 2)...)
	s.sync()
	now := time.Now()
	edited := post{id: "tag:test,2024:p2", day: int(now.Sub(on(0)).Hours() / 24), text: "edited"}
	s.feed(append(posts(1, 1), edited)...)
	s.sync()
	s.set(feedPath, page{body: atom("", posts(1, 2)...) + " ", date: now.AddDate(0, 0, -7).UTC().Format(http.TimeFormat)})
	s.sync()
	if diff := cmp.Diff(textsOf(append(posts(1, 1), edited)...), s.texts()); diff != "" {
		t.Error(diff)
	}
}

// TestFeedFull: a full catch-up finds files that somebody removed.
func TestFeedFull(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, posts(1, 3)...)
	s.sync()
	for key := range s.files() {
		if err := os.Remove(filepath.Join(s.root, filepath.FromSlash(key))); err != nil {
			t.Fatal(err)
		}
	}
	s.opts.Full = true
	s.sync()
	if diff := cmp.Diff(textsOf(posts(1, 3)...), s.texts()); diff != "" {
		t.Error(diff)
	}
	if err := s.contentKept(); err != nil {
		t.Error(err)
	}
}

// TestPageAudit: an audit finds no difference where there is none, and the one there is.
func TestPageAudit(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.set(feedPath, page{typ: "text/plain", body: "one"})
	s.sync()
	for problems, body := range []string{"one", "two"} {
		s.set(feedPath, page{typ: "text/plain", body: body})
		s.with(func(e *Engine, target Target) {
			rep, err := e.Audit(t.Context(), target, s.opts, false, func(Finding) error { return nil })
			if err != nil || rep.Problems != int64(problems) {
				t.Errorf("%s: %+v, %v", body, rep, err)
			}
		})
	}
}

// TestFeedFilterWidened: what was left out so far comes whole once the filter lets it in, from the archives too.
func TestFeedFilterWidened(t *testing.T) {
	t.Parallel()
	exclude := []string{"**p1", "**p4"}
	s := newSite(t, func(target *Target) { target.Exclude = exclude })
	s.set("/old", page{body: atom("<fh:archive/>", posts(1, 2)...)})
	s.set(feedPath, page{body: atom(`<link rel="prev-archive" href="/old"/>`, posts(3, 4)...)})
	s.sync()
	if diff := cmp.Diff(textsOf(posts(2, 3)...), s.texts()); diff != "" {
		t.Fatal(diff)
	}
	exclude = nil
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	s.claimed(func(st store.Store, c store.Claim) { // what was tried before its bytes were there is tried again at once
		rs, err := st.Due(t.Context(), store.DueQuery{SourceID: c.SourceID, Action: store.ActionFetch, Now: pull.EndOfTime, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rs {
			if _, err := st.Content(t.Context(), r.ID); err != nil {
				t.Errorf("%s: %v", r.URI, err)
			}
		}
	})
	s.sync()
	if diff := cmp.Diff(textsOf(posts(1, 4)...), s.texts()); diff != "" {
		t.Error(diff)
	}
}

// TestFeedMovesBeforeFirstPull: the set of a topic is the first that it was, also if its first pull did not end well.
func TestFeedMovesBeforeFirstPull(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.set("/old", page{status: 503})
	older := `<link rel="prev-archive" href="/old"/>`
	s.set(feedPath, page{body: atom(older, posts(2, 3)...)})
	if res, err := s.run(); err != nil || res.InStep {
		t.Fatalf("%+v, %v", res, err)
	}
	s.set("/old", page{body: atom("<fh:archive/>", posts(1, 1)...)})
	moved := page{body: atom(`<link rel="self" href="/moved"/>`+older, posts(2, 3)...)}
	s.set(feedPath, moved)
	s.set("/moved", moved)
	s.sync()
	s.gapsOf() // of one set
}

// TestFeedSkipped: an entry that cannot be read keeps a set from being in step for as long as it is there.
func TestFeedSkipped(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.set(feedPath, page{body: strings.Replace(atom("", posts(1, 2)...), "</feed>", "<at:deleted-entry/></feed>", 1)})
	for range 2 {
		if res, err := s.run(); err != nil || res.InStep || res.Problem == "" {
			t.Errorf("%+v, %v", res, err)
		}
	}
	s.feed(posts(1, 2)...)
	s.sync()
}

// TestPageInPlace: where a page's self link does not answer, the page that does is the resource.
func TestPageInPlace(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.set(feedPath, page{typ: "text/plain", body: "one", links: []string{`</nowhere>; rel="self"`}})
	s.sync()
	if s.files()[s.key(feedPath)] != sumOf("one") {
		t.Errorf("%v", s.files())
	}
	if got := s.sync(); got.Fetched != 0 {
		t.Errorf("%+v", got)
	}
}

// TestFeedScope: links to where the feed was asked for are in scope, whatever its self link says.
func TestFeedScope(t *testing.T) {
	t.Parallel()
	target := Target{URL: "https://blog.example/feed", Kind: KindFeed}
	rule, err := target.Judge(&destination.SetOffer{ID: "http://blog.example/feed"})
	if err != nil {
		t.Fatal(err)
	}
	for uri, in := range map[string]bool{"https://blog.example/a.mp3": true, "http://blog.example/a.mp3": true, "https://other.example/": false} {
		if got := rule(uri) == ""; got != in {
			t.Errorf("%s: %v", uri, got)
		}
	}
}
