package source

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"resyncd/destination/rsdoc"
)

// publishedLists are all Change Lists, by its URI.
func publishedLists(t failer, s *Source) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, uri := range []string{s.at(changeListIndex), s.at(changeListArchive)} {
		if ask(s, "GET", uri).StatusCode != 200 {
			continue
		}
		all[uri] = string(get(t, s, uri))
		_, parts := read(t, get(t, s, uri))
		for _, part := range parts {
			all[part.Loc] = string(get(t, s, part.Loc))
		}
	}
	return all
}

// TestHistoryOverRestart: the history goes on where it was, and what changed meanwhile is found.
func TestHistoryOverRestart(t *testing.T) {
	t.Parallel()
	dir, clock := t.TempDir(), newScripted()
	for _, name := range append(oddNames, "kept", "touched", "gone") {
		write(t, dir, name, name)
	}
	o := Options{
		State: filepath.Join(t.TempDir(), "state"), Now: clock.now, ChangeListSize: 3, KeepChangeLists: 2, Archive: 1,
		Hashes: []rsdoc.Algorithm{rsdoc.MD5, rsdoc.SHA256}, Dumps: true,
	}
	first := newFolder(t, dir, o)
	for i := range 10 {
		write(t, dir, fmt.Sprint("new", i), "1")
		clock.forward(time.Second)
		scan(t, first)
	}
	if err := os.Remove(filepath.Join(dir, "new3")); err != nil {
		t.Fatal(err)
	}
	scan(t, first)
	clock.forward(time.Hour)
	at, _ := listed(t, first)
	before, set, last := publishedLists(t, first), maps.Collect(first.Resources()), first.Now()
	clock.forward(-2 * time.Hour) // a clock that went back
	again := newFolder(t, dir, o)
	if again.begin <= at {
		t.Errorf("changes at %v, and a Resource List of %v before", again.begin, at)
	}
	if diff := cmp.Diff(before, publishedLists(t, again)); diff != "" {
		t.Errorf("the history after a restart (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(set, maps.Collect(again.Resources())); diff != "" {
		t.Errorf("the resources after a restart (-want +got):\n%s", diff)
	}
	if resp := ask(again, "GET", again.URI("new3")); resp.StatusCode != 410 {
		t.Errorf("deleted before the restart: %s", resp.Status)
	}
	if tag := ask(again, "GET", again.URI("kept")).Header.Get("ETag"); tag != fmt.Sprintf(`"%x"`, sumOf("kept")) {
		t.Errorf("ETag %s", tag)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}

	write(t, dir, "touched", "another body")
	write(t, dir, "created", "c")
	if err := os.Remove(filepath.Join(dir, "gone")); err != nil {
		t.Fatal(err)
	}
	clock.forward(3 * time.Hour)
	found := clock.at
	third := newSource(t, Options{
		Dir: dir, State: o.State, Now: clock.now, ChangeListSize: 100, KeepChangeLists: 2, Archive: 1, Hashes: o.Hashes, Dumps: true,
	})
	defer third.Close()
	heads, lists := changeLists(t, third)
	open := len(lists) - 1
	if heads[open].From > last {
		t.Errorf("the open list begins at %v, the last instant before was %v", heads[open].From, last)
	}
	got := map[string]rsdoc.Change{}
	for _, e := range lists[open] {
		if e.Datetime >= rsdoc.MicrosOf(found) {
			got[e.Loc] = e.Change
		}
	}
	want := map[string]rsdoc.Change{
		third.URI("gone"): rsdoc.ChangeDeleted, third.URI("touched"): rsdoc.ChangeUpdated, third.URI("created"): rsdoc.ChangeCreated,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what was found (-want +got):\n%s", diff)
	}
	clock.forward(time.Minute)
	crawl(t, third)
}

// TestStateIsRead cuts and damages a state at every byte: what was cut in its last line is read as far as it is whole,
// anything else that is not as it was written is refused.
func TestStateIsRead(t *testing.T) {
	t.Parallel()
	o := Options{State: filepath.Join(t.TempDir(), "state"), Synthetic: &Synthetic{Resources: 4, Size: 1}, ChangeListSize: 3}
	s := newSource(t, o)
	s.backend.(*generator).step(7)
	whole, err := os.ReadFile(o.State)
	if err != nil {
		t.Fatal(err)
	}
	load := func(data []byte) (*Source, error) {
		p := &Source{options: s.options, catalog: catalog{slots: map[string]int{}}, state: s.state}
		return p, p.readState(bytes.NewReader(data))
	}
	first := bytes.IndexByte(whole, '\n') + 1
	for n := range len(whole) + 1 {
		p, err := load(whole[:n])
		if ok := err == nil; ok != (n >= first) {
			t.Fatalf("cut at byte %d: %v", n, err)
		} else if ok && n == len(whole) && (p.journal.total() != 7 || p.catalog.live != s.catalog.live || p.clock.last != s.clock.last) {
			t.Errorf("%d changes, %d resources, %v", p.journal.total(), p.catalog.live, p.clock.last)
		}
		if n < len(whole)-1 {
			damaged := bytes.Clone(whole)
			damaged[n] ^= 1
			if _, err := load(damaged); err == nil || !strings.Contains(err.Error(), "line ") {
				t.Fatalf("damaged at byte %d: %v", n, err)
			}
		}
	}
}

func TestStateIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "folder", "a", "b")
	good := filepath.Join(dir, "state")
	if err := newSource(t, Options{Dir: filepath.Join(dir, "folder"), State: good}).Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "folder"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	text := func(name, line string) string {
		line = checksum([]byte(line)) + " " + line + "\n"
		write(t, dir, name, line)
		return filepath.Join(dir, name)
	}
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"inside":     {Options{Dir: dir, State: good}, "would be published"},
		"linked":     {Options{Dir: filepath.Join(dir, "folder"), State: filepath.Join(dir, "link", "state")}, "would be published"},
		"temporary":  {Options{Dir: os.TempDir(), Dumps: true}, "TMPDIR"},
		"memory":     {Options{State: good}, "goes with a folder"},
		"no folder":  {Options{Dir: filepath.Join(dir, "folder"), State: filepath.Join(dir, "none", "state")}, "no such file"},
		"directory":  {Options{Dir: filepath.Join(dir, "folder"), State: filepath.Join(dir, "..")}, "is a directory"},
		"hashes":     {Options{Dir: filepath.Join(dir, "folder"), State: good, Hashes: []rsdoc.Algorithm{rsdoc.MD5}}, "hashes [sha-256]"},
		"other kind": {Options{Synthetic: &Synthetic{Resources: 1}, State: good}, "of a folder"},
		"empty":      {Options{Synthetic: &Synthetic{Resources: 1}, State: os.DevNull}, "no beginning"},
		"version":    {Options{Synthetic: &Synthetic{}, State: text("v2", `{"head":{"version":2}}`)}, "version 2"},
		"no lists": {Options{Synthetic: &Synthetic{}, State: text("v1",
			`{"head":{"version":1,"world":"resources of seed 0 and size 0, hashes [sha-256]"}}`)}, "no Change List"},
		"no head": {Options{Synthetic: &Synthetic{}, State: text("h", `{"name":"a"}`)}, "not where it belongs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.o.Base = testBase
			if _, err := New(context.Background(), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestStateOverKills ends a Source at random moments, as kill -9 does, and goes on from the file that it left: everything
// that anybody can have read is still published.
func TestStateOverKills(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		clock := newScripted()
		o := Options{
			State: filepath.Join(dir, fmt.Sprint(run)), Now: clock.now, Synthetic: &Synthetic{Resources: 5, Seed: 1, Size: 1},
			ChangeListSize:  rapid.IntRange(1, 6).Draw(t, "change list size"),
			KeepChangeLists: rapid.SampledFrom([]int{1, 3}).Draw(t, "keep"),
			Archive:         rapid.IntRange(0, 2).Draw(t, "archive"),
			ClosedLists:     rapid.Bool().Draw(t, "closed"),
		}
		s := newSource(t, o)
		for range 2 {
			s.backend.(*generator).step(rapid.IntRange(0, 30).Draw(t, "changes"))
			if rapid.Bool().Draw(t, "rotated") {
				s.Rotate()
			}
			before, set := publishedLists(t, s), maps.Collect(s.Resources())
			s.state.file.Close() // and nothing of what an orderly end does
			clock.forward(time.Duration(rapid.IntRange(-2, 2).Draw(t, "seconds")) * time.Second)
			s = newSource(t, o)
			if diff := cmp.Diff(before, publishedLists(t, s)); diff != "" {
				t.Fatalf("the history (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(set, maps.Collect(s.Resources())); diff != "" {
				t.Fatalf("the resources (-want +got):\n%s", diff)
			}
			if newest := s.journal.newest; s.begin <= newest {
				t.Fatalf("instants go back from %v to %v", newest, s.begin)
			}
			for uri, sum := range set {
				if got := get(t, s, uri); sumOf(string(got)) != sum {
					t.Fatalf("%s has other bytes", uri)
				}
			}
		}
		if err := s.Close(); err != nil {
			t.Fatalf("%v", err)
		}
	})
}

// TestStateIsTrimmed: the file has what the history in memory has, twice at most.
func TestStateIsTrimmed(t *testing.T) {
	t.Parallel()
	o := Options{
		State: filepath.Join(t.TempDir(), "state"), Synthetic: &Synthetic{Resources: 5, Size: 1}, ChangeListSize: 10, KeepChangeLists: 2,
	}
	s := newSource(t, o)
	defer s.Close()
	most := 0
	for range 40 {
		s.backend.(*generator).step(100)
		text, err := os.ReadFile(o.State)
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, bytes.Count(text, []byte("\n")))
	}
	if limit := fewLines + 2*(len(s.catalog.all)+1+10*(2+1)) + 20; most < fewLines || most > limit {
		t.Errorf("at most %d lines of state, want up to %d", most, limit)
	}
}

