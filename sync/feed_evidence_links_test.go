package sync

import (
	"fmt"
	"strings"
	"testing"

	"resyncd/sync/keymap"
	"resyncd/sync/plan"
)

func enclosure(path string) string { return fmt.Sprintf(`<link rel="enclosure" href=%q/>`, path) }

func followsEnclosures(target *Target) { target.Follow = []string{"enclosure"} }

func text(body string) page { return page{typ: "text/plain", body: body} }

// holds reports whether the file of a path of the site has this text.
func (s *site) holds(path, body string) bool { return s.files()[s.key(path)] == sumOf(body) }

// TestFeedEvidenceEnclosureChanges (N10): bytes that change under an unchanged entry are seen by a full run, and by an audit.
func TestFeedEvidenceEnclosureChanges(t *testing.T) {
	t.Parallel()
	s := newSite(t, followsEnclosures, post{id: "tag:test,2024:p1", day: 5, text: "x"})
	s.feed(post{id: "tag:test,2024:p1", day: 5, text: "x", extra: enclosure("/a.txt")})
	s.set("/a.txt", text("one"))
	s.sync()
	s.set("/a.txt", text("two"))
	s.with(func(e *Engine, target Target) {
		rep, err := e.Audit(t.Context(), target, s.opts, false, func(Finding) error { return nil })
		if err != nil || rep.Problems != 1 {
			t.Errorf("audit: %+v, %v", rep, err)
		}
	})
	s.opts.Full = true
	if s.sync(); !s.holds("/a.txt", "two") {
		t.Error("a full run does not see it")
	}
	if res := s.sync(); res.Fetched != 0 {
		t.Errorf("and now it is the same: %+v", res)
	}
}

// TestFeedEvidenceEnclosureShared (N10): each entry that links to a file may tell that it changed.
func TestFeedEvidenceEnclosureShared(t *testing.T) {
	t.Parallel()
	for _, day := range []int{0, 5} {
		for _, first := range []bool{true, false} {
			t.Run(fmt.Sprintf("day %d, first %t", day, first), func(t *testing.T) {
				t.Parallel()
				s := newSite(t, followsEnclosures)
				for _, body := range []string{"one", "two", "three"} {
					s.set("/a.txt", text(body))
					same := post{id: "tag:test,2024:A", day: day, text: "same", extra: enclosure("/a.txt")}
					edited := post{id: "tag:test,2024:B", day: day, text: body, extra: enclosure("/a.txt")}
					if first {
						same, edited = edited, same
					}
					s.feed(same, edited)
					if s.sync(); !s.holds("/a.txt", body) {
						t.Errorf("%s: an entry changed with its enclosure, which did not", body)
					}
				}
			})
		}
	}
}

// TestFeedEvidenceEnclosureCorrected (N10): a link that never answered is owed no longer than an entry names it.
func TestFeedEvidenceEnclosureCorrected(t *testing.T) {
	t.Parallel()
	entry := func(day int, extra string, gone bool) post {
		return post{id: "tag:test,2024:p1", day: day, text: "x", extra: extra, gone: gone}
	}
	for name, next := range map[string]post{
		"corrected": entry(6, enclosure("/right.txt"), false),
		"left out":  entry(6, "", false),
		"deleted":   entry(6, "", true),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, followsEnclosures, entry(5, enclosure("/typo.txt"), false))
			s.set("/right.txt", text("one"))
			if res, err := s.run(); err != nil || res.Owed != 1 || res.InStep {
				t.Fatalf("%+v, %v", res, err)
			}
			s.feed(next, posts(1, 1)[0])
			s.sync()
			if name == "corrected" && !s.holds("/right.txt", "one") {
				t.Error("what it links to now is not there")
			}
		})
	}
}

