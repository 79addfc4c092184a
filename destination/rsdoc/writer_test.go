package rsdoc

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func write(t interface{ Fatal(...any) }, h Head, spec10 bool, entries ...Entry) string {
	var b bytes.Buffer
	w, err := NewWriter(&b, h)
	if err != nil {
		t.Fatal(err)
	}
	w.Spec10 = spec10
	for i := range entries {
		if err := w.Write(&entries[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWriter(t *testing.T) {
	t.Parallel()
	h := NewHead(List, KindChangeList)
	h.From, _ = ParseMicros("2024-05-02T00:00:00Z")
	h.Links = []Link{NewLink(RelUp, "https://lib.example/c?a=1&b=2")}
	e := NewEntry("https://lib.example/<18>.pdf")
	e.LastMod, _ = ParseMicros("2009-03-01")
	e.Datetime, _ = ParseMicros("2024-05-02T08:00:00.5Z")
	e.Change, e.Length, e.Type = ChangeCreated, 0, "application/pdf"
	md5, _ := ParseDigest("md5:1584abdf8ebdc9802ac0c6a7402c03b6")
	sha, _ := ParseDigest("sha-1:da39a3ee5e6b4b0d3255bfef95601890afd80709")
	e.Digests = []Digest{sha, md5}
	ln := NewLink(RelDuplicate, "https://cdn.example/18.pdf")
	ln.Pri = 1
	e.Links = []Link{ln}
	const head = `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
        xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:ln rel="up" href="https://lib.example/c?a=1&amp;b=2"/>
  <rs:md capability="changelist" from="2024-05-02T00:00:00Z"/>
  <url>
    <loc>https://lib.example/&lt;18&gt;.pdf</loc>
`
	const tail = ` hash="sha-1:da39a3ee5e6b4b0d3255bfef95601890afd80709 md5:1584abdf8ebdc9802ac0c6a7402c03b6" length="0" type="application/pdf"/>
    <rs:ln rel="duplicate" href="https://cdn.example/18.pdf" pri="1"/>
  </url>
  <url>
    <loc>https://lib.example/plain</loc>
  </url>
</urlset>
`
	want := head + `    <lastmod>2009-03-01T00:00:00Z</lastmod>
    <rs:md change="created" datetime="2024-05-02T08:00:00.5Z"` + tail
	if diff := cmp.Diff(want, write(t, h, false, e, NewEntry("https://lib.example/plain"))); diff != "" {
		t.Error(diff)
	}
	want = head + `    <lastmod>2024-05-02T08:00:00.5Z</lastmod>
    <rs:md change="created"` + tail
	if diff := cmp.Diff(want, write(t, h, true, e, NewEntry("https://lib.example/plain"))); diff != "" {
		t.Error("1.0:", diff)
	}
	plain := write(t, NewHead(Index, KindUnknown), false, NewEntry("https://lib.example/1.xml"))
	if d := mustRead(t, plain, Options{}); d.Head.HasMD || d.Head.Shape != Index || strings.Contains(plain, "rs:md") {
		t.Error(plain)
	}
}

func TestWriterRefuses(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]Entry{
		"no loc":         NewEntry(""),
		"control":        NewEntry("http://a.example/\x01"),
		"bad UTF-8":      NewEntry("http://a.example/\xFF"),
		"unknown change": {Loc: "http://a.example/", Change: ChangeUnknown},
		"no href":        {Loc: "http://a.example/", Links: []Link{{Rel: RelHub}}},
	} {
		w, err := NewWriter(io.Discard, NewHead(List, KindResourceList))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(&e); err == nil {
			t.Error(name, "is written")
		}
		if w.Close() == nil {
			t.Error(name, "is forgotten by Close")
		}
	}
	full := errors.New("disk full")
	w, err := NewWriter(failWriter{full}, NewHead(List, KindResourceList))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); !errors.Is(err, full) {
		t.Error(err)
	}
	w, _ = NewWriter(io.Discard, NewHead(List, KindResourceList))
	if err := errors.Join(w.Close(), w.Close()); err != nil {
		t.Error("closing twice:", err)
	}
	e := NewEntry("http://a.example/")
	if w.Write(&e) == nil {
		t.Error("an entry behind the end")
	}
	bad := NewHead(List, KindResourceList)
	bad.RawKind = "\x00"
	if _, err := NewWriter(io.Discard, bad); err == nil {
		t.Error("a head with NUL is written")
	}
}

type failWriter struct{ err error }

func (f failWriter) Write([]byte) (int, error) { return 0, f.err }

// What Writer writes, Reader reads as the same values; and encoding/xml finds it well-formed.
func TestWriteReadIdentity(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h, entries := drawHead(t), rapid.SliceOfN(rapid.Custom(drawEntry), 0, 5).Draw(t, "entries")
		for i := range entries {
			entries[i].Ordinal = int64(i)
		}
		doc := write(t, h, false, entries...)
		got := readAll(doc, Options{})
		want := document{Head: h, Entries: entries}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-want +got):\n%s\n%s", diff, doc)
		}
		dec := xml.NewDecoder(strings.NewReader(doc))
		for {
			if _, err := dec.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("encoding/xml: %v in\n%s", err, doc)
			}
		}
	})
}

