package sync

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/rsdoc"
	"resyncd/store"
)

var noInterval = rsdoc.Interval{From: rsdoc.NoTime, Until: rsdoc.NoTime}

// begun is a site that is followed and whose feed was pulled once.
func begun(t *testing.T, tune func(*Target), posts ...post) *site {
	t.Helper()
	s := newSite(t, tune, posts...)
	s.follow(t)
	s.pull(false)
	return s
}

func (s *site) shows(all map[string]string) {
	s.t.Helper()
	s.eventually("the mirror shows the entries", func() bool { return cmp.Equal(all, s.texts()) && s.quiet() })
}

// TestFeedPush: a signed push is a diff of the feed; its entries are there at once, whatever their order and repetition.
func TestFeedPush(t *testing.T) {
	t.Parallel()
	before := posts(-20, -1) // what is pushed is less than half of what the feed shows
	s := begun(t, nil, append(posts(1, 3), before...)...)
	s.rig.mu.Lock()
	s.asks = nil
	s.rig.mu.Unlock()
	edit := func(day int) post { return post{id: "tag:test,2024:p2", day: day, text: fmt.Sprint("edit ", day)} }
	s.push(posts(4, 5)...)
	s.push(edit(9))
	s.push(edit(7), posts(6, 6)[0])
	s.push(posts(4, 5)...)
	all := textsOf(append(append(posts(1, 6), before...), edit(9))...)
	s.shows(all)
	s.push(post{id: "tag:test,2024:p4", day: 5, gone: true}, post{id: "tag:test,2024:p5", day: 4, gone: true})
	delete(all, "p4")
	s.shows(all)
	s.push(posts(4, 4)...) // late
	s.shows(all)
	if asked := s.requests(); len(asked) != 0 {
		t.Errorf("nothing had to be asked, and was: %v", asked)
	}
	// A pull of a feed that has all of it by now changes nothing.
	s.feed(append(posts(3, 6)[:1:1], append(append(posts(5, 5), posts(3, 3)[0], edit(9)), before...)...)...)
	s.pull(false)
	s.shows(all)
	if s.missed != 0 {
		t.Errorf("%d misses, though all was pushed", s.missed)
	}
	s.feed(posts(20, 20)[0], edit(9))
	s.pull(false)
	if s.missed != 1 {
		t.Errorf("%d misses, want 1", s.missed)
	}
}

// TestFeedHints: what proves nothing has the feed read, and changes nothing by itself.
func TestFeedHints(t *testing.T) {
	t.Parallel()
	forged := post{id: "tag:test,2024:forged", day: 9, text: "forged"}
	far := post{id: "tag:test,2024:p1", day: 365 * 200, text: "far"}
	for name, deliver := range map[string]func(s *site){
		"unsigned": func(s *site) { s.deliver(noInterval, []byte(atom("", forged)), false) },
		"empty":    func(s *site) { s.deliver(noInterval, []byte(" \n"), true) },
		"no feed":  func(s *site) { s.deliver(noInterval, []byte("<html><body>news</body></html>"), true) },
		"broken": func(s *site) {
			whole := atom("", posts(3, 3)...)
			s.deliver(noInterval, []byte(whole[:len(whole)-30]), true)
		},
		"from future": func(s *site) { s.push(far) },
		"same date":   func(s *site) { s.push(post{id: "tag:test,2024:p2", day: 2, text: "other"}) },
		"no date":     func(s *site) { s.push(post{id: "tag:test,2024:p2", text: "other"}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begun(t, nil, posts(1, 2)...)
			s.feed(posts(1, 4)...)
			deliver(s)
			s.shows(textsOf(posts(1, 4)...))
		})
	}
}

// TestFeedLies: a hub that signs lies is believed until the feed has had the time to say so and did not (P9), and an entry
// that only the hub has stays (S-66: a push may be all there is).
func TestFeedLies(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, posts(1, 4)...)
	s.engine = func(e *Engine) { e.Now = func() time.Time { return time.Now().Add(s.late) } }
	s.follow(t)
	s.pull(false)
	lie := post{id: "tag:test,2024:p3", day: 300, text: "lie"}
	only := post{id: "tag:test,2024:only", day: 5, text: "only pushed"}
	s.push(lie, post{id: "tag:test,2024:p4", day: 200, gone: true}, only)
	lied := textsOf(append(posts(1, 4), lie, only)...)
	delete(lied, "p4")
	s.shows(lied)
	s.pull(true)
	s.shows(lied) // the feed may lag behind (S-71)
	s.stop()
	s.late = 2 * time.Minute
	s.follow(t)
	s.pull(true)
	s.shows(textsOf(append(posts(1, 4), only)...))
}

