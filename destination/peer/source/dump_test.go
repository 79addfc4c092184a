package source

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"resyncd/destination/rsdoc"
)

// unpacked is one package, held to the rules of the digest.
type unpacked struct {
	head    rsdoc.Head // of the manifest
	entries []rsdoc.Entry
	members map[string][]byte
}

// unpack reads a package, and fails unless its manifest tells exactly what is in it and is what `contents` leads to.
func unpack(t failer, s *Source, e *rsdoc.Entry, kind rsdoc.Kind) unpacked {
	t.Helper()
	if len(e.Links) != 1 || e.Links[0].Rel != "contents" || e.Links[0].Type != "application/xml" || e.Type != "application/zip" {
		t.Fatalf("package %+v", e)
	}
	body := get(t, s, e.Loc)
	z, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatalf("%s: %v", e.Loc, err)
	}
	u := unpacked{members: map[string][]byte{}}
	var manifest []byte
	for _, f := range z.File {
		in, err := f.Open()
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		b, err := io.ReadAll(in)
		if err != nil || !filepath.IsLocal(f.Name) || strings.ContainsAny(f.Name, `\:`) || f.Mode().Perm() == 0 && f.Mode() != 0 {
			t.Fatalf("%s: %v", f.Name, err)
		}
		if f.Name == "manifest.xml" {
			manifest = b
			continue
		}
		if _, twice := u.members["/"+f.Name]; twice {
			t.Fatalf("%s is there twice", f.Name)
		}
		u.members["/"+f.Name] = b
	}
	if contents := get(t, s, e.Links[0].Href); !bytes.Equal(contents, manifest) {
		t.Fatalf("contents says\n%s\nand the manifest inside\n%s", contents, manifest)
	}
	checkXML(t, manifest)
	u.head, u.entries = read(t, manifest)
	if up, _ := u.head.Link(rsdoc.RelUp); up.Href != s.at(capabilityList) || u.head.Kind != kind || u.head.Shape != rsdoc.List ||
		u.head.At.Known() != (kind == rsdoc.KindResourceDumpManifest) || u.head.From.Known() != (kind == rsdoc.KindChangeDumpManifest) {
		t.Fatalf("manifest: %+v", u.head)
	}
	paths := map[string]bool{}
	for _, e := range u.entries {
		if e.Path == "" && e.Change == rsdoc.ChangeDeleted {
			if len(e.Digests) > 0 || e.Length >= 0 {
				t.Fatalf("a deletion with a representation: %+v", e)
			}
			continue
		}
		b, ok := u.members[e.Path]
		if !ok || paths[e.Path] || e.Change == rsdoc.ChangeDeleted || int64(len(b)) != e.Length || len(e.Digests) != len(s.options.Hashes) {
			t.Fatalf("%+v, the member has %d bytes", e, len(b))
		}
		paths[e.Path] = true
		for _, d := range e.Digests {
			h := d.New()
			h.Write(b)
			if !bytes.Equal(h.Sum(nil), d.Bytes()) {
				t.Fatalf("%s: the member is %x, the manifest says %v", e.Loc, h.Sum(nil), d)
			}
		}
	}
	if len(paths) != len(u.members) {
		t.Fatalf("%d members, %d of them in the manifest", len(u.members), len(paths))
	}
	return u
}

// packages checks a dump and all packages in it.
func (c *crawler) packages(uri string, head rsdoc.Head, entries []rsdoc.Entry) {
	last := head.From
	for _, e := range entries {
		if head.Kind == rsdoc.KindResourceDump {
			u := unpack(c.t, c.s, &e, rsdoc.KindResourceDumpManifest)
			if e.At != head.At || u.head.At != head.At || u.head.Completed < e.Completed || len(u.entries) > c.o.DumpSize {
				c.t.Errorf("%s of %v, listed as of %v, with %d entries", e.Loc, u.head.At, e.At, len(u.entries))
			}
			for _, r := range u.entries {
				if _, twice := c.dumped[r.Loc]; twice || r.Change != rsdoc.ChangeNone || !r.LastMod.Known() || r.Datetime.Known() {
					c.t.Errorf("%s: twice %t, %+v", e.Loc, twice, r)
				}
				c.dumped[r.Loc] = sumOf(string(u.members[r.Path]))
			}
			continue
		}
		u := unpack(c.t, c.s, &e, rsdoc.KindChangeDumpManifest)
		if e.From != last || u.head.From != e.From || u.head.Until != e.Until || e.Until <= e.From {
			c.t.Errorf("%s: from %v until %v, listed with %v and %v, the one before ends at %v",
				e.Loc, u.head.From, u.head.Until, e.From, e.Until, last)
		}
		last = e.Until
		at, seen := e.From, map[string]bool{}
		for _, r := range u.entries {
			when := r.Datetime
			if c.o.Spec == "1.0" {
				when = r.LastMod
			}
			if r.Change == rsdoc.ChangeNone || when <= at || when > e.Until || seen[r.Loc] {
				c.t.Errorf("%s: %+v after %v", e.Loc, r, at)
			}
			at, seen[r.Loc] = when, true
		}
	}
	if head.Until.Known() {
		c.t.Errorf("%s is closed", uri)
	}
}

