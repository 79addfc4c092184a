package sync

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/store"
	"resyncd/sync/keymap"
	"resyncd/sync/plan"
	"resyncd/sync/pull"
	"resyncd/sync/transfer"
	"resyncd/sync/window"
)

// claimed hands the store and a claim on the only Source to work, outside a run.
func (s *site) claimed(work func(st store.Store, c store.Claim)) {
	s.t.Helper()
	s.with(func(e *Engine, _ Target) {
		src, err := e.Store.Source(context.Background(), "test")
		if err != nil {
			s.t.Fatal(err)
		}
		c, release, err := e.Store.Claim(context.Background(), src.ID, "test")
		if err != nil {
			s.t.Fatal(err)
		}
		work(e.Store, c)
		if err := release(); err != nil {
			s.t.Fatal(err)
		}
	})
}

// TestFeedBroken: the entries before the place where a feed breaks off count, however long it stays broken (P11).
func TestFeedBroken(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	whole := atom("", posts(1, 5)...)
	s.set(feedPath, page{typ: "application/atom+xml", body: whole[:strings.Index(whole, "tag:test,2024:p2")]})
	for range 2 {
		if res, err := s.run(); err != nil || res.InStep || res.Unavailable {
			t.Fatalf("%+v, %v", res, err)
		}
		if diff := cmp.Diff(textsOf(posts(3, 5)...), s.texts()); diff != "" {
			t.Fatal(diff)
		}
	}
	s.feed(posts(1, 5)...)
	s.sync()
}

// TestFeedEmptiedForAWhile: a feed that shows nothing for once is still held against what it showed before; one that had
// nothing at first is read whole once it has.
func TestFeedEmptiedForAWhile(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, posts(1, 5)...)
	s.sync()
	s.feed()
	s.sync()
	s.feed(posts(21, 25)...)
	if got := s.sync(); got.GapsFound != 1 {
		t.Errorf("%+v", got)
	}
	fresh := newSite(t, nil)
	fresh.sync()
	fresh.set("/2", page{body: atom("", posts(1, 4)...)})
	fresh.set(feedPath, page{body: atom(`<link rel="next" href="/2"/>`, posts(5, 8)...)})
	if got := fresh.sync(); got.GapsFound != 0 {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff(textsOf(posts(1, 8)...), fresh.texts()); diff != "" {
		t.Error(diff)
	}
}

// TestFeedAscending: a long feed that begins with its oldest entry is known by its newest ones.
func TestFeedAscending(t *testing.T) {
	t.Parallel()
	ascending := func(first, last int) string {
		all := make([]post, 0, last-first+1)
		for n := first; n <= last; n++ {
			all = append(all, post{id: fmt.Sprint("tag:test,2024:n", n), day: n, text: fmt.Sprint(n)})
		}
		return atom("", all...)
	}
	s := newSite(t, func(target *Target) { target.Exclude = []string{"tag:**"} }) // the files are not what this is about
	s.set(feedPath, page{body: ascending(1, 3*window.Most)})
	s.sync()
	s.set(feedPath, page{body: ascending(window.Most+10, 3*window.Most+10)})
	if got := s.sync(); got.GapsFound != 0 {
		t.Errorf("it slid on: %+v", got)
	}
}

// TestFeedLieUnchanged: what a hub made up lives until a pull, also of a feed that answers that it has not changed (P9).
func TestFeedLieUnchanged(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, posts(1, 4)...)
	s.engine = func(e *Engine) { e.Now = func() time.Time { return time.Now().Add(s.late) } }
	s.follow(t)
	s.pull(false)
	lie := post{id: "tag:test,2024:p3", day: 300, text: "lie"}
	s.push(lie)
	s.shows(textsOf(append(posts(1, 4), lie)...))
	s.pull(false)
	s.stop()
	s.late = 2 * time.Minute
	s.follow(t)
	s.pull(false)
	s.shows(textsOf(posts(1, 4)...))
	s.rig.mu.Lock()
	s.asks = nil
	s.rig.mu.Unlock()
	if res := s.pull(false); res.Kind != "none" {
		t.Errorf("once that is settled: %+v", res)
	}
}

