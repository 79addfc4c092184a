package sync

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"resyncd/store"
	"resyncd/sync/plan"
	"resyncd/sync/pull"
)

// atomPage is a feed's document with XML of feed-level elements.
func atomPage(head string, posts ...post) page {
	return page{typ: "application/atom+xml", body: atom(head, posts...)}
}

func prevArchive(path string) string { return fmt.Sprintf(`<link rel="prev-archive" href=%q/>`, path) }
func nextPage(path string) string    { return fmt.Sprintf(`<link rel="next" href=%q/>`, path) }

// silent are the posts that the mirror does not have although the set is in step and no gap that stays open for ever covers
// their day. A user who reads `status` takes them for mirrored.
func (s *site) silent(res Result, gaps []store.Gap, all ...post) (out []string) {
	s.t.Helper()
	if !res.InStep {
		return nil
	}
	got := s.texts()
	for _, p := range all {
		id := strings.TrimPrefix(p.id, "tag:test,2024:")
		if text, there := got[id]; there == !p.gone && (p.gone || text == p.text) {
			continue
		}
		at := store.MicrosOf(on(p.day))
		if !slices.ContainsFunc(gaps, func(g store.Gap) bool {
			return g.State == store.GapUnprovable && g.From <= at && at <= g.Until
		}) {
			out = append(out, fmt.Sprintf("%s is %q", id, got[id]))
		}
	}
	return out
}

// rested waits until a Follower has nothing to do.
func (s *site) rested() {
	s.t.Helper()
	s.eventually("nothing is left to do", s.quiet)
}

// afterLag is a new start of the Follower once the feed had the time to show what was pushed.
func (s *site) afterLag(t *testing.T) {
	t.Helper()
	s.stop()
	s.late += 2 * time.Minute
	s.follow(t)
}

// clocked is a followed site whose clock can be put ahead.
func clocked(t *testing.T, pages map[string]page) *site {
	t.Helper()
	s := newSite(t, nil)
	for path, p := range pages {
		s.set(path, p)
	}
	s.engine = func(e *Engine) { e.Now = func() time.Time { return time.Now().Add(s.late) } }
	s.follow(t)
	s.pull(false)
	s.rested()
	return s
}

// TestFeedEvidencePushLostBurst (N1): a hub that was down for longer than a window and pushes again hides nothing. That all
// that the feed shows was pushed does not say that all was.
func TestFeedEvidencePushLostBurst(t *testing.T) {
	t.Parallel()
	s := begun(t, nil, posts(1, 10)...)
	s.rested()
	for day := 31; day <= 40; day++ { // 11 to 30 were never delivered
		s.feed(posts(day-9, day)...)
		s.push(posts(day, day)...)
	}
	s.rested()
	res := s.pull(false)
	s.rested()
	if lost := s.silent(res, s.listed(), posts(1, 40)...); len(lost) > 0 {
		t.Errorf("lost in silence: %v", lost)
	}
}

// TestFeedEvidenceBusy (N1): a busy feed is read before half a window has passed by, or no reading of it would ever meet the
// one before.
func TestFeedEvidenceBusy(t *testing.T) {
	t.Parallel()
	s := begun(t, nil, posts(1, 10)...)
	s.rested()
	reads := func() int {
		return len(slices.DeleteFunc(s.requests(), func(path string) bool { return path != feedPath }))
	}
	for day := 11; day <= 40; day += 6 {
		before := reads()
		for d := day; d < day+6; d++ {
			s.feed(posts(d-9, d)...)
			s.push(posts(d, d)...)
		}
		for end := time.Now().Add(3 * time.Second); reads() == before; <-time.After(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("more than half a window was pushed, and the feed is not read")
			}
		}
		s.rested()
	}
	if gaps := s.listed(); len(gaps) != 0 {
		t.Errorf("all was pushed and read in time: %+v", gaps)
	}
}

// TestFeedEvidencePinnedNewest (N2): the newest entry of one reading that is pinned from then on meets nothing.
func TestFeedEvidencePinnedNewest(t *testing.T) {
	t.Parallel()
	pin := post{id: "tag:test,2024:pin", day: 10, text: "pin"}
	s := newSite(t, nil, append([]post{pin}, posts(1, 9)...)...)
	s.sync()
	s.feed(append([]post{pin}, posts(31, 39)...)...)
	res := s.sync()
	if lost := s.silent(res, s.gapsOf(), posts(10, 39)...); len(lost) > 0 {
		t.Errorf("lost in silence: %v", lost)
	}
}

