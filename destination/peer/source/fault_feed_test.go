package source

import (
	"fmt"
	"testing"

	"resyncd/destination/feed"
	"resyncd/destination/peer/source/faults"
)

// TestFeedFaults asks for each fault and looks at the feed of changes.
func TestFeedFaults(t *testing.T) {
	t.Parallel()
	for fault, check := range map[string]func(t *testing.T, s *Source, head *feed.Head, entries []*feed.Entry){
		"feed-limit=2": func(t *testing.T, s *Source, head *feed.Head, entries []*feed.Entry) {
			if len(entries) != 2 || head.PrevArchive != s.changeFeed.archiveURL(2) {
				t.Errorf("%d entries, before %s", len(entries), head.PrevArchive)
			}
			for i := range 3 {
				mustPut(t, s, fmt.Sprint("s", i), "1")
			}
			head, entries = readFeed(t, get(t, s, s.FeedURL()))
			_, archived := readFeed(t, get(t, s, head.PrevArchive))
			if entries[1].Key != s.URI("s1") || archived[0].Key != s.URI("r7") { // r0 and s0 are in neither
				t.Errorf("%s, then %s", entries[1].Key, archived[0].Key)
			}
		},
		"feed-archive=off": func(t *testing.T, s *Source, head *feed.Head, entries []*feed.Entry) {
			resp := ask(s, "GET", s.changeFeed.archiveURL(1))
			if len(entries) != 4 || head.PrevArchive != "" || resp.StatusCode != 404 {
				t.Errorf("%d entries, before %q, archive %s", len(entries), head.PrevArchive, resp.Status)
			}
		},
		"feed-undated=on": func(t *testing.T, _ *Source, _ *feed.Head, entries []*feed.Entry) {
			if e := entries[1]; !e.Updated.IsZero() || !entries[0].Deleted || entries[0].Updated.IsZero() {
				t.Errorf("%+v\n%s", e, e.XML)
			}
		},
		"feed-rss=on": func(t *testing.T, s *Source, head *feed.Head, entries []*feed.Entry) {
			e := entries[0]
			if head.Kind != feed.RSS || head.Self != s.FeedURL() || head.Hubs[0] != testHub || head.PrevArchive == "" || len(entries) != 3 ||
				e.Key != s.URI("r7") || e.KeyFrom != "guid" || e.Updated.IsZero() {
				t.Errorf("%+v, %d entries, first %+v", head, len(entries), e)
			}
		},
		"feed-links=header": func(t *testing.T, s *Source, head *feed.Head, _ []*feed.Entry) {
			if head.Self != "" || len(head.Hubs) > 0 || ask(s, "GET", s.FeedURL()).Header.Get("Link") == "" {
				t.Errorf("%+v", head)
			}
		},
		"feed-links=body": func(t *testing.T, s *Source, head *feed.Head, _ []*feed.Entry) {
			if head.Self == "" || len(head.Hubs) == 0 || ask(s, "GET", s.FeedURL()).Header.Get("Link") != "" {
				t.Errorf("%+v", head)
			}
		},
		"feed-type=text/html": func(t *testing.T, s *Source, head *feed.Head, _ []*feed.Entry) {
			if got := ask(s, "GET", s.FeedURL()).Header.Get("Content-Type"); head.Kind != feed.Atom || got != "text/html" {
				t.Errorf("%s", got)
			}
		},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			f, err := faults.Parse(fault)
			if err != nil {
				t.Fatal(err)
			}
			s := scriptedSource(t, Options{FeedEntries: 4, Faults: f}, &script{})
			for i := range 8 {
				mustPut(t, s, fmt.Sprint("r", i), "1")
			}
			s.Delete("r0")
			head, entries := readFeed(t, get(t, s, s.FeedURL()))
			check(t, s, head, entries)
		})
	}
	for _, bad := range []string{"feed-limit=0", "feed-archive=on", "feed-undated=1", "feed-rss=", "feed-links=none", "feed-type=", "feed-x=1"} {
		if _, err := faults.Parse(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