// TestDumpsOfEveryMode: what the packages hold is the truth, of a folder and of made-up resources, and still is when a
// dump is offered before a change and gathered after it.
func TestDumpsOfEveryMode(t *testing.T) {
	t.Parallel()
	t.Run("folder", func(t *testing.T) {
		t.Parallel()
		dir, clock := t.TempDir(), newScripted()
		for i, name := range oddNames {
			write(t, dir, name, strings.Repeat(name, i))
		}
		write(t, dir, "empty", "")
		s := newFolder(t, dir, Options{Dumps: true, DumpSize: 10, ListSize: 2, Now: clock.now})
		check := func() {
			t.Helper()
			if c := crawl(t, s); !cmp.Equal(truth(t, dir), c.dumped) {
				t.Errorf("the packages are not the folder (-want +got):\n%s", cmp.Diff(truth(t, dir), c.dumped))
			}
		}
		check()
		// A dump that is offered, and a folder that then changes.
		write(t, dir, "a b", "before")
		scan(t, s)
		clock.forward(time.Minute)
		get(t, s, "/"+resourceDump)
		write(t, dir, "a b", "after, and longer")
		write(t, dir, "new/x", "y")
		if err := os.Remove(filepath.Join(dir, "100%")); err != nil {
			t.Fatal(err)
		}
		scan(t, s)
		c := &crawler{t: t, s: s, o: s.options, seen: map[string]bool{}, dumped: map[string][32]byte{}}
		c.document(testBase+"/"+resourceDump, s.at(capabilityList), rsdoc.KindResourceDump)
		if want := sumOf("after, and longer"); c.dumped[s.URI("a b")] != want || c.dumped[s.URI("100%")] != [32]byte{} || c.dumped[s.URI("new/x")] != [32]byte{} {
			t.Errorf("the dump of before has %v", c.dumped)
		}
		clock.forward(time.Minute)
		check()
	})
	t.Run("made up", func(t *testing.T) {
		t.Parallel()
		clock := newScripted()
		s := newSource(t, Options{
			Dumps: true, DumpSize: 7, Now: clock.now, ChangeListSize: 20, Synthetic: &Synthetic{Resources: 40, Seed: 3},
		})
		defer s.Close()
		for range 3 {
			s.backend.(*generator).step(33)
			clock.forward(time.Minute)
			c := crawl(t, s)
			if diff := cmp.Diff(maps.Collect(s.Resources()), c.dumped); diff != "" {
				t.Errorf("the packages are not the resources (-want +got):\n%s", diff)
			}
		}
		// Of made-up resources, the versions of the snapshot are still there.
		get(t, s, "/"+resourceDump)
		want := maps.Collect(s.Resources())
		s.backend.(*generator).step(20)
		if diff := cmp.Diff(want, crawl(t, s).dumped); diff != "" {
			t.Errorf("the packages are not what was (-want +got):\n%s", diff)
		}
	})
}