// TestFeedEvidenceFuture (N2): entries dated ahead stand for long and meet nothing; archives that are there are read.
func TestFeedEvidenceFuture(t *testing.T) {
	t.Parallel()
	var events []post
	for i := range 6 {
		events = append(events, post{id: fmt.Sprintf("tag:test,2024:event%d", i), day: 365*20 + i, text: "event"})
	}
	s := newSite(t, nil, append(events, posts(1, 5)...)...)
	s.sync()
	for _, first := range []int{31, 61, 91} {
		s.set("/old", atomPage("<fh:archive/>", posts(1, first-1)...))
		s.set(feedPath, atomPage(prevArchive("/old"), append(slices.Clone(events), posts(first, first+4)...)...))
		s.sync()
	}
	if n := len(s.texts()); n != 95+6 {
		t.Errorf("%d of 101; gaps %+v", n, s.gapsOf())
	}
}

// TestFeedEvidenceFirstWalkArchiveGone (N5): a history that broke off at the first walk is said to have a hole, and what comes
// back is read.
func TestFeedEvidenceFirstWalkArchiveGone(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.set(feedPath, atomPage(prevArchive("/old"), posts(20, 25)...))
	for range pull.GoneReads + 1 {
		res, err := s.run()
		if err != nil {
			t.Fatal(err)
		}
		if lost := s.silent(res, s.gapsOf(), posts(1, 25)...); len(lost) > 0 {
			t.Fatalf("lost in silence: %v", lost)
		}
	}
	s.set("/old", atomPage("<fh:archive/>", posts(1, 19)...))
	for last := 26; last <= 27; last++ {
		s.set(feedPath, atomPage(prevArchive("/old"), posts(20, last)...))
		s.sync()
	}
	if n := len(s.texts()); n != 27 {
		t.Errorf("the archive is there again: %d of 27", n)
	}
}

// TestFeedEvidenceFlawedFallsOff (N6): an entry that could not be read and has left the window is not forgotten.
func TestFeedEvidenceFlawedFallsOff(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, posts(1, 5)...)
	s.sync()
	s.set(feedPath, atomPage("<at:deleted-entry/>", posts(3, 5)...))
	if res, err := s.run(); err != nil || res.InStep {
		t.Fatalf("an entry cannot be read: %+v, %v", res, err)
	}
	s.feed(posts(5, 9)...)
	res, err := s.run()
	if err != nil || res.InStep && !slices.ContainsFunc(s.gapsOf(), func(g store.Gap) bool { return g.State == store.GapUnprovable }) {
		t.Errorf("what it said is lost, and nothing says so: %+v, %v", res, err)
	}
}

// TestFeedEvidenceFlawedArchives: one archive with an unreadable entry is gone for good, another is only out of order now.
func TestFeedEvidenceFlawedArchives(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.set("/a1", atomPage("<at:deleted-entry/>", posts(1, 2)...))
	s.set("/a2", atomPage(prevArchive("/a1")+"<at:deleted-entry/>", posts(3, 4)...))
	s.set(feedPath, atomPage(prevArchive("/a2"), posts(5, 6)...))
	if res, err := s.run(); err != nil || res.InStep {
		t.Fatalf("entries cannot be read: %+v, %v", res, err)
	}
	s.set("/a2", page{status: http.StatusGone})
	s.set("/a1", page{status: http.StatusForbidden})
	if res, err := s.run(); err != nil || res.GapsFound == 0 {
		t.Errorf("what the archive that is gone said is lost, and nothing says so: %+v, %v", res, err)
	}
}

// TestFeedEvidenceRecordsLate (N9): when an edit was observed says nothing about when it was published.
func TestFeedEvidenceRecordsLate(t *testing.T) {
	t.Parallel()
	edits := func(first, last int) string {
		var out []fieldEdit
		for day := last; day >= first; day-- {
			out = append(out, fieldEdit{subject: fmt.Sprintf("s/%d", day), author: "tel:+1", day: day, fields: map[string]string{"title": fmt.Sprint(day)}})
		}
		return recordFeed(out...)
	}
	s := newSite(t, func(target *Target) { target.Records = plan.RecordsResourceFinder })
	s.set(feedPath, page{body: edits(101, 110)})
	s.sync()
	s.set(feedPath, page{body: edits(50, 59)}) // uploaded late; others stood there in between
	if res, err := s.run(); err != nil || res.InStep && res.GapsFound == 0 {
		t.Errorf("ten new edits and none that was known: %+v, %v", res, err)
	}
}