// TestNewerAfterRestart: what is said in another way since a restart does not pass for what was said before.
func TestNewerAfterRestart(t *testing.T) {
	t.Parallel()
	clock := newScripted()
	o := Options{State: filepath.Join(t.TempDir(), "state"), Synthetic: &Synthetic{Resources: 2, Size: 1}, Now: clock.now}
	clock.forward(time.Minute)
	s := newSource(t, o)
	clock.forward(time.Minute)
	uri := "/" + capabilityList
	before := ask(s, "GET", uri).Header.Get("Last-Modified")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o.Dumps = true
	s = newSource(t, o)
	defer s.Close()
	clock.forward(time.Minute)
	if got := ask(s, "GET", uri, "If-Modified-Since", before); before == "" || got.StatusCode != 200 {
		t.Errorf("with dumps, and not modified since %q: %s", before, got.Status)
	}
}

// TestStateOnFullDisk: a state that cannot be written stops nothing, and is whole again once a Change List has ended.
func TestStateOnFullDisk(t *testing.T) {
	t.Parallel()
	o := Options{State: filepath.Join(t.TempDir(), "state"), Synthetic: &Synthetic{Resources: 5, Size: 1}}
	s := newSource(t, o)
	s.backend.(*generator).step(3)
	s.state.file.Close() // every write fails from here on
	s.backend.(*generator).step(3)
	if s.state.file != nil || s.journal.total() != 6 {
		t.Fatalf("%d changes", s.journal.total())
	}
	s.Rotate()
	s.backend.(*generator).step(3)
	want := publishedLists(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := newSource(t, o)
	defer again.Close()
	if diff := cmp.Diff(want, publishedLists(t, again)); diff != "" {
		t.Errorf("the history (-want +got):\n%s", diff)
	}
}

// TestStateNotReplaced: what could not be put into the place of the state does not stay and take room beside it, and is
// said once.
func TestStateNotReplaced(t *testing.T) {
	t.Parallel()
	o := Options{State: filepath.Join(t.TempDir(), "state"), Synthetic: &Synthetic{Resources: 2_000, Size: 1}}
	s := newSource(t, o)
	defer s.Close()
	fail := func() {
		t.Helper()
		if err := s.state.rewrite(s); err == nil || strings.Count(err.Error(), "state") > 3 {
			t.Errorf("%v", err)
		}
		if _, err := os.Lstat(o.State + ".new"); !os.IsNotExist(err) {
			t.Errorf("%s.new: %v", o.State, err)
		}
	}
	if _, err := os.Stat("/dev/full"); err == nil {
		if err := os.Symlink("/dev/full", o.State+".new"); err != nil {
			t.Fatal(err)
		}
		fail()
	}
	if err := os.Remove(o.State); err != nil {
		t.Fatal(err)
	}
	write(t, o.State, "a", "a folder cannot be replaced by a file")
	fail()
}
