package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/feed"
	"resyncd/destination/fetch"
)

// editsOf lists subject and value of edits, oldest first.
func editsOf(entries []*feed.Entry) (out []string) {
	for _, e := range slices.Backward(entries) {
		out = append(out, e.Edit.Subject+"="+e.Edit.Fields[0].Value)
	}
	return out
}

// TestRecordsFile lets a file grow, repeat itself, break, shrink and come back.
func TestRecordsFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "records.xml")
	entry := func(subject, value string) string {
		return sampleEdit(subject, "2010-06-29T15:27:39Z", beds(value))
	}
	stage := 0
	write := func(text string) {
		stage++
		// Another inode each time, so that no change hides in one tick of the file system's clock.
		next := fmt.Sprint(path, stage)
		if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, path); err != nil {
			t.Fatal(err)
		}
	}
	write(sampleFeed(entry("a", "1")))
	k := &script{}
	s := scriptedSource(t, Options{Records: path}, k)
	if got := s.recordFeed.channel.waiting(); got != 0 {
		t.Errorf("%d notifications of what was there at the beginning", got)
	}
	whole := sampleFeed(entry("a", "1"), entry("b", "2"), entry("a", "3"), entry("b", "2"))
	var want []string
	for _, c := range []struct {
		what, text string
		fresh      []string
		wrong      string
	}{
		{"as it was", sampleFeed(entry("a", "1")), []string{"a=1"}, ""},
		{"grows", sampleFeed(entry("a", "1"), entry("b", "2")), []string{"b=2"}, ""},
		{"torn", whole[:len(whole)-40], nil, path},
		{"whole, one repeated", whole, []string{"a=3", "b=2"}, ""},
		{"written otherwise", strings.ReplaceAll(whole, "\n", "\r\n\t"), nil, ""},
		{"something else", "<html></html>", nil, path},
		{"an entry that is none", sampleFeed("<entry><id>urn:x</id><title>x</title><updated>2010-06-29T15:27:39Z</updated></entry>"), nil, "entry 1"},
		{"shrinks", sampleFeed(entry("b", "2")), nil, ""},
		{"new in front", sampleFeed(entry("c", "4"), entry("b", "2")), []string{"c=4"}, ""},
	} {
		write(c.text)
		err := s.Scan(context.Background())
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v", c.what, err)
		}
		if again := s.Scan(context.Background()); (again == nil) != (err == nil) {
			t.Errorf("%s, once more: %v", c.what, again)
		}
		want = append(want, c.fresh...)
		head, entries := readFeed(t, get(t, s, s.recordFeed.url()))
		if diff := cmp.Diff(want, editsOf(entries)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
		if head.Self != s.recordFeed.url() || !slices.Equal(head.Hubs, []string{testHub}) {
			t.Errorf("%s: %+v", c.what, head)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := s.Scan(context.Background()); !errors.Is(err, os.ErrNotExist) || s.records.sig.young {
		t.Errorf("removed: %v, young %t", err, s.records.sig.young)
	}
	var told []string
	for s.recordFeed.channel.waiting() > 0 {
		b := s.recordFeed.channel.take()
		body, err := s.recordFeed.channel.render(b)
		if err != nil {
			t.Fatal(err)
		}
		_, entries := readFeed(t, body)
		told = append(told, editsOf(entries)...)
	}
	if diff := cmp.Diff(want[1:], told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// TestRecordsInOneTick reads a young file again although it looks the same: one more write may not show.
func TestRecordsInOneTick(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "records.xml")
	write := func(subject string) {
		text := sampleFeed(sampleEdit(subject, "2010-06-29T15:27:39Z", beds("1")))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a")
	s := newSource(t, Options{Records: path})
	write("b")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	s.records.sig = signatureOf(info) // as if both had happened in one tick
	for _, want := range [][]string{{"a=1"}, {"a=1", "b=1"}} {
		s.records.sig.young = len(want) > 1
		if err := s.Scan(context.Background()); err != nil {
			t.Fatal(err)
		}
		_, entries := readFeed(t, get(t, s, s.recordFeed.url()))
		if diff := cmp.Diff(want, editsOf(entries)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestRecordsForm holds the feed to the form of the sample: no id, and every field as it was.
func TestRecordsForm(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "records.xml")
	fields := `<gs:field name="title">A &amp; B</gs:field><gs:field name="phone"></gs:field><gs:field name="x">  é  </gs:field>`
	text := sampleFeed(sampleEdit("paho.org/HealthC_ID/1234567", "2010-06-29T15:27:39Z", fields))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSource(t, Options{Records: path})
	body := get(t, s, s.recordFeed.url())
	_, want := readFeed(t, []byte(text))
	_, got := readFeed(t, body)
	if diff := cmp.Diff(want[0].Edit, got[0].Edit); diff != "" {
		t.Errorf("(-file +feed):\n%s\n%s", diff, body)
	}
	_, entry, _ := strings.Cut(string(body), "<entry")
	if strings.Contains(entry, "<id>") || strings.Contains(entry, "<title>") {
		t.Errorf("an entry with what the sample has not:\n%s", body)
	}
}

// TestRecordsArchives reads a record feed back to its first edit.
func TestRecordsArchives(t *testing.T) {
	t.Parallel()
	s := newSource(t, Options{FeedEntries: 3, Records: recordsFile(t)})
	var want []string
	for i := range 11 {
		s.records.publish([]*feed.Edit{editAt(t, fmt.Sprint(i), time.Unix(int64(i), 0), "1")})
		want = append(want, fmt.Sprint(i, "=1"))
		if diff := cmp.Diff(want, editsOf(walkFeed(t, s, s.recordFeed.url(), map[string]string{}))); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}

// TestRecordsWatched has Run find what is new in a file, and tell of it.
func TestRecordsWatched(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "records.xml")
	edit := func(subject string) string { return sampleEdit(subject, "2010-06-29T15:27:39Z", beds("1")) }
	if err := os.WriteFile(path, []byte(sampleFeed(edit("a"))), 0o600); err != nil {
		t.Fatal(err)
	}
	hub := newRealHub(t, 202)
	client := fetch.New(fetch.Options{})
	defer client.Close()
	s := newSource(t, Options{Records: path, ScanEvery: time.Millisecond, Hub: hub.URL, Client: client})
	stop := running(t, s)
	defer stop()
	if err := os.WriteFile(path, []byte(sampleFeed(edit("a"), edit("b"))), 0o600); err != nil {
		t.Fatal(err)
	}
	for p := range hub.posts {
		if p.topic() != s.recordFeed.url() {
			continue
		}
		if _, entries := readFeed(t, p.body); len(entries) != 1 || entries[0].Edit.Subject != "b" {
			t.Errorf("told\n%s", p.body)
		}
		return
	}
}

func TestRecordsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken")
	if err := os.WriteFile(broken, []byte("<feed xmlns='http://www.w3.org/2005/Atom'>\n<entry>\n</feed>"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{filepath.Join(dir, "none"): "no such file", dir: "not a regular file", broken: "line 3"} {
		_, err := New(context.Background(), Options{Base: testBase, Records: path})
		if !errors.Is(err, ErrRecords) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestRecordFeedHasItsName keeps resources away from where the record feed is.
func TestRecordFeedHasItsName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "feeds"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"feeds/delta", "feeds/other"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := newSource(t, Options{Dir: dir, Records: recordsFile(t)})
	defer s.Close()
	if s.Len() != 1 || s.backend.(*folder).skipped.reserved != 1 {
		t.Errorf("%d resources, %+v", s.Len(), s.backend.(*folder).skipped)
	}
	plain := newSource(t, Options{Dir: dir})
	defer plain.Close()
	if body := get(t, plain, "/feeds/delta"); plain.Len() != 2 || string(body) != "feeds/delta" {
		t.Errorf("%d resources, %q", plain.Len(), body)
	}
	if err := newSource(t, Options{Records: recordsFile(t)}).Put("feeds/delta", nil); err == nil {
		t.Error("a resource in the place of the feed")
	}
}