// TestFeedKeepsItsHub: what answers in place of a feed says nothing about its hub; the feed itself does, twice (F58, F71).
func TestFeedKeepsItsHub(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	hub := `<link rel="hub" href="https://hub.example/"/>`
	s.set(feedPath, page{typ: "application/atom+xml", body: atom(hub, posts(1, 3)...)})
	s.follow(t)
	channels := func() (n int) {
		s.pull(false)
		s.locked(func() { n = len(s.channels) })
		return n
	}
	if n := channels(); n != 1 {
		t.Fatalf("%d channels", n)
	}
	broken := atom(hub, posts(1, 9)...)
	for name, p := range map[string]page{
		"an error":      {typ: "text/html", body: "<html><body>Database error</body></html>"},
		"plain text":    {typ: "text/plain", body: "Error establishing a database connection"},
		"nothing":       {typ: "application/atom+xml"},
		"a broken feed": {typ: "application/atom+xml", body: strings.Replace(broken[:700], hub, "", 1)},
	} {
		s.set(feedPath, p)
		for range 3 {
			if n := channels(); n != 1 {
				t.Errorf("%s: %d channels", name, n)
			}
		}
	}
	s.feed(posts(2, 4)...)
	if n := channels(); n != 1 {
		t.Errorf("one reading without a hub: %d channels", n)
	}
	if n := channels(); n != 0 {
		t.Errorf("two readings without a hub: %d channels", n)
	}
}

// TestPage: a topic that is no feed is one resource; a push of it has it asked for.
func TestPage(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.set(feedPath, page{typ: "text/plain", body: "one"})
	s.follow(t)
	s.pull(false)
	is := func(text string) {
		t.Helper()
		s.eventually(text, func() bool {
			files := s.files()
			return len(files) == 1 && s.quiet() && files[s.key(feedPath)] == sumOf(text)
		})
	}
	is("one")
	s.set(feedPath, page{typ: "text/plain", body: "two"})
	s.deliver(noInterval, []byte("two"), true)
	is("two")
	s.deliver(noInterval, []byte("one"), true) // replayed
	s.set("/other", page{})
	is("two")
	s.set(feedPath, page{typ: "text/plain", body: "three"})
	s.pull(false)
	is("three")
}

// TestPageAhead: a push may be ahead of the public Source; it is asked until it answers with what was pushed (S-71). Pushes
// that follow each other closely are not held back.
func TestPageAhead(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.set(feedPath, page{typ: "text/plain", body: "0"})
	s.follow(t)
	s.pull(false)
	for _, text := range []string{"1", "2", "3"} {
		s.deliver(noInterval, []byte(text), true)
		s.set(feedPath, page{typ: "text/plain", body: text})
		s.eventually(text, func() bool { return s.quiet() && s.files()[s.key(feedPath)] == sumOf(text) })
	}
}

// TestEmptyTopic: a topic without a body of its own (S-10) is what was pushed last.
func TestEmptyTopic(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	hub := []string{`<https://hub.example/>; rel="hub", <` + s.srv.URL + feedPath + `>; rel="self"`}
	s.set(feedPath, page{links: hub, status: 204})
	s.follow(t)
	s.pull(false)
	for _, text := range []string{"first", "second"} {
		s.deliver(noInterval, []byte(text), true)
		s.eventually(text, func() bool { return s.quiet() && s.files()[s.key(feedPath)] == sumOf(text) })
	}
	set := s.theSet()
	if set.Problem != "" {
		t.Errorf("set %+v", set)
	}
}

// TestFeedMend: an entry whose file was lost or damaged comes back from the feed, from its archives if need be.
func TestFeedMend(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.set("/old", page{body: atom("<fh:archive/>", posts(1, 5)...)})
	s.set(feedPath, page{body: atom(`<link rel="prev-archive" href="/old"/>`, posts(6, 8)...)})
	s.sync()
	all := textsOf(posts(1, 8)...)
	for key := range s.files() {
		write(t, s.root+"/"+key, "damaged")
	}
	s.with(func(e *Engine, target Target) {
		rep, err := e.Verify(t.Context(), target, s.opts, true, func(Finding) error { return nil })
		if err != nil || rep.Problems != 8 || rep.Repaired != 8 {
			t.Errorf("%+v, %v", rep, err)
		}
	})
	if diff := cmp.Diff(all, s.texts()); diff != "" {
		t.Fatal(diff)
	}
	if got := s.sync(); got.Kind != "none" {
		t.Errorf("after the repair: %+v", got)
	}
	s.with(func(e *Engine, target Target) {
		rs, err := e.Store.Scan(t.Context(), store.ScanQuery{SourceID: 1, Limit: 100})
		for _, r := range rs {
			if _, err := e.Store.Content(t.Context(), r.ID); err == nil {
				t.Errorf("the bytes of %s are kept twice", r.URI)
			}
		}
		if err != nil {
			t.Error(err)
		}
	})
}