func drawHead(t *rapid.T) Head {
	kinds := []Kind{
		KindDescription, KindCapabilityList, KindResourceList, KindResourceListArchive, KindChangeList, KindChangeNotification,
		KindFrameworkNotification, KindChangeDumpManifest, "x-unknown",
	}
	h := NewHead(Shape(rapid.IntRange(0, 1).Draw(t, "shape")), rapid.SampledFrom(kinds).Draw(t, "kind"))
	h.At, h.Completed = drawTime(t, "at"), drawTime(t, "completed")
	h.From, h.Until = drawTime(t, "from"), drawTime(t, "until")
	if h.Kind.snapshot() && !h.At.Known() {
		h.From = NoTime // else it is a list of 0.9, whose from is read as at
	}
	h.Links = drawLinks(t)
	return h
}

func drawEntry(t *rapid.T) Entry {
	e := NewEntry(drawURI(t, "loc"))
	e.LastMod = drawTime(t, "lastmod")
	e.Links = drawLinks(t)
	if e.HasMD = rapid.Bool().Draw(t, "md"); !e.HasMD {
		return e
	}
	e.Capability = rapid.SampledFrom([]Kind{"", KindResourceList, KindChangeNotification, "x-unknown"}).Draw(t, "capability")
	e.Change = Change(rapid.IntRange(int(ChangeNone), int(ChangeDeleted)).Draw(t, "change"))
	e.Datetime, e.At, e.Completed = drawTime(t, "datetime"), drawTime(t, "at"), drawTime(t, "completed")
	e.From, e.Until = drawTime(t, "from"), drawTime(t, "until")
	e.Digests = drawDigests(t)
	e.Length = rapid.Int64Min(-1).Draw(t, "length")
	e.Type, e.Encoding = drawToken(t, "type"), drawToken(t, "encoding")
	e.Path = drawString(t, "path")
	return e
}

func drawLinks(t *rapid.T) []Link {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Link {
		l := NewLink(rapid.SampledFrom([]string{RelUp, RelHub, RelPatch, "x & y"}).Draw(t, "rel"), drawURI(t, "href"))
		l.Pri = rapid.IntRange(1, noPri).Draw(t, "pri")
		l.Modified = drawTime(t, "modified")
		l.Type, l.Profile, l.Path = drawToken(t, "type"), drawToken(t, "profile"), drawString(t, "path")
		l.Length = rapid.Int64Min(-1).Draw(t, "length")
		l.Digests = drawDigests(t)
		return l
	}), 0, 3).Draw(t, "links")
}

func drawDigests(t *rapid.T) []Digest {
	ds := rapid.SliceOfNDistinct(rapid.Custom(drawDigest), 0, 3, func(d Digest) Algorithm { return d.Alg }).Draw(t, "digests")
	sorted, _ := parseDigests(strings.Join(digestStrings(ds), " "), nil)
	return sorted
}

func drawTime(t *rapid.T, name string) Micros {
	if rapid.Bool().Draw(t, name+" known") {
		return Micros(rapid.Int64Range(int64(minDatetime), int64(maxDatetime)).Draw(t, name))
	}
	return NoTime
}

func drawURI(t *rapid.T, name string) string {
	return "http://a.example/" + trimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == '%' || r == 0x7F {
			return '_'
		}
		return r
	}, drawString(t, name)))
}

func drawToken(t *rapid.T, name string) string { return trimSpace(drawString(t, name)) }

// drawString draws any text that XML can hold.
func drawString(t *rapid.T, name string) string {
	special := rapid.RuneFrom([]rune("&<>\"' \t\n\r]]>a/:;#\u00e9\u2028\U0001F600"))
	return strings.Map(func(r rune) rune {
		if !xmlChar(r) {
			return -1
		}
		return r
	}, rapid.StringOfN(rapid.OneOf(special, rapid.Rune()), 0, 24, -1).Draw(t, name))
}
