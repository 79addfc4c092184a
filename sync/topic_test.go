package sync

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/store"
	"resyncd/sync/pull"
)

// TestFeed: entries become files; the newest updated wins, absence says nothing, a tombstone deletes (T-04).
func TestFeed(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, posts(1, 3)...)
	first := s.sync()
	if first.Kind != "baseline" || first.Fetched != 3 || first.Requests != 1 {
		t.Fatalf("the first run: %+v", first)
	}
	if diff := cmp.Diff(textsOf(posts(1, 3)...), s.texts()); diff != "" {
		t.Fatal(diff)
	}
	again := s.sync()
	if again.Kind != "none" || again.Requests != 1 || again.Fetched != 0 {
		t.Fatalf("nothing changed, and: %+v", again)
	}
	edited := post{id: "tag:test,2024:p2", day: 9, text: "edited"}
	older := post{id: "tag:test,2024:p3", day: 2, text: "older"}
	s.feed(append(posts(4, 5), edited, older)...) // p1 is not in it any more
	if got := s.sync(); got.Kind != "incremental" || got.Fetched != 4 || got.GapsFound != 0 {
		t.Fatalf("two new ones, an edit, and one that went back: %+v", got)
	}
	all := textsOf(append(posts(1, 5), edited, older)...)
	if diff := cmp.Diff(all, s.texts()); diff != "" {
		t.Fatal(diff)
	}
	s.feed(post{id: "tag:test,2024:p5", day: 6, gone: true}, post{id: "tag:test,2024:p4", day: 3, gone: true}, posts(5, 5)[0])
	if got := s.sync(); got.Deleted != 1 {
		t.Fatalf("one tombstone is newer than its entry, one older: %+v", got)
	}
	delete(all, "p5")
	if diff := cmp.Diff(all, s.texts()); diff != "" {
		t.Fatal(diff)
	}
	if gaps := s.gapsOf(); len(gaps) != 0 {
		t.Fatalf("gaps %+v", gaps)
	}
}

// TestFeedKeys: the file of an entry lies in the folder of its feed under its escaped id (contract.md 5).
func TestFeedKeys(t *testing.T) {
	t.Parallel()
	long := "urn:" + strings.Repeat("x/", 150)
	s := newSite(t, nil, post{id: "https://blog.example/?p=1&amp;q", day: 1, text: "a"}, post{id: "../../etc/passwd", day: 2, text: "b"},
		post{id: "CON", day: 3, text: "c"}, post{id: long, day: 4, text: "d"}, post{id: "Löwe %2F x", day: 5, text: "e"})
	s.sync()
	host := strings.ReplaceAll(strings.TrimPrefix(s.srv.URL, "http://"), ":", "_")
	for _, name := range []string{"https%3A%2F%2Fblog.example%2F%3Fp=1%26q.xml", "..%2F..%2Fetc%2Fpasswd.xml", "%43ON.xml", "L%C3%B6we%20%2F%20x.xml"} {
		if _, err := os.Stat(filepath.Join(s.root, host, "feed.atom", name)); err != nil {
			t.Error(err)
		}
	}
	if n := len(s.texts()); n != 5 {
		t.Errorf("%d files", n)
	}
}