// TestPackageRequests goes on with a package by range, as a Destination does after a cut.
func TestPackageRequests(t *testing.T) {
	t.Parallel()
	clock := newScripted()
	s := newSource(t, Options{Dumps: true, Now: clock.now})
	random := make([]byte, 8<<10)
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	mustPut(t, s, "shrinks", strings.Repeat("a", 8<<10))
	mustPut(t, s, "random", string(random))
	_, entries := read(t, get(t, s, "/"+resourceDump))
	if e := entries[0]; len(entries) != 1 || e.Length >= 0 || len(e.Digests) > 0 {
		t.Errorf("before it is gathered: %+v", entries)
	}
	uri := entries[0].Loc
	head := ask(s, "HEAD", uri)
	whole := get(t, s, uri)
	tag := head.Header.Get("ETag")
	if head.ContentLength != int64(len(whole)) || tag == "" || head.Header.Get("Content-Type") != "application/zip" {
		t.Errorf("HEAD: %+v, and %d bytes", head, len(whole))
	}
	if len(whole) < 8<<10 || len(whole) > 10<<10 {
		t.Errorf("%d bytes: one member shrinks, the other does not", len(whole))
	}
	for _, c := range []struct {
		headers []string
		status  int
		body    []byte
	}{
		{[]string{"Range", "bytes=100-", "If-Range", tag}, 206, whole[100:]},
		{[]string{"Range", "bytes=100-", "If-Range", `"other"`}, 200, whole},
		{[]string{"If-None-Match", tag}, 304, nil},
	} {
		resp := ask(s, "GET", uri, c.headers...)
		if body, _ := io.ReadAll(resp.Body); resp.StatusCode != c.status || !bytes.Equal(body, c.body) || resp.Header.Get("ETag") != tag {
			t.Errorf("%v: %s, %d bytes", c.headers, resp.Status, len(body))
		}
	}
	_, entries = read(t, get(t, s, "/"+resourceDump))
	if e := entries[0]; e.Length != int64(len(whole)) || sha256Of(t, e) != sumOf(string(whole)) {
		t.Errorf("once it is gathered: %+v", e)
	}
	// Two dumps later it is gone, with its file.
	folder := s.dumps.folder
	for i := range 2 {
		get(t, s, uri)
		mustPut(t, s, "shrinks", fmt.Sprint(i))
		clock.forward(dumpAge - time.Second)
		if _, again := read(t, get(t, s, "/"+resourceDump)); i == 0 && again[0].Loc != uri {
			t.Error("a new dump within the least age")
		}
		clock.forward(2 * time.Second)
		get(t, s, "/"+resourceDump)
	}
	if resp := ask(s, "GET", uri); resp.StatusCode != 404 {
		t.Errorf("two dumps later: %s", resp.Status)
	}
	if left, _ := os.ReadDir(folder); len(left) != 0 {
		t.Errorf("files left: %v", left)
	}
	for _, none := range []string{resourceDumpPart + "x.zip", resourceDumpPart + "x.manifest.xml", changeDumpPart + "x.zip", documents + "/.zip"} {
		if resp := ask(s, "GET", "/"+none); resp.StatusCode != 404 {
			t.Errorf("%s: %s", none, resp.Status)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the folder of packages: %v", err)
	}
	plain := newSource(t, Options{})
	for _, none := range []string{resourceDump, changeDump, resourceDumpPart + "x.zip", resourceDumpPart + "x.manifest.xml"} {
		if resp := ask(plain, "GET", "/"+none); resp.StatusCode != 404 {
			t.Errorf("without dumps, %s: %s", none, resp.Status)
		}
	}
}

// TestChangeDumpOfLostBytes: bytes that are gone are never claimed. What a published change took away is in a later
// package; what none has published yet makes the package wait.
func TestChangeDumpOfLostBytes(t *testing.T) {
	t.Parallel()
	dir, clock := t.TempDir(), newScripted()
	write(t, dir, "a", "0")
	write(t, dir, "b", "0")
	s := newFolder(t, dir, Options{Dumps: true, Now: clock.now})
	write(t, dir, "a", "1 and longer")
	write(t, dir, "b", "1 and longer")
	write(t, dir, "c", "1")
	scan(t, s)
	if _, none := read(t, get(t, s, "/"+changeDump)); len(none) > 0 {
		t.Fatalf("a package of young changes: %+v", none)
	}
	clock.forward(dumpAge + time.Second)
	_, first := read(t, get(t, s, "/"+changeDump))
	write(t, dir, "a", "2")
	if err := os.Remove(filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	for _, uri := range []string{first[0].Loc, first[0].Links[0].Href} {
		if resp := ask(s, "GET", uri); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" {
			t.Errorf("%s before the change is published: %s", uri, resp.Status)
		}
	}
	scan(t, s)
	u := unpack(t, s, &first[0], rsdoc.KindChangeDumpManifest)
	if len(u.entries) != 1 || u.entries[0].Loc != s.URI("c") || u.entries[0].Change != rsdoc.ChangeCreated {
		t.Errorf("the first package has %+v", u.entries)
	}
	clock.forward(dumpAge + time.Second)
	_, both := read(t, get(t, s, "/"+changeDump))
	if len(both) != 2 || both[0].Loc != first[0].Loc || both[0].Length < 0 {
		t.Fatalf("packages %+v", both)
	}
	u = unpack(t, s, &both[1], rsdoc.KindChangeDumpManifest)
	got := map[string]rsdoc.Change{}
	for _, e := range u.entries {
		got[e.Loc] = e.Change
	}
	want := map[string]rsdoc.Change{s.URI("a"): rsdoc.ChangeUpdated, s.URI("b"): rsdoc.ChangeDeleted}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the second package (-want +got):\n%s", diff)
	}
}

