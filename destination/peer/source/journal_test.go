package source

import (
	"bytes"
	"fmt"
	"maps"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"resyncd/destination/rsdoc"
)

// TestHistory drives a Source through random histories and looks at it now and then: a list once closed is byte for byte the same
// as long as it is published; lists join without hole or overlap; instants rise strictly; the changes after any Resource
// List lead from it to the truth.
func TestHistory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		clock := newScripted()
		s := newSource(t, Options{
			Now:             clock.now,
			ChangeListSize:  rapid.IntRange(1, 6).Draw(t, "size"),
			KeepChangeLists: rapid.SampledFrom([]int{-1, 1, 3}).Draw(t, "keep"),
			Archive:         rapid.IntRange(0, 2).Draw(t, "archive"),
			ClosedLists:     rapid.Bool().Draw(t, "closed"),
			ListSize:        rapid.IntRange(1, 5).Draw(t, "list size"),
			ListEvery:       rapid.SampledFrom([]time.Duration{-1, 0, time.Second}).Draw(t, "list every"),
		})
		closed := map[string][]byte{}
		version := 0
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
			"look": func(t *rapid.T) { checkHistory(t, s, closed) },
		})
		checkHistory(t, s, closed)
	})
}

func checkHistory(t *rapid.T, s *Source, closed map[string][]byte) {
	if s.options.ClosedLists {
		s.Rotate() // else the latest changes would not be published
	}
	// It may be an old one, but the Change Lists must reach back to it.
	at, set := listed(t, s)
	heads, entries := changeLists(t, s)
	if heads[0].From > at {
		t.Fatalf("the Change Lists begin at %v, the Resource List is of %v", heads[0].From, at)
	}
	last := rsdoc.NoTime
	for i, head := range heads {
		if last.Known() && head.From != last {
			t.Fatalf("list %d begins at %v, the one before ended at %v", i, head.From, last)
		}
		if open := i == len(heads)-1 && !s.options.ClosedLists; head.Until.Known() == open {
			t.Fatalf("list %d of %d: until %v", i, len(heads), head.Until)
		}
		instant := head.From
		for _, e := range entries[i] {
			if e.Datetime <= instant || head.Until.Known() && e.Datetime >= head.Until {
				t.Fatalf("list %d: %v is not between %v and %v", i, e.Datetime, instant, head.Until)
			}
			instant = e.Datetime
			if e.Datetime == at {
				t.Fatalf("a change and the Resource List share the instant %v", at)
			}
			switch {
			case e.Datetime < at:
			case e.Change == rsdoc.ChangeDeleted:
				delete(set, e.Loc)
			default:
				set[e.Loc] = sha256Of(t, e)
			}
		}
		last = head.Until
	}
	if diff := cmp.Diff(maps.Collect(s.Resources()), set); diff != "" {
		t.Fatalf("list and changes do not lead to the truth (-want +got):\n%s", diff)
	}
	checkClosed(t, s, closed)
}

// checkClosed compares every closed list with what it was when it was first seen.
func checkClosed(t *rapid.T, s *Source, closed map[string][]byte) {
	resp := ask(s, "GET", testBase+"/"+changeListArchive)
	uris := []string{testBase + "/" + changeListIndex}
	if resp.StatusCode == 200 {
		uris = append(uris, testBase+"/"+changeListArchive)
	}
	for _, uri := range uris {
		_, parts := read(t, get(t, s, uri))
		for _, part := range parts {
			body := get(t, s, part.Loc)
			if head, _ := read(t, body); !head.Until.Known() {
				continue
			}
			if was, ok := closed[part.Loc]; ok && !bytes.Equal(was, body) {
				t.Fatalf("a closed list has changed:\n%s\n%s", was, body)
			}
			closed[part.Loc] = body
		}
	}
}

