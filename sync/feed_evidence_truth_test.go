package sync

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFeedEvidencePageInPlace (N3): a page that answers with 200 in the place of a feed that was followed says nothing, also
// not by the feed that it links to.
func TestFeedEvidencePageInPlace(t *testing.T) {
	t.Parallel()
	for _, kind := range []Kind{KindFeed, ""} {
		t.Run(fmt.Sprintf("kind %q", kind), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, func(target *Target) { target.Kind = kind }, posts(1, 3)...)
			s.sync()
			s.set("/comments", atomPage("", post{id: "tag:test,2024:comment", day: 9, text: "spam"},
				post{id: "tag:test,2024:p2", day: 9, gone: true}))
			s.set(feedPath, page{typ: "text/html",
				body: `<html><head><link rel="alternate" type="application/atom+xml" href="/comments"></head><body>oops</body></html>`})
			for range 2 {
				if res, err := s.run(); err == nil && (res.InStep || res.Problem == "") {
					t.Errorf("a page in the feed's place: %+v", res)
				}
				if diff := cmp.Diff(textsOf(posts(1, 3)...), s.texts()); diff != "" {
					t.Fatal(diff)
				}
			}
			s.feed(posts(2, 5)...)
			s.sync()
			if diff := cmp.Diff(textsOf(posts(1, 5)...), s.texts()); diff != "" {
				t.Error(diff)
			}
			if gaps := s.gapsOf(); len(gaps) != 0 {
				t.Errorf("gaps %+v", gaps)
			}
		})
	}
}

// TestFeedEvidenceBackwards (N4): what a feed shows steadily counts, whatever its dates were: a Source may be restored from a
// backup, publish again what it deleted, or mend its time zone.
func TestFeedEvidenceBackwards(t *testing.T) {
	t.Parallel()
	e := func(day int, text string) post { return post{id: "tag:test,2024:e", day: day, text: text} }
	gone := func(day int) post { return post{id: "tag:test,2024:e", day: day, gone: true} }
	for name, c := range map[string]struct {
		was []post // one reading each
		now post
	}{
		"restored":                    {[]post{e(5, "new")}, e(3, "old")},
		"published again":             {[]post{e(3, "v1"), gone(5)}, e(3, "v1")},
		"again within the second":     {[]post{e(3, "v1"), gone(5)}, e(5, "again")},
		"dated ahead, then put right": {[]post{e(365*40, "wrong"), e(4, "right")}, e(3, "again")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, nil, posts(1, 2)...)
			for _, p := range append(c.was, c.now) {
				s.feed(append([]post{p}, posts(1, 2)...)...)
				res, err := s.run()
				if err != nil {
					t.Fatal(err)
				}
				if lost := s.silent(res, nil, p); len(lost) > 0 {
					t.Errorf("the feed shows %+v: %v", p, lost)
				}
			}
			s.opts.Full = true
			s.sync()
			if got := s.texts()["e"]; got != c.now.text {
				t.Errorf("%q after a full run, want %q", got, c.now.text)
			}
		})
	}
}

// TestFeedEvidenceComplete (N7): a feed that says it is complete is the whole set (RFC 5005, 2), so what it does not show is
// gone; too much of that at once is asked of the operator, as with any baseline.
func TestFeedEvidenceComplete(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	show := func(first, last int) { s.set(feedPath, atomPage("<fh:complete/>", posts(first, last)...)) }
	show(1, 20)
	s.sync()
	show(3, 20)
	if res := s.sync(); res.Deleted != 2 {
		t.Errorf("two entries are gone: %+v", res)
	}
	if diff := cmp.Diff(textsOf(posts(3, 20)...), s.texts()); diff != "" {
		t.Error(diff)
	}
	show(15, 20)
	res, err := s.run()
	if err != nil || res.InStep || res.Held != 12 {
		t.Errorf("two thirds are gone: %+v, %v", res, err)
	}
	if n := len(s.texts()); n != 18 {
		t.Errorf("%d of 18 are left before anybody was asked", n)
	}
	show(3, 20)
	s.sync()
	if diff := cmp.Diff(textsOf(posts(3, 20)...), s.texts()); diff != "" {
		t.Error(diff)
	}
}

// archived is a followed feed of five entries with twenty more in its archive.
func archived(t *testing.T) *site {
	t.Helper()
	s := clocked(t, map[string]page{
		"/old":   atomPage("<fh:archive/>", posts(1, 20)...),
		feedPath: atomPage(prevArchive("/old"), posts(21, 25)...),
	})
	if n := len(s.texts()); n != 25 {
		t.Fatalf("%d of 25", n)
	}
	return s
}

// TestFeedEvidenceForgedBeyondWindow (N8): what a hub signs about entries older than the feed's newest document stands no longer
// than what it signs about others, and a full run that reads the archive believes the archive.
func TestFeedEvidenceForgedBeyondWindow(t *testing.T) {
	t.Parallel()
	var ends []post
	for _, p := range posts(1, 25) {
		ends = append(ends, post{id: p.id, day: 200, gone: true})
	}
	for name, forged := range map[string][]post{
		"tombstones": ends,
		"few":        ends[22:],
		"text":       {{id: "tag:test,2024:p3", day: 300, text: "forged"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := archived(t)
			s.push(forged...)
			s.rested()
			s.afterLag(t)
			res := s.pull(false)
			s.rested()
			if lost := s.silent(res, nil, posts(1, 25)...); len(lost) > 0 {
				t.Errorf("after a pull: %v", lost)
			}
			res = s.pull(true)
			s.rested()
			if lost := s.silent(res, nil, posts(1, 25)...); len(lost) > 0 || !res.InStep {
				t.Errorf("after a full one, in step %t: %v", res.InStep, lost)
			}
		})
	}
}

// TestFeedEvidenceForgedGuard (N8): a hub does not empty a mirror; deletions that only a push told count for delete_guard.
func TestFeedEvidenceForgedGuard(t *testing.T) {
	t.Parallel()
	s := archived(t)
	for _, p := range posts(1, 20) { // one after the other, so that no single one is too much
		s.push(post{id: p.id, day: 200, gone: true})
	}
	s.eventually("all are taken up", func() bool {
		size, err := waiting(s.store)
		return err == nil && size.Deliveries == 0 && s.f.Idle()
	})
	if n := len(s.texts()); n < 25*8/10 {
		t.Errorf("a hub left %d of 25", n)
	}
}