// TestFeedEvidenceModerated (N9): entries of which the dates lie below the newest known may be new all the same.
func TestFeedEvidenceModerated(t *testing.T) {
	t.Parallel()
	named := func(name string, first, last int) (out []post) {
		for day := last; day >= first; day-- {
			out = append(out, post{id: fmt.Sprintf("tag:test,2024:%s%d", name, day), day: day, text: fmt.Sprint(name, day)})
		}
		return out
	}
	s := newSite(t, nil, append(named("hot", 50, 50), named("a", 1, 9)...)...)
	s.sync()
	s.feed(named("c", 10, 19)...) // b10 to b19 stood there in between
	if res, err := s.run(); err != nil || res.InStep && res.GapsFound == 0 {
		t.Errorf("ten new entries and none that was known: %+v, %v", res, err)
	}
}

// TestFeedEvidenceOldestFirstPages (N11): where pages are not newest first, what is new is on a later one.
func TestFeedEvidenceOldestFirstPages(t *testing.T) {
	t.Parallel()
	ascending := func(first, last int, dated bool) []post {
		out := posts(first, last)
		slices.Reverse(out)
		for i := range out {
			if !dated {
				out[i].day = 0
			}
		}
		return out
	}
	for _, dated := range []bool{true, false} {
		for _, touched := range []bool{false, true} { // else a 304 hides what is behind the first page
			t.Run(fmt.Sprintf("dated %t, first page changes %t", dated, touched), func(t *testing.T) {
				t.Parallel()
				s := newSite(t, nil)
				s.set(feedPath, atomPage(nextPage("/2"), ascending(1, 5, dated)...))
				s.set("/2", atomPage("", ascending(6, 8, dated)...))
				s.sync()
				s.set("/2", atomPage("", ascending(6, 10, dated)...))
				if touched {
					s.set(feedPath, atomPage(nextPage("/2")+"<subtitle>x</subtitle>", ascending(1, 5, dated)...))
				}
				res, err := s.run()
				if err != nil {
					t.Fatal(err)
				}
				if lost := s.silent(res, s.gapsOf(), posts(1, 10)...); len(lost) > 0 {
					t.Errorf("never seen: %v", lost)
				}
			})
		}
	}
}

// TestFeedEvidenceNextAndArchive (N12): a document of two pages has archives behind the second.
func TestFeedEvidenceNextAndArchive(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.set(feedPath, atomPage(nextPage("/2")+prevArchive("/a"), posts(11, 15)...))
	s.set("/2", atomPage(prevArchive("/a"), posts(6, 10)...))
	s.set("/a", atomPage("<fh:archive/>", posts(1, 5)...))
	s.sync()
	if n := len(s.texts()); n != 15 {
		t.Errorf("%d of 15", n)
	}
	s.set("/b", atomPage("<fh:archive/>"+prevArchive("/a"), posts(6, 20)...))
	s.set(feedPath, atomPage(nextPage("/2")+prevArchive("/b"), posts(26, 30)...))
	s.set("/2", atomPage(prevArchive("/b"), posts(21, 25)...))
	s.sync()
	if n := len(s.texts()); n != 30 {
		t.Errorf("%d of 30", n)
	}
}

// TestFeedEvidencePagesMost (N14): a history that is longer than what one pull reads is not said to be read whole.
func TestFeedEvidencePagesMost(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("reads 20,000 documents")
	}
	s := newSite(t, nil)
	last := 12
	s.interpose(func(w http.ResponseWriter, r *http.Request) bool {
		var n int
		w.Header().Set("Content-Type", "application/atom+xml")
		switch _, err := fmt.Sscanf(r.URL.Path, "/archive/%d", &n); {
		case err != nil:
			_, _ = w.Write([]byte(atom(prevArchive(fmt.Sprint("/archive/", pull.PagesMost)), posts(11, last)...)))
		case n == 1:
			_, _ = w.Write([]byte(atom("<fh:archive/>", posts(1, 10)...)))
		default:
			_, _ = w.Write([]byte(atom("<fh:archive/>" + prevArchive(fmt.Sprint("/archive/", n-1)))))
		}
		return true
	})
	for ; last <= 13; last++ {
		res, err := s.run()
		if err != nil {
			t.Fatal(err)
		}
		if lost := s.silent(res, s.gapsOf(), posts(1, last)...); len(lost) > 0 {
			t.Errorf("never read: %v", lost)
		}
	}
}