// TestRotation follows the URIs of the open list over a rotation.
func TestRotation(t *testing.T) {
	t.Parallel()
	clock := newScripted()
	s := newSource(t, Options{Now: clock.now, ChangeListSize: 2})
	where := func() string {
		_, c := read(t, get(t, s, testBase+"/"+capabilityList))
		return c[1].Loc
	}
	first := where()
	tag := ask(s, "GET", testBase+"/"+capabilityList).Header.Get("ETag")
	mustPut(t, s, "a", "1")
	if where() != first {
		t.Fatalf("the only list has moved to %s", where())
	}
	mustPut(t, s, "b", "1")
	if where() != testBase+"/"+changeListIndex {
		t.Errorf("with two lists the Capability List names %s", where())
	}
	if ask(s, "GET", testBase+"/"+capabilityList, "If-None-Match", tag).StatusCode != 200 {
		t.Error("the Capability List has changed and its ETag has not")
	}
	head, entries := read(t, get(t, s, first))
	if !head.Until.Known() || len(entries) != 2 {
		t.Errorf("the old list: until %v, %d entries", head.Until, len(entries))
	}
	_, parts := read(t, get(t, s, testBase+"/"+changeListIndex))
	if len(parts) != 2 || parts[0].Loc != first || parts[1].Loc == first {
		t.Errorf("index: %+v", parts)
	}
}

// TestKeepForgets lets lists leave the index, by way of the archive or straight away.
func TestKeepForgets(t *testing.T) {
	t.Parallel()
	s := newSource(t, Options{ChangeListSize: 1, KeepChangeLists: 2, Archive: 1})
	var uris []string
	for i := range 6 {
		_, c := read(t, get(t, s, testBase+"/"+changeListIndex))
		uris = append(uris, c[len(c)-1].Loc)
		mustPut(t, s, "a", fmt.Sprint(i))
	}
	var got []int
	for _, uri := range uris {
		got = append(got, ask(s, "GET", uri).StatusCode)
	}
	if diff := cmp.Diff([]int{404, 404, 404, 200, 200, 200}, got); diff != "" {
		t.Errorf("closed lists served (-want +got):\n%s", diff)
	}
	_, archived := read(t, get(t, s, testBase+"/"+changeListArchive))
	if len(archived) != 1 || archived[0].Loc != uris[3] {
		t.Errorf("archive %+v, want %s", archived, uris[3])
	}
}

// TestListStaysStill holds the parts of a large list together while the set changes.
func TestListStaysStill(t *testing.T) {
	t.Parallel()
	clock := newScripted()
	s := newSource(t, Options{Now: clock.now, ListSize: 2})
	for i := range 5 {
		mustPut(t, s, fmt.Sprint(i), "1")
	}
	at, before := listed(t, s)
	_, parts := read(t, get(t, s, testBase+"/"+resourceList))
	mustPut(t, s, "new", "1")
	s.Delete("0")
	if again, set := listed(t, s); again != at || !cmp.Equal(before, set) {
		t.Errorf("the list of %v has become one of %v within a minute", at, again)
	}
	clock.forward(2 * time.Minute)
	again, set := listed(t, s)
	if again <= at || !cmp.Equal(maps.Collect(s.Resources()), set) {
		t.Errorf("the list is still of %v", again)
	}
	if resp := ask(s, "GET", parts[0].Loc); resp.StatusCode != 200 {
		t.Errorf("a part of the list before: %s", resp.Status)
	}
	if unchanged, _ := listed(t, s); unchanged != again {
		t.Error("a new list although nothing has changed")
	}
}

// TestHistoryKeepsNoBodies: what was replaced or deleted is told for long, but its bytes are let go.
func TestHistoryKeepsNoBodies(t *testing.T) {
	t.Parallel()
	s := newSource(t, Options{})
	var old []weak.Pointer[byte]
	for range 2 {
		body := make([]byte, 1<<20)
		old = append(old, weak.Make(&body[0]))
		if err := s.Put("a", body); err != nil {
			t.Fatal(err)
		}
	}
	s.Delete("a")
	runtime.GC()
	for i, p := range old {
		if p.Value() != nil {
			t.Errorf("the body of version %d is still held", i)
		}
	}
	if total := s.journal.total(); total != 3 {
		t.Errorf("%d changes are told", total)
	}
}