// TestFeedReachesBack: archives are walked back to what is known; where there are none, the hole is recorded for ever.
func TestFeedReachesBack(t *testing.T) {
	t.Parallel()
	archive := func(s *site, n, first, last int) {
		link := ""
		if n > 1 {
			link = fmt.Sprintf(`<link rel="prev-archive" href="/archive/%d"/>`, n-1)
		}
		s.set(fmt.Sprintf("/archive/%d", n), page{typ: "application/atom+xml", body: atom("<fh:archive/>"+link, posts(first, last)...)})
	}
	current := func(s *site, n, first, last int) {
		s.set(feedPath, page{typ: "application/atom+xml",
			body: atom(fmt.Sprintf(`<link rel="prev-archive" href="archive/%d"/>`, n), posts(first, last)...)})
	}
	t.Run("archives", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, nil)
		archive(s, 1, 1, 10)
		archive(s, 2, 11, 20)
		current(s, 2, 21, 25)
		if first := s.sync(); first.Fetched != 25 || first.Requests != 3 {
			t.Fatalf("the first run reads all of the history: %+v", first)
		}
		for n := 3; n <= 6; n++ {
			archive(s, n, n*10-9, n*10)
		}
		current(s, 6, 61, 63)
		if got := s.sync(); got.Fetched != 38 || got.GapsFound != 0 || got.Requests != 5 {
			t.Fatalf("25 is in archive 3, which is as far as it has to go: %+v", got)
		}
		if diff := cmp.Diff(textsOf(posts(1, 63)...), s.texts()); diff != "" {
			t.Fatal(diff)
		}
		archive(s, 7, 61, 70)
		current(s, 7, 71, 72)
		s.set("/archive/7", page{status: 503})
		s.opts.RetryFor = 0
		res, err := s.run()
		if err != nil || res.InStep || res.Problem == "" {
			t.Fatalf("an archive that cannot be read: %+v, %v", res, err)
		}
		archive(s, 7, 61, 70)
		if got := s.sync(); got.GapsFound != 0 {
			t.Fatalf("it can be read again: %+v", got)
		}
		if diff := cmp.Diff(textsOf(posts(1, 72)...), s.texts()); diff != "" {
			t.Fatal(diff)
		}
	})
	t.Run("pages", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, nil, posts(1, 5)...)
		s.sync()
		s.set(feedPath, page{body: atom(`<link rel="next" href="/feed.atom/2"/>`, posts(20, 24)...)})
		s.set("/feed.atom/2", page{body: atom(`<link rel="next" href="/feed.atom/3"/>`, posts(8, 19)...)})
		s.set("/feed.atom/3", page{body: atom(`<link rel="next" href="/feed.atom/4"/>`, posts(4, 7)...)})
		s.set("/feed.atom/4", page{body: atom(`<link rel="next" href="/feed.atom/4"/>`, posts(1, 3)...)})
		if got := s.sync(); got.GapsFound != 0 || got.Requests != 3 {
			t.Fatalf("%+v", got)
		}
		if diff := cmp.Diff(textsOf(posts(1, 24)...), s.texts()); diff != "" {
			t.Fatal(diff)
		}
	})
	t.Run("lost", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, nil, posts(1, 10)...)
		s.sync()
		s.feed(posts(31, 40)...)
		got := s.sync()
		if got.GapsFound != 1 || got.GapsClosed != 0 {
			t.Fatalf("%+v", got)
		}
		gaps := s.gapsOf()
		if len(gaps) != 1 || gaps[0].State != store.GapUnprovable || gaps[0].From != store.MicrosOf(on(10)) || gaps[0].Until != store.MicrosOf(on(31)) {
			t.Fatalf("gaps %+v", gaps)
		}
		s.feed(posts(33, 42)...)
		if got := s.sync(); got.GapsFound != 0 {
			t.Fatalf("that one reaches back: %+v", got)
		}
	})
}

