package source

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"resyncd/destination/feed"
)

// TestFeedWhileItGrows reads the feeds back to their beginnings while they grow: nothing is missing in any walk, and one
// ETag never stands for two documents.
func TestFeedWhileItGrows(t *testing.T) {
	t.Parallel()
	const changes = 300
	s := newSource(t, Options{FeedEntries: 7, ChangeListSize: 5, KeepChangeLists: -1, Records: recordsFile(t)})
	written := make(chan error, 1)
	go func() {
		var err error
		for i := range changes {
			name := fmt.Sprintf("r%04d", i)
			err = errors.Join(err, s.Put(name, []byte("x")))
			s.records.publish([]*feed.Edit{{Subject: name}})
		}
		written <- err
	}()
	bodies := map[string]string{}
	for n, done := 0, false; !done; {
		select {
		case err := <-written:
			if done = true; err != nil {
				t.Fatal(err)
			}
		default:
		}
		for _, topic := range []string{s.FeedURL(), s.recordFeed.url()} {
			names := map[string]bool{}
			newest := ""
			for uri := topic; uri != ""; {
				resp := ask(s, "GET", uri)
				body, err := io.ReadAll(resp.Body)
				if resp.StatusCode != http.StatusOK || err != nil {
					t.Fatalf("%s: %s, %v", uri, resp.Status, err)
				}
				tag := uri + " " + resp.Header.Get("ETag")
				if was, ok := bodies[tag]; ok && was != string(body) {
					t.Fatalf("%s is\n%s\nand\n%s", tag, was, body)
				}
				bodies[tag] = string(body)
				head, entries := readFeed(t, body)
				for _, e := range entries {
					name := e.Key
					if e.Edit != nil {
						name = s.URI(e.Edit.Subject)
					}
					names[name] = true
					newest = max(newest, name)
				}
				uri = head.PrevArchive
			}
			n = len(names)
			if n > 0 && newest != s.URI(fmt.Sprintf("r%04d", n-1)) {
				t.Fatalf("%d entries, the newest %s", n, newest)
			}
			if done && n != changes {
				t.Fatalf("%s has %d entries at the end", topic, n)
			}
		}
	}
}
