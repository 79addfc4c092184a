package source

import (
	"bytes"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"resyncd/destination/feed"
	"resyncd/destination/rsdoc"
)

// readFeed reads a document of a feed with our own reader.
func readFeed(t failer, body []byte) (*feed.Head, []*feed.Entry) {
	t.Helper()
	base, _ := url.Parse(testBase)
	var entries []*feed.Entry
	head, err := feed.Read(bytes.NewReader(body), feed.Options{Base: base}, func(e *feed.Entry) error {
		c := *e
		entries = append(entries, &c)
		return nil
	})
	if err != nil {
		t.Fatalf("read feed: %v\n%s", err, body)
	}
	if head.Skipped > 0 {
		t.Fatalf("%d entries skipped: %q\n%s", head.Skipped, head.Problems, body)
	}
	return head, entries
}

// walkFeed reads a feed back to where its archives end: newest entry first, each once. archives gets what those documents
// hold, and must agree with what it has.
func walkFeed(t failer, s *Source, uri string, archives map[string]string) []*feed.Entry {
	t.Helper()
	var all []*feed.Entry
	seen := map[happening]bool{}
	newer := ""
	for current := uri; uri != ""; {
		body := get(t, s, uri)
		head, entries := readFeed(t, body)
		if head.Kind != feed.Atom || head.ID != current || head.Self != uri || head.Archive != (uri != current) {
			t.Fatalf("%s: %+v", uri, head)
		}
		if head.Archive {
			if head.Current != current || newer != "" && head.NextArchive != newer {
				t.Fatalf("%s: current %s, next %s, which should be %s", uri, head.Current, head.NextArchive, newer)
			}
			newer = uri
			if was, ok := archives[uri]; ok && was != entriesOf(body) {
				t.Fatalf("%s was\n%s\nand is\n%s", uri, was, body)
			}
			archives[uri] = entriesOf(body)
		}
		for _, e := range entries {
			if h := happeningOf(e); !seen[h] {
				seen[h] = true
				all = append(all, e)
			}
		}
		uri = head.PrevArchive
	}
	return all
}

// entriesOf is a document without its head, in which links may come and go.
func entriesOf(body []byte) string {
	at := len(body)
	for _, tag := range []string{"<entry", "<at:deleted-entry"} {
		if i := bytes.Index(body, []byte(tag)); i >= 0 {
			at = min(at, i)
		}
	}
	return string(body[at:])
}

// happening is what an entry says of a resource.
type happening struct {
	URI     string
	Deleted bool
	At      rsdoc.Micros
}

func happeningOf(e *feed.Entry) happening {
	return happening{e.Key, e.Deleted, rsdoc.Micros(e.Updated.UnixMicro())}
}

// happened is what the journal of a Source knows, oldest first.
func happened(s *Source) []happening {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []happening
	for _, l := range s.journal.all() {
		for _, c := range s.journal.span(l.first, l.last) {
			all = append(all, happening{s.URI(c.name), c.kind == rsdoc.ChangeDeleted, c.at})
		}
	}
	return all
}

// sampleEdit is an edit of a record in the form of the documentation.
func sampleEdit(subject, observed, fields string) string {
	return `<entry><author><uri>tel:+50912345678</uri></author>
<report:subject>` + subject + `</report:subject><report:observed>` + observed + `</report:observed>
<report:content type="{http://schemas.google.com/report/2010}row"><report:row>` + fields + `</report:row></report:content></entry>
`
}

func sampleFeed(entries ...string) string {
	return `<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom" xmlns:report="http://schemas.google.com/report/2010" xmlns:gs="http://schemas.google.com/spreadsheets/2006">
` + strings.Join(entries, "") + "</feed>\n"
}

// recordsFile is a file of edits.
func recordsFile(t testing.TB, entries ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "records.atom")
	if err := os.WriteFile(path, []byte(sampleFeed(entries...)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func beds(n string) string { return `<gs:field name="available_beds">` + n + `</gs:field>` }

// editAt makes an edit of one field.
func editAt(t testing.TB, subject string, observed time.Time, value string) *feed.Edit {
	t.Helper()
	edits, err := parseRecords(strings.NewReader(sampleFeed(sampleEdit(subject, observed.UTC().Format(time.RFC3339), beds(value)))))
	if err != nil || len(edits) != 1 {
		t.Fatalf("%d edits, %v", len(edits), err)
	}
	return edits[0]
}
