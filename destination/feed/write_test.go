package feed

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func written(t rapid.TB, d *Document) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, d); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWrite(t *testing.T) {
	t.Parallel()
	got := written(t, &Document{
		ID: "urn:f", Title: "F & co", Self: "https://x.example/f?a=1&b=2", Hubs: []string{"https://hub.example/"}, Updated: at("2026-01-02T03:04:05Z"),
		Current: "https://x.example/f", PrevArchive: "https://x.example/f/1", Archive: true,
		Entries: []NewEntry{
			{
				ID: "urn:1", Title: "<1>", Author: "A", Updated: at("2026-01-02T03:04:05.6Z"),
				Links:   []Link{{Rel: "enclosure", Href: "https://x.example/1", Type: "text/plain", Length: 5}, {Href: "https://x.example/2", Length: -1}},
				Summary: "S",
			},
			{ID: "urn:0", Deleted: true, Updated: at("2026-01-02T00:00:00Z")},
			{Edit: &Edit{Subject: "s", Author: "tel:+1", Observed: at("2026-01-02T00:00:00Z"), Type: "t", Fields: []Field{{"a", ""}, {"b", " x\n"}}}},
		},
	})
	const want = xmlDeclaration + `<feed xmlns="` + nsAtom + `" xmlns:fh="` + nsFH + `" xmlns:at="` + nsTomb + `" xmlns:report="` + nsReport + `" xmlns:gs="` + nsSheet + `">
  <id>urn:f</id>
  <title>F &amp; co</title>
  <updated>2026-01-02T03:04:05Z</updated>
  <fh:archive/>
  <link rel="self" href="https://x.example/f?a=1&amp;b=2"/>
  <link rel="hub" href="https://hub.example/"/>
  <link rel="current" href="https://x.example/f"/>
  <link rel="prev-archive" href="https://x.example/f/1"/>
  <entry>
    <author>
      <name>A</name>
    </author>
    <id>urn:1</id>
    <title>&lt;1&gt;</title>
    <updated>2026-01-02T03:04:05.6Z</updated>
    <link rel="enclosure" href="https://x.example/1" type="text/plain" length="5"/>
    <link href="https://x.example/2"/>
    <summary>S</summary>
  </entry>
  <at:deleted-entry ref="urn:0" when="2026-01-02T00:00:00Z"/>
  <entry>
    <author>
      <uri>tel:+1</uri>
    </author>
    <report:subject>s</report:subject>
    <report:observed>2026-01-02T00:00:00Z</report:observed>
    <report:content type="t">
      <report:row>
        <gs:field name="a"></gs:field>
        <gs:field name="b"> x
</gs:field>
      </report:row>
    </report:content>
  </entry>
</feed>
`
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// What Write writes Read reads.
func TestWriteReadsBack(t *testing.T) {
	t.Parallel()
	text := rapid.StringOf(rapid.SampledFrom([]rune("ab &<>\"']]>é😀\u00a0\n\r\t\x00\x1f\ufffe")))
	word := rapid.StringMatching(`[a-z<&"é]{1,8}`)
	when := rapid.Custom(func(t *rapid.T) time.Time {
		return time.UnixMicro(rapid.Int64Range(0, 4e15).Draw(t, "micros")).UTC()
	})
	clean := func(s string) string { return strings.TrimSpace(valid(s)) }
	rapid.Check(t, func(t *rapid.T) {
		d := &Document{ID: word.Draw(t, "id"), Title: text.Draw(t, "title"), Self: "https://x.example/self", Hubs: []string{"https://h.example/?a=1&b=2"}, Updated: when.Draw(t, "updated"), Archive: rapid.Bool().Draw(t, "archive"), PrevArchive: "https://x.example/1"}
		n := rapid.IntRange(0, 5).Draw(t, "entries")
		var want []*Entry
		for i := range n {
			e := NewEntry{ID: word.Draw(t, "id"), Updated: when.Draw(t, "updated")}
			w := &Entry{Key: e.ID, KeyFrom: fromID, Updated: e.Updated, Ordinal: i}
			switch rapid.IntRange(0, 2).Draw(t, "form") {
			case 0:
				e.Deleted, w.Deleted = true, true
			case 1:
				e.Title, e.Author = text.Draw(t, "title"), word.Draw(t, "author")
				e.Summary = text.Draw(t, "summary")
				e.Links = []Link{{Rel: "enclosure", Href: "https://x.example/a?b=1&c=2", Type: "audio/mpeg", Length: 7}}
				w.Title, w.Author, w.Links = clean(e.Title), e.Author, e.Links
			case 2:
				e.Edit = &Edit{Subject: word.Draw(t, "subject"), Author: "tel:+1", Observed: when.Draw(t, "observed"), Type: word.Draw(t, "type")}
				for _, name := range []string{"a", "b é"} {
					if v := valid(text.Draw(t, "value")); rapid.Bool().Draw(t, name) {
						if strings.TrimSpace(v) == "" {
							v = ""
						}
						e.Edit.Fields = append(e.Edit.Fields, Field{name, v})
					}
				}
				w.Edit, w.KeyFrom, w.Key = e.Edit, fromDigest, ""
			}
			d.Entries, want = append(d.Entries, e), append(want, w)
		}
		doc := written(t, d)
		var got []*Entry
		head, err := Read(strings.NewReader(doc), Options{}, func(e *Entry) error { got = append(got, e); return nil })
		if err != nil || len(head.Problems) > 0 {
			t.Fatalf("%v, problems %q\n%s", err, head.Problems, doc)
		}
		wantHead := &Head{Kind: Atom, ID: d.ID, Updated: d.Updated, Self: d.Self, Hubs: d.Hubs, PrevArchive: d.PrevArchive, Archive: d.Archive}
		if diff := cmp.Diff(wantHead, head); diff != "" {
			t.Fatalf("head (-want +got)\n%s", diff)
		}
		for _, e := range got {
			if e.Edit != nil {
				e.Key = ""
			}
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Entry{}, "XML"), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-want +got)\n%s\n%s", diff, doc)
		}
	})
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

var errFull = errors.New("disk full")

func TestWriteTellsErrors(t *testing.T) {
	t.Parallel()
	if err := Write(full{}, &Document{ID: "a"}); !errors.Is(err, errFull) {
		t.Error(err)
	}
}
