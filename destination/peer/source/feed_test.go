package source

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"resyncd/destination/feed"
	"resyncd/destination/websub"
)

// TestFeedHistory drives a Source through random histories and reads its feed back now and then: without hole, in order,
// as far as the Change Lists reach but for less than one document; an archive holds the same for ever.
func TestFeedHistory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		clock := newScripted()
		s := newSource(t, Options{
			Now:             clock.now,
			FeedEntries:     rapid.IntRange(1, 6).Draw(t, "entries"),
			ChangeListSize:  rapid.IntRange(1, 9).Draw(t, "size"),
			KeepChangeLists: rapid.SampledFrom([]int{-1, 1, 3}).Draw(t, "keep"),
			Archive:         rapid.IntRange(0, 2).Draw(t, "archive"),
			ClosedLists:     rapid.Bool().Draw(t, "closed"),
		})
		archives := map[string]string{}
		version := 0
		look := func(t *rapid.T) {
			var got []happening
			for _, e := range walkFeed(t, s, s.FeedURL(), archives) {
				got = append(got, happeningOf(e))
			}
			slices.Reverse(got)
			want := happened(s)
			missing := len(want) - len(got)
			if missing < 0 || missing >= s.options.FeedEntries || missing > 0 && s.journal.past == 0 {
				t.Fatalf("%d entries of %d changes, %d more are forgotten", len(got), len(want), s.journal.past)
			}
			if diff := cmp.Diff(want[missing:], got, cmp.AllowUnexported()); diff != "" && len(got) > 0 {
				t.Fatalf("history (-journal +feed):\n%s", diff)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				version++
				mustPut(t, s, fmt.Sprintf("r%d", rapid.IntRange(0, 7).Draw(t, "n")), fmt.Sprint(version))
			},
			"delete": func(t *rapid.T) { s.Delete(fmt.Sprintf("r%d", rapid.IntRange(0, 7).Draw(t, "n"))) },
			"rotate": func(*rapid.T) { s.Rotate() },
			"clock": func(t *rapid.T) {
				clock.forward(time.Duration(rapid.IntRange(-2000, 5000).Draw(t, "ms")) * time.Millisecond)
			},
			"look": look,
		})
		look(t)
	})
}

// TestFeedEntries holds entries to what they stand for.
func TestFeedEntries(t *testing.T) {
	t.Parallel()
	clock := newScripted()
	s := newSource(t, Options{Now: clock.now})
	mustPut(t, s, "päth/a&b <1>.html", "12345")
	clock.forward(time.Second)
	mustPut(t, s, "bad\xff", "1")
	s.Delete("bad\xff")
	head, entries := readFeed(t, get(t, s, s.FeedURL()))
	newest := time.Date(2026, 5, 1, 2, 0, 1, 1000, time.UTC)
	if head.ID != s.FeedURL() || head.Self != s.FeedURL() || !head.Updated.Equal(newest) || len(head.Hubs) != 0 || head.PrevArchive != "" {
		t.Errorf("head %+v", head)
	}
	if len(entries) != 3 {
		t.Fatalf("%d entries", len(entries))
	}
	gone, bad, page := entries[0], entries[1], entries[2]
	if !gone.Deleted || gone.Key != s.URI("bad\xff") || !gone.Updated.Equal(newest) {
		t.Errorf("tombstone %+v", gone)
	}
	if bad.Key != gone.Key || bad.Deleted || bad.Title != "bad%FF" || !bad.Updated.Before(gone.Updated) {
		t.Errorf("entry %+v", bad)
	}
	uri := s.URI("päth/a&b <1>.html")
	if page.Key != uri || page.KeyFrom != "id" || page.Title != "päth/a&b <1>.html" || page.Author != "source.example" || page.Updated.IsZero() {
		t.Errorf("entry %+v", page)
	}
	want := []feed.Link{{Rel: "alternate", Href: uri, Type: "text/html", Length: 5}, {Rel: "enclosure", Href: uri, Type: "text/html", Length: 5}}
	if diff := cmp.Diff(want, page.Links); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	if !strings.Contains(string(page.XML), fmt.Sprintf("%x", sumOf("12345"))) {
		t.Errorf("no digest in\n%s", page.XML)
	}
}