// TestUnmountedFolder: a folder whose files have all gone for a moment makes no package that says so.
func TestUnmountedFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "mount")
	write(t, dir, "a", "0")
	s := newFolder(t, dir, Options{Dumps: true})
	_, entries := read(t, get(t, s, "/"+resourceDump))
	if err := os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "..", "a")); err != nil {
		t.Fatal(err)
	}
	if resp := ask(s, "GET", entries[0].Loc); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%s", resp.Status)
	}
	if err := os.Rename(filepath.Join(dir, "..", "a"), filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	if u := unpack(t, s, &entries[0], rsdoc.KindResourceDumpManifest); len(u.entries) != 1 {
		t.Errorf("%+v", u.entries)
	}
}

// TestDumpHistory drives a Source through random histories: a Resource Dump and the packages of the Change Dump after it
// lead to the truth, and a package never changes.
func TestDumpHistory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		clock := newScripted()
		s := newSource(t, Options{
			Now: clock.now, Dumps: true,
			DumpSize:        rapid.IntRange(1, 5).Draw(t, "size"),
			ChangeListSize:  rapid.IntRange(1, 6).Draw(t, "change list size"),
			KeepChangeLists: rapid.SampledFrom([]int{-1, 1, 3}).Draw(t, "keep"),
			ListSize:        rapid.SampledFrom([]int{1, 3, 100}).Draw(t, "list size"),
		})
		defer s.Close()
		packages := map[string]string{}
		version := 0
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				version++
				mustPut(t, s, fmt.Sprintf("r%d", rapid.IntRange(0, 7).Draw(t, "n")), fmt.Sprint(version))
			},
			"delete": func(t *rapid.T) { s.Delete(fmt.Sprintf("r%d", rapid.IntRange(0, 7).Draw(t, "n"))) },
			"clock": func(t *rapid.T) {
				clock.forward(time.Duration(rapid.IntRange(-2000, 5000).Draw(t, "ms")) * time.Millisecond)
			},
			"offer": func(t *rapid.T) { get(t, s, "/"+changeDump) },
			"look":  func(t *rapid.T) { checkDumps(t, s, packages) },
		})
		clock.forward(time.Minute)
		checkDumps(t, s, packages)
	})
}

// checkDumps follows the dumps of now. packages has what was read before.
func checkDumps(t *rapid.T, s *Source, packages map[string]string) {
	manifest := func(e *rsdoc.Entry, kind rsdoc.Kind) []rsdoc.Entry {
		body := string(get(t, s, e.Loc))
		was, known := packages[e.Loc]
		if packages[e.Loc] = body; !known {
			return unpack(t, s, e, kind).entries
		}
		if was != body {
			t.Fatalf("%s has changed", e.Loc)
		}
		_, entries := read(t, get(t, s, e.Links[0].Href))
		return entries
	}
	head, entries := read(t, get(t, s, "/"+resourceDump))
	if head.Shape == rsdoc.Index {
		parts := entries
		entries = nil
		for _, part := range parts {
			_, more := read(t, get(t, s, part.Loc))
			entries = append(entries, more...)
		}
	}
	set := map[string][32]byte{}
	for _, e := range entries {
		for _, r := range manifest(&e, rsdoc.KindResourceDumpManifest) {
			set[r.Loc] = sha256Of(t, r)
		}
	}
	changes, spans := read(t, get(t, s, "/"+changeDump))
	reached := changes.From
	for _, e := range spans {
		if e.From != reached {
			t.Fatalf("%s begins at %v, the one before ended at %v", e.Loc, e.From, reached)
		}
		reached = e.Until
		for _, r := range manifest(&e, rsdoc.KindChangeDumpManifest) {
			switch {
			case r.Datetime < head.At:
			case r.Change == rsdoc.ChangeDeleted:
				delete(set, r.Loc)
			default:
				set[r.Loc] = sha256Of(t, r)
			}
		}
	}
	// What is too young for a package is in the Change Lists.
	_, lists := changeLists(t, s)
	for _, list := range lists {
		for _, e := range list {
			switch {
			case e.Datetime < max(head.At, reached):
			case e.Change == rsdoc.ChangeDeleted:
				delete(set, e.Loc)
			default:
				set[e.Loc] = sha256Of(t, e)
			}
		}
	}
	if diff := cmp.Diff(maps.Collect(s.Resources()), set); diff != "" {
		t.Fatalf("dumps and changes do not lead to the truth (-want +got):\n%s", diff)
	}
}