// TestFeedHoles: what is no hole must not be called one, and what is one must not hide behind a pinned entry.
func TestFeedHoles(t *testing.T) {
	t.Parallel()
	pinned := post{id: "tag:test,2024:pinned", day: 1, text: "read me first"}
	status := func(day int) post {
		return post{id: "tag:test,2024:status", day: day, text: fmt.Sprint("status ", day)}
	}
	undated := func(first, last int) []post {
		out := posts(first, last)
		for i := range out {
			out[i].day = 0
		}
		return out
	}
	reversed := func(p []post) []post { slices.Reverse(p); return p }
	edited := func(p []post) []post {
		for i := range p {
			p[i].text += ", edited"
		}
		return p
	}
	for name, c := range map[string]struct {
		was, now []post
		gaps     int64
	}{
		"nothing new":                   {was: posts(1, 5), now: posts(1, 5)},
		"some new":                      {was: posts(1, 5), now: posts(3, 8)},
		"all new":                       {was: posts(1, 5), now: posts(6, 9), gaps: 1},
		"pinned among all new":          {was: append([]post{pinned}, posts(2, 6)...), now: append([]post{pinned}, posts(20, 25)...), gaps: 1},
		"one entry, always newer":       {was: []post{status(1)}, now: []post{status(9)}},
		"emptied":                       {was: posts(1, 5), now: nil},
		"first entries":                 {was: nil, now: posts(1, 5)},
		"newest deleted":                {was: posts(1, 6), now: posts(2, 5)},
		"moved up":                      {was: posts(1, 4), now: []post{{id: "tag:test,2024:p4", day: 30, text: "late edit"}, posts(29, 29)[0], posts(28, 28)[0]}, gaps: 1},
		"undated, some new":             {was: undated(1, 5), now: undated(3, 8)},
		"undated, all new":              {was: undated(1, 5), now: undated(6, 9), gaps: 1},
		"undated, oldest first":         {was: reversed(undated(1, 10)), now: reversed(undated(6, 14))},
		"undated, all edited":           {was: undated(1, 10), now: edited(undated(6, 14))},
		"oldest first":                  {was: reversed(posts(1, 10)), now: reversed(posts(6, 14))},
		"older ones, never seen":        {was: posts(5, 9), now: posts(1, 3), gaps: 1},
		"a pin, and some new":           {was: append([]post{pinned}, posts(2, 12)...), now: append([]post{pinned}, posts(9, 18)...)},
		"a pin, and as good as all new": {was: append([]post{pinned}, posts(2, 12)...), now: append([]post{pinned}, posts(11, 20)...), gaps: 1},
		"half deleted":                  {was: posts(1, 9), now: append(posts(20, 22), posts(9, 9)[0], posts(7, 7)[0], posts(6, 6)[0])},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, nil, c.was...)
			s.sync()
			s.feed(c.now...)
			if got := s.sync(); got.GapsFound != c.gaps {
				t.Errorf("%d gaps, want %d", got.GapsFound, c.gaps)
			}
			if diff := cmp.Diff(textsOf(append(append([]post{}, c.was...), c.now...)...), s.texts()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestFeedReplaced: what answers in place of a feed that was followed changes nothing (F58).
func TestFeedReplaced(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, posts(1, 3)...)
	s.sync()
	for name, p := range map[string]page{
		"maintenance": {typ: "text/html", body: "<html><body>back soon</body></html>"},
		"empty":       {typ: "application/atom+xml"},
		"gone":        {status: 404},
		"broken":      {typ: "application/atom+xml", body: atom("", posts(1, 9)...)[:300]},
	} {
		s.set(feedPath, p)
		res, err := s.run()
		if err == nil && (res.InStep || res.Problem == "") {
			t.Errorf("%s: %+v", name, res)
		}
		if diff := cmp.Diff(textsOf(posts(1, 3)...), s.texts()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if n := len(s.files()); n != 3 {
			t.Errorf("%s: %d files", name, n)
		}
	}
	s.feed(posts(2, 4)...)
	s.sync()
	if diff := cmp.Diff(textsOf(posts(1, 4)...), s.texts()); diff != "" {
		t.Error(diff)
	}
}

// TestFeedKilledAtEachStep kills a catch-up after each of its durable steps (F2): the next one ends as if nothing had
// happened, although the feed does not show any more what the killed one had read.
func TestFeedKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for steps := int64(0); ; steps++ {
		s := newSite(t, nil, posts(1, 4)...)
		s.mirror.Unsynced = true
		s.sync()
		edited := post{id: "tag:test,2024:p2", day: 8, text: "edited"}
		s.feed(append(posts(3, 7), edited, post{id: "tag:test,2024:p1", day: 8, gone: true})...)
		survived := s.dieAfter(steps)
		s.feed(append(posts(4, 7), edited, post{id: "tag:test,2024:p1", day: 8, gone: true})...)
		s.sync()
		if diff := cmp.Diff(textsOf(append(posts(3, 7), edited)...), s.texts()); diff != "" {
			t.Fatalf("killed after %d steps: %s", steps, diff)
		}
		s.tidy()
		if survived {
			t.Logf("%d steps", steps)
			return
		}
	}
}

// TestFeedComesBack: an entry without a date that the feed shows again after its end is there again, whether or not the
// tombstone still stands below it; above it the tombstone is the newer one.
func TestFeedComesBack(t *testing.T) {
	t.Parallel()
	entry := post{id: "tag:test,2024:p1", text: "one"}
	again := post{id: entry.id, text: "again"}
	end := post{id: entry.id, day: 3, gone: true}
	s := newSite(t, nil, entry)
	s.sync()
	for _, step := range []struct {
		name  string
		posts []post
		text  string
	}{
		{"ended", []post{end}, ""},
		{"back", []post{again}, "again"},
		{"back, its end below", []post{entry, end}, "one"},
		{"ended, its text below", []post{end, entry}, ""},
	} {
		s.feed(step.posts...)
		s.sync()
		if got := s.texts()["p1"]; got != step.text {
			t.Errorf("%s: %q, want %q", step.name, got, step.text)
		}
	}
}

// TestFeedArchiveComesBack: an archive that is not there for a while hides nothing for ever; one that stays gone ends the
// history, and the hole is told.
func TestFeedArchiveComesBack(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, posts(1, 5)...)
	s.sync()
	current := page{typ: "application/atom+xml", body: atom(`<link rel="prev-archive" href="/old"/>`, posts(20, 25)...)}
	s.set(feedPath, current)
	for range pull.GoneReads - 1 {
		if res, err := s.run(); err != nil || res.InStep || res.GapsFound != 0 {
			t.Fatalf("its archive is not there: %+v, %v", res, err)
		}
	}
	s.set("/old", page{typ: "application/atom+xml", body: atom("<fh:archive/>", posts(1, 19)...)})
	if res := s.sync(); res.GapsFound != 0 {
		t.Errorf("its archive is there again: %+v", res)
	}
	if diff := cmp.Diff(textsOf(posts(1, 25)...), s.texts()); diff != "" {
		t.Error(diff)
	}
	s.set(feedPath, page{typ: "application/atom+xml", body: atom(`<link rel="prev-archive" href="/none"/>`, posts(40, 45)...)})
	for range pull.GoneReads - 1 {
		if res, err := s.run(); err != nil || res.InStep {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	if res := s.sync(); res.GapsFound != 1 {
		t.Errorf("it stays gone: %+v", res)
	}
}
