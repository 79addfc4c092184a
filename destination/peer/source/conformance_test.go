package source

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/rsdoc"
)

// TestEveryDocumentConforms walks from the Source Description over every document and holds each to the specification:
// Appendix A, the links of [7], forward order, and what is said about the resources.
func TestEveryDocumentConforms(t *testing.T) {
	t.Parallel()
	all := []rsdoc.Algorithm{rsdoc.MD5, rsdoc.SHA1, rsdoc.SHA256, rsdoc.SHA384, rsdoc.SHA512}
	for name, o := range map[string]Options{
		"one list":       {},
		"nothing":        {DescribedBy: "http://source.example/about?a=1&b=2"},
		"index":          {ListSize: 7, ListEvery: -1},
		"rotated":        {ChangeListSize: 5},
		"archive":        {ChangeListSize: 3, KeepChangeLists: 2, Archive: 3, ListSize: 50},
		"closed":         {ChangeListSize: 4, ClosedLists: true, Hashes: all},
		"1.0":            {ChangeListSize: 5, Spec: "1.0", Hashes: []rsdoc.Algorithm{rsdoc.MD5, rsdoc.SHA256}},
		"1.0 and closed": {ChangeListSize: 5, Spec: "1.0", ClosedLists: true, ListSize: 10, ListEvery: -1},
		"dumps":          {Dumps: true},
		"many packages":  {Dumps: true, DumpSize: 2, ListSize: 3, ChangeListSize: 7, Hashes: all},
		"1.0 and dumps":  {Dumps: true, DumpSize: 3, Spec: "1.0", ChangeListSize: 3, KeepChangeLists: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := newScripted()
			o.Now = clock.now
			s := newSource(t, o)
			defer s.Close()
			for i := range 23 {
				if name == "nothing" {
					break
				}
				mustPut(t, s, fmt.Sprintf("päth/%d & <%d>.html", i, i), strings.Repeat("x", i))
				clock.forward(time.Second)
				if i%4 == 3 {
					s.Delete(fmt.Sprintf("päth/%d & <%d>.html", i-1, i-1))
				}
				if i%5 == 3 {
					mustPut(t, s, fmt.Sprintf("päth/%d & <%d>.html", i, i), "again")
				}
			}
			clock.forward(dumpAge + time.Second)
			c := crawl(t, s)
			if diff := cmp.Diff(maps.Collect(s.Resources()), c.set); diff != "" {
				t.Errorf("the Resource List is not the truth (-want +got):\n%s", diff)
			}
			if got, want := c.kinds(rsdoc.KindChangeListArchive), name == "archive"; got != want {
				t.Errorf("an archive of Change Lists: %t, want %t", got, want)
			}
		})
	}
}

type crawler struct {
	t     *testing.T
	s     *Source
	o     Options
	seen  map[string]bool
	found []rsdoc.Kind
	set   map[string][32]byte // by the Resource List
	// dumped is what the packages of the Resource Dump hold, paths their paths and those of the Change Dump.
	dumped map[string][32]byte
}

// crawl reads every document.
func crawl(t *testing.T, s *Source) *crawler {
	t.Helper()
	c := &crawler{t: t, s: s, o: s.options, seen: map[string]bool{}, set: map[string][32]byte{}, dumped: map[string][32]byte{}}
	c.document(s.Description(), "", rsdoc.KindDescription)
	for _, k := range []rsdoc.Kind{rsdoc.KindResourceDump, rsdoc.KindChangeDump} {
		if c.kinds(k) != s.options.Dumps {
			t.Errorf("a document of kind %s: %t", k, c.kinds(k))
		}
	}
	return c
}

func (c *crawler) kinds(k rsdoc.Kind) bool { return slices.Contains(c.found, k) }

// document checks one document and all below it. up is where its `up` must lead.
func (c *crawler) document(uri, up string, kind rsdoc.Kind) {
	if c.seen[uri] {
		return
	}
	c.seen[uri] = true
	body := get(c.t, c.s, uri)
	checkXML(c.t, body)
	head, entries := read(c.t, body)
	if head.Kind != kind {
		c.t.Fatalf("%s is a %s, not a %s", uri, head.Kind, kind)
	}
	c.found = append(c.found, kind)
	link, _ := head.Link(rsdoc.RelUp)
	if link.Href != up {
		c.t.Errorf("%s: up leads to %q, not to %q", uri, link.Href, up)
	}
	if d, ok := head.Link(rsdoc.RelDescribedBy); (kind == rsdoc.KindDescription || kind == rsdoc.KindCapabilityList) &&
		(ok != (c.o.DescribedBy != "") || d.Href != c.o.DescribedBy) {
		c.t.Errorf("%s: describedby leads to %q", uri, d.Href)
	}
	if index, ok := head.Link(rsdoc.RelIndex); ok {
		if indexHead, _ := read(c.t, get(c.t, c.s, index.Href)); indexHead.Shape != rsdoc.Index || indexHead.Kind != kind {
			c.t.Errorf("%s: index leads to a %v %s", uri, indexHead.Shape, indexHead.Kind)
		}
	}
	if archives, ok := head.Link(rsdoc.RelArchives); ok {
		c.document(archives.Href, c.s.at(capabilityList), rsdoc.KindChangeListArchive)
	}
	resource := kind == rsdoc.KindResourceList || kind == rsdoc.KindResourceDump
	if head.At.Known() != resource || head.Completed.Known() && head.Completed < head.At {
		c.t.Errorf("%s: at %v, completed %v", uri, head.At, head.Completed)
	}
	if head.From.Known() != (kind == rsdoc.KindChangeList || kind == rsdoc.KindChangeDump) || head.Until.Known() && head.Until <= head.From {
		c.t.Errorf("%s: from %v, until %v", uri, head.From, head.Until)
	}
	switch {
	case kind == rsdoc.KindDescription:
		for _, e := range entries {
			c.document(e.Loc, uri, rsdoc.KindCapabilityList)
		}
	case kind == rsdoc.KindCapabilityList:
		c.capabilities(uri, entries)
	case head.Shape == rsdoc.List && (kind == rsdoc.KindResourceDump || kind == rsdoc.KindChangeDump):
		c.packages(uri, head, entries)
	case resource && head.Shape == rsdoc.List:
		c.resources(entries)
	case kind == rsdoc.KindChangeList && head.Shape == rsdoc.List:
		c.changes(uri, head, entries)
	default:
		c.parts(uri, head, entries)
	}
}