// TestFeedRequests asks for the current document and an archive, over a connection.
func TestFeedRequests(t *testing.T) {
	t.Parallel()
	clock := newScripted()
	s := scriptedSource(t, Options{Now: clock.now, FeedEntries: 2}, &script{})
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	ask := func(method, uri string, headers ...string) (*http.Response, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+strings.TrimPrefix(uri, testBase), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(body)
	}
	links := `<http://hub.example/websub>; rel="hub", <http://source.example/.resourcesync/feed/changes.atom>; rel="self"`
	var tags []string
	for n := range 6 {
		resp, body := ask("GET", s.FeedURL())
		h := resp.Header
		if resp.StatusCode != 200 || h.Get("Content-Type") != "application/atom+xml" || h.Get("Link") != links || h.Get("Content-Encoding") != "" {
			t.Errorf("%d: %s %v", n, resp.Status, h)
		}
		// What the document says is what the header says (P-01).
		head, _ := readFeed(t, []byte(body))
		if head.Self != s.FeedURL() || !slices.Equal(head.Hubs, []string{testHub}) {
			t.Errorf("%d: self %s, hubs %s", n, head.Self, head.Hubs)
		}
		parsed := websub.ParseLinks(h.Values("Link"), nil)
		if !slices.Equal(websub.Targets(parsed, "hub"), head.Hubs) || !slices.Equal(websub.Targets(parsed, "self"), []string{head.Self}) {
			t.Errorf("%d: header %s", n, h.Get("Link"))
		}
		if again, _ := ask("HEAD", s.FeedURL()); again.StatusCode != 200 || again.Header.Get("Link") != links || again.ContentLength != int64(len(body)) {
			t.Errorf("%d: HEAD %s %v", n, again.Status, again.Header)
		}
		tag := h.Get("ETag")
		if tag == "" || slices.Contains(tags, tag) {
			t.Errorf("%d: ETag %s after %s", n, tag, tags)
		}
		tags = append(tags, tag)
		clock.forward(time.Second)
		resp, _ = ask("GET", s.FeedURL())
		for _, condition := range [][]string{{"If-None-Match", tag}, {"If-Modified-Since", resp.Header.Get("Last-Modified")}} {
			if resp, body := ask("GET", s.FeedURL(), condition...); resp.StatusCode != 304 || body != "" || resp.Header.Get("Link") != links {
				t.Errorf("%d: %v: %s", n, condition, resp.Status)
			}
		}
		mustPut(t, s, "a", fmt.Sprint(n))
	}
	archive := s.changeFeed.archiveURL(2)
	resp, body := ask("GET", archive)
	if h := resp.Header; resp.StatusCode != 200 || h.Get("Link") != "" || h.Get("Last-Modified") != "" || h.Get("ETag") == "" {
		t.Errorf("archive: %s %v", resp.Status, h)
	}
	head, _ := readFeed(t, []byte(body))
	if !head.Archive || head.PrevArchive != s.changeFeed.archiveURL(1) || head.NextArchive != s.changeFeed.archiveURL(3) || len(head.Hubs) != 0 {
		t.Errorf("archive: %+v", head)
	}
	if resp, _ := ask("GET", archive, "If-None-Match", resp.Header.Get("ETag")); resp.StatusCode != 304 {
		t.Errorf("archive, asked again: %s", resp.Status)
	}
	for _, none := range []string{
		s.changeFeed.archiveURL(4), s.changeFeed.archiveURL(9223372036854775807), strings.Replace(archive, "-00002", "-2", 1),
		strings.Replace(archive, "-00002", "-00000", 1), strings.Replace(archive, "2026", "2025", 1), testBase + "/" + recordFeed,
	} {
		if resp, _ := ask("GET", none); resp.StatusCode != 404 {
			t.Errorf("%s: %s", none, resp.Status)
		}
	}
	if resp, _ := ask("POST", s.FeedURL()); resp.StatusCode != 405 {
		t.Errorf("POST: %s", resp.Status)
	}
}

// TestFeedModified has an archive go with no change beside it: the time in Last-Modified must tell of that, too.
func TestFeedModified(t *testing.T) {
	t.Parallel()
	clock := newScripted()
	s := newSource(t, Options{Now: clock.now, FeedEntries: 2, KeepChangeLists: 1})
	for i := range 3 {
		mustPut(t, s, "a", fmt.Sprint(i))
	}
	s.Rotate()
	clock.forward(time.Minute)
	modified := ask(s, "GET", s.FeedURL()).Header.Get("Last-Modified")
	head, _ := readFeed(t, get(t, s, s.FeedURL()))
	s.Rotate() // the changes are forgotten
	clock.forward(time.Minute)
	after := ask(s, "GET", s.FeedURL(), "If-Modified-Since", modified)
	if head.PrevArchive == "" || modified == "" || after.StatusCode != 200 {
		t.Errorf("before %q, modified %q, then %s", head.PrevArchive, modified, after.Status)
	}
}

// TestRootPageLeadsToFeeds looks at the links of the root page.
func TestRootPageLeadsToFeeds(t *testing.T) {
	t.Parallel()
	s := newSource(t, Options{Records: recordsFile(t)})
	page := string(get(t, s, "/"))
	for _, want := range []string{
		`<link rel="alternate" type="application/atom+xml" href="` + s.FeedURL() + `" title="Changes at source.example">`,
		`<link rel="alternate" type="application/atom+xml" href="` + s.recordFeed.url() + `"`,
		`<link rel="resourcesync" href="`,
	} {
		if head, _, _ := strings.Cut(page, "</head>"); !strings.Contains(head, want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
	if s.recordFeed.url() != "http://source.example/feeds/delta" {
		t.Errorf("record feed at %s", s.recordFeed.url())
	}
	if bare := newSource(t, Options{}); bare.recordFeed != nil || strings.Contains(string(get(t, bare, "/")), "delta") {
		t.Error("a record feed without records")
	}
}