// TestFeedPushedAll: that all that a feed shows was pushed does not say that all was, where it does not reach back to what the last
// pull saw.
func TestFeedPushedAll(t *testing.T) {
	t.Parallel()
	for _, records := range []bool{false, true} {
		t.Run(fmt.Sprint(records), func(t *testing.T) {
			t.Parallel()
			var tune func(*Target)
			if records {
				tune = func(target *Target) { target.Records = plan.RecordsResourceFinder }
			}
			body := func(first, last int) string {
				if !records {
					return atom("", posts(first, last)...)
				}
				var edits []fieldEdit
				for day := last; day >= first; day-- {
					edits = append(edits, fieldEdit{subject: "a/b", author: "tel:+1", day: day, fields: map[string]string{"title": fmt.Sprint(day)}})
				}
				return recordFeed(edits...)
			}
			s := newSite(t, tune)
			s.set(feedPath, page{body: body(1, 4)})
			s.follow(t)
			s.pull(false)
			for day := 5; day <= 20; day++ {
				s.deliver(noInterval, []byte(body(day, day)), true)
			}
			s.set(feedPath, page{body: body(17, 20)})
			s.eventually("all is there", s.quiet)
			s.pull(false)
			if gaps := s.listed(); len(gaps) != 1 {
				t.Errorf("all that it shows was pushed: %+v", gaps)
			}
			s.deliver(noInterval, []byte(body(40, 40)), true)
			s.set(feedPath, page{body: body(37, 40)})
			s.eventually("it is there", s.quiet)
			s.pull(false)
			if gaps := s.listed(); len(gaps) != 2 {
				t.Errorf("only one was pushed: %+v", gaps)
			}
		})
	}
}

// TestFeedHoleAfterCut: what an unfinished pull recorded is no evidence that nothing is missing.
func TestFeedHoleAfterCut(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, posts(1, 4)...)
	s.sync()
	s.set(feedPath, page{body: atom(`<link rel="next" href="/2"/>`, posts(20, 24)...)})
	s.set("/2", page{status: 503})
	if res, err := s.run(); err != nil || res.InStep {
		t.Fatalf("%+v, %v", res, err)
	}
	s.feed(posts(20, 24)...)
	if got := s.sync(); got.GapsFound != 1 {
		t.Errorf("%+v", got)
	}
}

// TestFeedLostBehindOwed: bytes that were lost are found to be, however much else is owed.
func TestFeedLostBehindOwed(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(target *Target) { target.Follow = []string{"enclosure"} })
	var extra strings.Builder
	var all []post
	for i := range pull.SweepPage + 20 {
		extra.Reset()
		fmt.Fprintf(&extra, `<link rel="enclosure" href="/missing/%d"/>`, i)
		all = append(all, post{id: fmt.Sprintf("tag:test,2024:m%d", i), day: 1, text: "x", extra: extra.String()})
	}
	last := posts(2, 2)[0]
	s.set(feedPath, page{body: atom("", append(all, last)...)})
	if res, err := s.run(); err != nil || res.Owed != pull.SweepPage+20 {
		t.Fatalf("%+v, %v", res, err)
	}
	key, err := keymap.EntryKey(s.srv.URL+feedPath, last.id)
	if err != nil {
		t.Fatal(err)
	}
	s.claimed(func(st store.Store, c store.Claim) {
		r, err := st.Resource(t.Context(), c.SourceID, last.id)
		if err != nil {
			t.Fatal(err)
		}
		work := store.Work{Action: store.ActionFetch, Class: transfer.ClassNoContent, Attempts: 1, Due: store.MicrosOf(time.Now().Add(time.Hour))}
		if err := st.Commit(t.Context(), &store.Commit{Claim: c, Resources: []store.ResourceChange{{ID: r.ID, Have: &store.Have{}, Work: &work}}}); err != nil {
			t.Fatal(err)
		}
	})
	if err := os.Remove(filepath.Join(s.root, filepath.FromSlash(key))); err != nil {
		t.Fatal(err)
	}
	if res, err := s.run(); err != nil || res.Owed != pull.SweepPage+20 {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestVerifyWithoutFeed: a feed that cannot be read leaves what is lost owed, and the findings are told.
func TestVerifyWithoutFeed(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, posts(1, 3)...)
	s.sync()
	for key := range s.files() {
		write(t, filepath.Join(s.root, filepath.FromSlash(key)), "damaged")
	}
	for i, p := range []page{{status: 404}, {body: "<feed xmlns='http://www.w3.org/2005/Atom'><entry>"}} {
		s.set(feedPath, p)
		s.with(func(e *Engine, target Target) {
			rep, err := e.Verify(t.Context(), target, s.opts, true, func(Finding) error { return nil })
			if err != nil || i == 0 && (rep.Problems != 3 || rep.Repaired != 0) {
				t.Errorf("%d: %+v, %v", i, rep, err)
			}
		})
	}
	s.feed(posts(1, 3)...)
	s.sync()
	if diff := cmp.Diff(textsOf(posts(1, 3)...), s.texts()); diff != "" {
		t.Error(diff)
	}
}