func (c *crawler) capabilities(uri string, entries []rsdoc.Entry) {
	once := map[rsdoc.Kind]bool{}
	for _, e := range entries {
		if once[e.Capability] {
			c.t.Errorf("two entries for %s", e.Capability)
		}
		once[e.Capability] = true
		c.document(e.Loc, uri, e.Capability)
	}
	if !once[rsdoc.KindResourceList] || !once[rsdoc.KindChangeList] {
		c.t.Errorf("capabilities %v", once)
	}
}

// parts checks an index or archive: each interval or instant is that of the part, and Change Lists join.
func (c *crawler) parts(uri string, head rsdoc.Head, entries []rsdoc.Entry) {
	kind, last := head.Kind, rsdoc.NoTime
	if kind == rsdoc.KindChangeListArchive {
		kind = rsdoc.KindChangeList
	}
	for _, e := range entries {
		part, _ := read(c.t, get(c.t, c.s, e.Loc))
		if part.Shape != rsdoc.List || part.From != e.From || part.Until != e.Until || part.At != e.At {
			c.t.Errorf("%s says of %s what that does not say: %+v, %+v", uri, e.Loc, e, part)
		}
		if last.Known() && e.From != last {
			c.t.Errorf("%s: a list begins at %v, the one before ended at %v", uri, e.From, last)
		}
		last = e.Until
		c.document(e.Loc, c.s.at(capabilityList), kind)
	}
	if head.Kind == rsdoc.KindChangeList && len(entries) > 0 && head.From != entries[0].From {
		c.t.Errorf("%s begins at %v, its first list at %v", uri, head.From, entries[0].From)
	}
	if head.Until.Known() {
		c.t.Errorf("%s is closed", uri)
	}
}

func (c *crawler) resources(entries []rsdoc.Entry) {
	for _, e := range entries {
		resp := ask(c.s, "GET", e.Loc)
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 200 {
			c.t.Fatalf("GET %s: %s, %v", e.Loc, resp.Status, err)
		}
		if int64(len(body)) != e.Length || resp.Header.Get("Content-Type") != e.Type {
			c.t.Errorf("%s: %d bytes of %s, listed %d of %s", e.Loc, len(body), resp.Header.Get("Content-Type"), e.Length, e.Type)
		}
		if want := max(1, len(c.o.Hashes)); len(e.Digests) != want {
			c.t.Errorf("%s: %d digests, want %d", e.Loc, len(e.Digests), want)
		}
		for _, d := range e.Digests {
			h := d.New()
			h.Write(body)
			if got := h.Sum(nil); !bytes.Equal(got, d.Bytes()) {
				c.t.Errorf("%s: %x, listed %v", e.Loc, got, d)
			}
		}
		if !e.LastMod.Known() || e.HasMD && e.Change != rsdoc.ChangeNone {
			c.t.Errorf("%s: lastmod %v, change %v", e.Loc, e.LastMod, e.Change)
		}
		c.set[e.Loc] = sha256Of(c.t, e)
	}
}

func (c *crawler) changes(uri string, head rsdoc.Head, entries []rsdoc.Entry) {
	if head.Until.Known() == false && c.o.ClosedLists {
		c.t.Errorf("%s is open", uri)
	}
	last := head.From
	for _, e := range entries {
		at := e.Datetime
		if c.o.Spec == "1.0" {
			if at.Known() {
				c.t.Errorf("%s: datetime in a 1.0 document", uri)
			}
			at = e.LastMod
		}
		if at <= last || head.Until.Known() && at >= head.Until {
			c.t.Errorf("%s: change at %v, not between %v and %v", uri, at, last, head.Until)
		}
		last = at
		switch {
		case e.Change == rsdoc.ChangeNone:
			c.t.Errorf("%s: entry without change", uri)
		case e.Change == rsdoc.ChangeDeleted && (len(e.Digests) > 0 || e.Length >= 0 || e.Type != ""):
			c.t.Errorf("%s: a deletion with a representation: %+v", uri, e)
		case e.Change != rsdoc.ChangeDeleted && (len(e.Digests) == 0 || e.Length < 0 || e.Type == "" || !e.LastMod.Known()):
			c.t.Errorf("%s: a change without a representation: %+v", uri, e)
		}
	}
}