// TestGatheringTogether: many who ask at once for packages and documents get the same bytes, while the Source changes.
func TestGatheringTogether(t *testing.T) {
	t.Parallel()
	s := newSource(t, Options{Now: newScripted().now, Dumps: true, DumpSize: 5, Synthetic: &Synthetic{Resources: 50, Seed: 1}})
	defer s.Close()
	_, entries := read(t, get(t, s, "/"+resourceDump))
	ctx, cancel := context.WithCancel(context.Background())
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		for i := 0; i < 10_000 && ctx.Err() == nil; i++ {
			s.backend.(*generator).step(1)
		}
	}()
	got := make(chan map[string]string)
	for range 4 {
		go func() {
			bodies := map[string]string{}
			for _, e := range entries {
				for _, uri := range []string{e.Loc, e.Links[0].Href} {
					b, _ := io.ReadAll(ask(s, "GET", uri).Body)
					bodies[uri] = string(b)
				}
				io.Copy(io.Discard, ask(s, "GET", "/"+resourceDump).Body)
				io.Copy(io.Discard, ask(s, "GET", "/"+changeDump).Body)
			}
			got <- bodies
		}()
	}
	first := <-got
	for range 3 {
		if !maps.Equal(first, <-got) {
			t.Error("two readers, two packages")
		}
	}
	cancel()
	<-changed
}

// TestChangeDumpIsBounded: one document holds what a document may; the oldest packages go.
func TestChangeDumpIsBounded(t *testing.T) {
	t.Parallel()
	s := newSource(t, Options{Dumps: true, DumpSize: 1})
	s.mu.Lock()
	for i := range DefaultListSize {
		s.dumps.changes = append(s.dumps.changes, &pack{name: fmt.Sprint(i), head: rsdoc.Head{Until: s.clock.tick()}})
	}
	s.mu.Unlock()
	mustPut(t, s, "a", "1")
	mustPut(t, s, "a", "2")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dumps.cut()
	if p := s.dumps.changes; len(p) != DefaultListSize || p[0].name != "2" {
		t.Errorf("%d packages, the first is %s", len(p), p[0].name)
	}
}

// TestPackageOfWhatMoved: a package waits for a folder that became a file, like that of any file that has just gone.
func TestPackageOfWhatMoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a/b", "1")
	s := newFolder(t, dir, Options{Dumps: true})
	defer s.Close()
	_, entries := read(t, get(t, s, "/"+resourceDump))
	if err := os.RemoveAll(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "a", "2")
	if resp := ask(s, "GET", entries[0].Loc); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("before the next scan: %s", resp.Status)
	}
	scan(t, s)
	get(t, s, entries[0].Loc)
}

// TestFolderOfPackagesIsCleaned: a folder for temporary files is, now and then; after the end nothing is made in it.
func TestFolderOfPackagesIsCleaned(t *testing.T) {
	t.Parallel()
	s := newSource(t, Options{Dumps: true, DumpSize: 1})
	for _, name := range []string{"a", "b", "c"} {
		mustPut(t, s, name, name)
	}
	_, entries := read(t, get(t, s, "/"+resourceDump))
	get(t, s, entries[0].Loc)
	if err := os.RemoveAll(s.dumps.folder); err != nil {
		t.Fatal(err)
	}
	get(t, s, entries[1].Loc)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if resp := ask(s, "GET", entries[2].Loc); resp.StatusCode != 404 {
		t.Errorf("after the end: %s", resp.Status)
	}
	if _, err := os.Stat(s.dumps.folder); !os.IsNotExist(err) {
		t.Errorf("after the end there is %s: %v", s.dumps.folder, err)
	}
}