// TestRecordDamagedEdit: an edit that cannot be read back costs what it says, not the record, and not the feed.
func TestRecordDamagedEdit(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(target *Target) { target.Records = plan.RecordsResourceFinder })
	edit := func(day int) fieldEdit {
		return fieldEdit{subject: "a/b", author: "tel:+1", day: day, fields: map[string]string{"title": fmt.Sprint(day)}}
	}
	s.set(feedPath, page{body: recordFeed(edit(1))})
	s.sync()
	s.claimed(func(st store.Store, c store.Claim) {
		if err := st.Commit(t.Context(), &store.Commit{Claim: c, Edits: []store.Edit{{URI: "a/b", Digest: [32]byte{1}, Body: []byte("{")}}}); err != nil {
			t.Fatal(err)
		}
	})
	s.set(feedPath, page{body: recordFeed(edit(2), edit(1))})
	s.sync()
	if got := s.record("a/b"); got.Edits != 2 || got.Fields["title"].Value != "2" {
		t.Errorf("%+v", got)
	}
}

// TestRecordNamedLikeEntry: a record takes the place of an ordinary entry of its name, with its own bytes.
func TestRecordNamedLikeEntry(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(target *Target) { target.Records = plan.RecordsResourceFinder })
	body := recordFeed(fieldEdit{subject: "a/b", author: "tel:+1", day: 1, fields: map[string]string{"title": "x"}})
	entry := `<entry><id>a/b</id><updated>` + on(2).Format(time.RFC3339) + `</updated><content>other</content></entry>`
	s.set(feedPath, page{body: strings.Replace(body, "<entry>", entry+"<entry>", 1)})
	s.sync()
	if err := s.contentKept(); err != nil {
		t.Error(err)
	}
}

// contentKept tells of bytes that are kept although their resource is in the mirror.
func (s *site) contentKept() (found error) {
	s.t.Helper()
	s.with(func(e *Engine, _ Target) {
		rs, err := e.Store.Scan(s.t.Context(), store.ScanQuery{SourceID: 1, Limit: 10_000})
		if err != nil {
			s.t.Fatal(err)
		}
		for _, r := range rs {
			if _, err := e.Store.Content(s.t.Context(), r.ID); err == nil && r.Work.Action == store.ActionNone {
				found = errors.Join(found, fmt.Errorf("the bytes of %s are kept twice", r.URI))
			}
		}
	})
	return found
}

// TestLinkNamedLikeEntry: what an entry links to never takes the place of another entry that goes by that name, whichever is
// met first, in the feed or in a push.
func TestLinkNamedLikeEntry(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(target *Target) { target.Follow = []string{"alternate"} })
	other := s.srv.URL + "/other"
	s.set("/other", page{typ: "text/html", body: "<p>other</p>"})
	linking := post{id: "tag:test,2024:linking", day: 9, text: "linking", extra: `<link rel="alternate" href="/other"/>`}
	named := post{id: other, day: 3, text: "named"}
	s.feed(linking, named)
	s.follow(t)
	s.pull(false)
	all := textsOf(linking, named)
	s.shows(all)
	linking.day, linking.text = 12, "again"
	s.push(linking)
	s.shows(textsOf(linking, named))
	s.feed(named, linking)
	s.pull(false)
	s.shows(textsOf(linking, named))
	s.push(post{id: other, day: 13, gone: true})
	s.shows(textsOf(linking))
}

// TestFeedStateLost: a feed lists only its newest entries, so files of others are no strangers when the state was lost (P5).
func TestFeedStateLost(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, posts(1, 12)...)
	s.sync()
	s.feed(posts(3, 14)...)
	s.sync()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(s.db + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	s.sync()
	s.sync()
	if diff := cmp.Diff(textsOf(posts(1, 14)...), s.texts()); diff != "" {
		t.Error(diff)
	}
}
