package feed

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"resyncd/destination/fuzztest"
)

func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*.xml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		doc, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(doc, "")
	}
	f.Add([]byte(`<rss><channel><item a:b='1'>x<?p q?><c xmlns="u"><d xmlns=""/></c></item>`), "text/xml; charset=koi8-r")
	f.Add([]byte("<rss><channel><item xml:lang='a'> <!-- --></item></channel></rss>"), "")
	f.Add([]byte(`<a:feed xmlns:a="http://www.w3.org/2005/Atom"><a:entry><a:0d>x</a:0d><a:id>i</a:id></a:entry></a:feed>`), "")
	f.Add([]byte("\xff\xfe<\x00f\x00"), "text/xml; charset=utf-8")
	f.Add([]byte(`<feed><entry><a:b xmlns:a="1"><a:c xmlns:a="2" d="a:e"/></a:b>&#55357;&#56832;&#x0;</entry><<entry`), "")
	f.Fuzz(func(t *testing.T, doc []byte, contentType string) {
		fuzztest.Bound(t)
		Sniff(contentType, doc)
		o := Options{ContentType: contentType, Base: parseURL(t, "https://x.example/a/b"), Limits: Limits{Entries: 100, EntryBytes: 64 << 10, Depth: 50}}
		next := -1
		head, err := Read(bytes.NewReader(doc), o, func(e *Entry) error {
			if e.Key == "" || e.KeyFrom == "" || e.Ordinal <= next || e.Deleted != (e.XML == nil) {
				t.Fatalf("%+v after %d", e, next)
			}
			next = e.Ordinal
			sameAgain(t, e)
			return nil
		})
		var said *Error
		if err != nil && !errors.As(err, &said) || head == nil || len(head.Problems) > maxProblems {
			t.Fatalf("%v, %+v", err, head)
		}
	})
}

func FuzzEdit(f *testing.F) {
	f.Add("s", "2026-01-02T03:04:05Z", "tel:+1", "services", "LAB", `{"subject":"s","fields":[]}`)
	f.Add("", "", "", "location", "1,2", `{"observed":"x"}`)
	f.Add(" s ", "2026-01-02T03:04:05+01:00", "x", "", " ", "null")
	f.Fuzz(func(t *testing.T, subject, observed, author, name, value, stored string) {
		fuzztest.Bound(t)
		if e, err := UnmarshalEdit([]byte(stored)); err == nil {
			Merge(e.Subject, []*Edit{e}).JSON()
			back, err := UnmarshalEdit(e.Marshal())
			if err != nil || back.Digest() != e.Digest() {
				t.Fatalf("%v, %s", err, e.Marshal())
			}
		}
		text := func(s string) []*node { return []*node{{text: s}} }
		n := &node{local: "entry", vocabulary: atomVocabulary, kids: []*node{
			{local: "author", vocabulary: atomVocabulary, kids: []*node{{local: "uri", vocabulary: atomVocabulary, kids: text(author)}}},
			{local: "subject", vocabulary: report, kids: text(subject)},
			{local: "observed", vocabulary: report, kids: text(observed)},
			{local: "content", vocabulary: report, kids: []*node{{local: "row", vocabulary: report, kids: []*node{
				{local: "field", vocabulary: sheet, attrs: []attribute{{local: "name", value: name}}, kids: text(value)},
			}}}},
		}}
		e, err := readEdit(n)
		if err != nil {
			return
		}
		r := Merge(e.Subject, []*Edit{e, e})
		if r.Edits != 1 || len(r.Fields) != 1 || len(e.Odd) > maxOdd {
			t.Fatalf("%+v of %+v", r, e)
		}
		r.JSON()
	})
}