// TestFeedEvidenceEnclosureKept: a file that arrived stays when its entry goes, and one that another entry names stays owed.
func TestFeedEvidenceEnclosureKept(t *testing.T) {
	t.Parallel()
	a := post{id: "tag:test,2024:a", day: 5, text: "x", extra: enclosure("/there.txt") + enclosure("/typo.txt")}
	b := post{id: "tag:test,2024:b", day: 5, text: "x", extra: enclosure("/typo.txt")}
	s := newSite(t, followsEnclosures, a, b)
	s.set("/there.txt", text("one"))
	if res, err := s.run(); err != nil || res.Owed != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	s.feed(post{id: a.id, day: 6, gone: true}, b)
	if res, err := s.run(); err != nil || res.Owed != 1 || res.InStep {
		t.Errorf("the other entry names it: %+v, %v", res, err)
	}
	if !s.holds("/there.txt", "one") {
		t.Error("what arrived is gone")
	}
	s.set("/typo.txt", text("two"))
	if s.sync(); !s.holds("/typo.txt", "two") {
		t.Error("it answers now")
	}
}

// TestFeedEvidenceEnclosuresMany (N10): links of one entry beyond the bound are mirrored or counted.
func TestFeedEvidenceEnclosuresMany(t *testing.T) {
	t.Parallel()
	s := newSite(t, followsEnclosures)
	var b strings.Builder
	for i := range plan.FollowMost + 6 {
		path := fmt.Sprintf("/e%d", i)
		b.WriteString(enclosure(path))
		s.set(path, text(fmt.Sprint(i)))
	}
	s.feed(post{id: "tag:test,2024:p1", day: 5, text: "x", extra: b.String()})
	res, err := s.run()
	if err != nil || res.Fetched+res.Refused != plan.FollowMost+6+1 && res.InStep {
		t.Errorf("70 links and an entry: %+v, %v", res, err)
	}
}

// TestFeedEvidenceFollowedLater (N13): what is to be followed or merged from now on comes from what is known already, behind a
// 304, in the window and in the archive.
func TestFeedEvidenceFollowedLater(t *testing.T) {
	t.Parallel()
	t.Run("follow", func(t *testing.T) {
		t.Parallel()
		follow := []string(nil)
		s := newSite(t, func(target *Target) { target.Follow = follow })
		linking := func(day int) post {
			p := posts(day, day)[0]
			path := fmt.Sprintf("/e%d", day)
			s.set(path, text(path))
			p.extra = enclosure(path)
			return p
		}
		s.set("/old", atomPage("<fh:archive/>", linking(1)))
		s.set(feedPath, atomPage(prevArchive("/old"), linking(2)))
		s.sync()
		follow = []string{"enclosure"}
		s.sync()
		for _, path := range []string{"/e1", "/e2"} {
			if !s.holds(path, path) {
				t.Errorf("%s is not there", path)
			}
		}
		if res := s.sync(); res.Kind != "none" {
			t.Errorf("once that is done: %+v", res)
		}
	})
	t.Run("records", func(t *testing.T) {
		t.Parallel()
		records := ""
		s := newSite(t, func(target *Target) { target.Records = records })
		s.set(feedPath, page{body: recordFeed(fieldEdit{subject: "s", author: "tel:+1", day: 1, fields: map[string]string{"title": "1"}})})
		s.sync()
		records = plan.RecordsResourceFinder
		s.sync()
		found := false
		for key := range s.files() {
			found = found || strings.HasSuffix(key, keymap.RecordLeaf)
		}
		if !found {
			t.Errorf("no record: %v", s.files())
		}
	})
}

// TestFeedEvidenceSameSecond (N16): two edits of one field, second and author cannot be told apart by their key, so the
// greater value wins whatever their order; an erasure never does. It is documented, because any other choice would depend on
// the order in which they came.
func TestFeedEvidenceSameSecond(t *testing.T) {
	t.Parallel()
	edit := func(beds string) fieldEdit {
		return fieldEdit{subject: "s", author: "tel:+1", day: 1, fields: map[string]string{"available_beds": beds}}
	}
	for _, order := range [][]fieldEdit{{edit("5"), edit("")}, {edit(""), edit("5")}} {
		s := newSite(t, func(target *Target) { target.Records = plan.RecordsResourceFinder })
		s.set(feedPath, page{body: recordFeed(order[0])})
		s.sync()
		s.set(feedPath, page{body: recordFeed(order[1], order[0])})
		s.sync()
		if got := s.record("s").Fields["available_beds"].Value; got != "5" {
			t.Errorf("%v: %q", order, got)
		}
	}
}
