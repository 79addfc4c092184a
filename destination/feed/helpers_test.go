package feed

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
)

// read reads a document whole.
func read(t testing.TB, doc string, o Options) (*Head, []*Entry, error) {
	t.Helper()
	var entries []*Entry
	head, err := Read(strings.NewReader(doc), o, func(e *Entry) error {
		entries = append(entries, e)
		return nil
	})
	if head == nil {
		t.Fatal("no head")
	}
	return head, entries, err
}

// mustRead fails on what isn't wholly readable.
func mustRead(t testing.TB, doc string) (*Head, []*Entry) {
	t.Helper()
	head, entries, err := read(t, doc, Options{})
	if err != nil || head.Skipped > 0 {
		t.Fatalf("read %.200q: %v, skipped %d, problems %q", doc, err, head.Skipped, head.Problems)
	}
	return head, entries
}

func keys(entries []*Entry) string {
	var s []string
	for _, e := range entries {
		s = append(s, e.Key)
	}
	return strings.Join(s, " ")
}

func parseURL(t testing.TB, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func at(s string) time.Time {
	when, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return when.UTC()
}

// summary shows a document as people would want to see it compared.
func summary(head *Head, entries []*Entry, err error) string {
	var b strings.Builder
	fmt.Fprintf(&b, "kind %s\nid %s\nupdated %s\nself %s\nhubs %s\n",
		head.Kind, head.ID, stamp(head.Updated), head.Self, strings.Join(head.Hubs, " "))
	for _, l := range []struct{ rel, href string }{
		{"previous", head.Previous}, {"next", head.Next}, {"first", head.First}, {"last", head.Last},
		{"current", head.Current}, {"prev-archive", head.PrevArchive}, {"next-archive", head.NextArchive},
	} {
		if l.href != "" {
			fmt.Fprintf(&b, "%s %s\n", l.rel, l.href)
		}
	}
	if head.Archive || head.Complete {
		fmt.Fprintf(&b, "archive %t complete %t\n", head.Archive, head.Complete)
	}
	if head.Skipped > 0 {
		fmt.Fprintf(&b, "skipped %d\n", head.Skipped)
	}
	for _, p := range head.Problems {
		fmt.Fprintf(&b, "problem: %s\n", p)
	}
	if err != nil {
		fmt.Fprintf(&b, "error: %v\n", err)
	}
	for _, e := range entries {
		fmt.Fprintf(&b, "\n%d %s %s\n", e.Ordinal, e.KeyFrom, e.Key)
		if e.Deleted {
			b.WriteString("  deleted\n")
		}
		fmt.Fprintf(&b, "  title %s\n  author %s\n  updated %s\n  published %s\n", e.Title, e.Author, stamp(e.Updated), stamp(e.Published))
		if e.SourceID != "" {
			fmt.Fprintf(&b, "  source %s\n", e.SourceID)
		}
		for _, l := range e.Links {
			fmt.Fprintf(&b, "  link %s %s %s %d\n", l.Rel, l.Href, l.Type, l.Length)
		}
		if e.Edit != nil {
			fmt.Fprintf(&b, "  edit %s %s %s %q odd %q\n", e.Edit.Subject, stamp(e.Edit.Observed), e.Edit.Author, e.Edit.Fields, e.Edit.Odd)
		}
		if e.XML != nil {
			b.WriteString("  " + strings.ReplaceAll(strings.TrimSpace(string(e.XML)), "\n", "\n  ") + "\n")
		}
	}
	return b.String()
}

// sameAgain checks that an entry's own document is read as the same entry.
func sameAgain(t testing.TB, e *Entry) {
	t.Helper()
	if e.XML == nil {
		return
	}
	_, again, err := read(t, string(e.XML), Options{Limits: Limits{EntryBytes: 1 << 30}})
	if err != nil || len(again) != 1 {
		t.Fatalf("read the document of an entry again: %v, %d entries\n%s", err, len(again), e.XML)
	}
	a := again[0]
	if a.Key != e.Key || a.KeyFrom != e.KeyFrom || !a.Updated.Equal(e.Updated) || a.Title != e.Title || a.SourceID != e.SourceID {
		t.Fatalf("read again, an entry is another:\n%+v\n%+v\n%s\n%s", e, a, e.XML, a.XML)
	}
	if string(a.XML) != string(e.XML) {
		t.Fatalf("read again, an entry is written differently:\n%s\n%s", e.XML, a.XML)
	}
}
