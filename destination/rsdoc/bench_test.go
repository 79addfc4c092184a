package rsdoc

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"testing"
)

// longList is a Resource List of n entries with both digests, some 300 bytes each, as speed.md 4 measured.
func longList(n int) []byte {
	var b bytes.Buffer
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="` + NamespaceSitemap + `" xmlns:rs="` + NamespaceRS + `">
  <rs:ln rel="up" href="https://lib.example/theses/capabilitylist.xml"/>
  <rs:md capability="resourcelist" at="2024-05-01T02:00:00Z"/>
`)
	for i := range n {
		fmt.Fprintf(&b, `  <url>
    <loc>https://lib.example/theses/%06d/part-%d.pdf</loc>
    <lastmod>2024-04-%02dT11:12:13Z</lastmod>
    <rs:md hash="md5:%032x sha-256:%064x" length="%d" type="application/pdf"/>
  </url>
`, i, i%7, i%30+1, i, i, 1000+i)
	}
	b.WriteString("</urlset>\n")
	return b.Bytes()
}

// onlyReader hides all but Read, so that nobody takes a short cut.
type onlyReader struct{ io.Reader }

func BenchmarkReader(b *testing.B) {
	doc := longList(50_000)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		r := NewReader(onlyReader{bytes.NewReader(doc)}, Options{})
		n := 0
		for {
			e, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil || len(e.Digests) != 2 {
				b.Fatal(err, e)
			}
			n++
		}
		if n != 50_000 {
			b.Fatal(n)
		}
	}
}

// BenchmarkEncodingXMLToken is the yardstick of goal 8: the reader, which decodes all values, is to be at least five
// times as fast as the standard decoder that only cuts tokens.
func BenchmarkEncodingXMLToken(b *testing.B) {
	doc := longList(50_000)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		d := xml.NewDecoder(bytes.NewReader(doc))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkSmall is a notification of two entries, read where it lies.
func BenchmarkSmall(b *testing.B) {
	doc := longList(2)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		r, err := OpenBytes(doc, Options{})
		for err == nil {
			_, err = r.Next()
		}
		if err != io.EOF {
			b.Fatal(err)
		}
	}
}

func TestAllocationsPerEntry(t *testing.T) {
	const n = 5_000
	docs := map[string]string{
		"digests": string(longList(n)),
		"links": `<urlset xmlns="` + NamespaceSitemap + `" xmlns:rs="` + NamespaceRS + `">` + strings.Repeat(
			`<url><loc>http://a.example/&amp;</loc><rs:md change="Updated" datetime="2024-05-01T00:00:00Z" encoding="gzip"/></url>`, n) + `</urlset>`,
		"declarations": `<s:urlset xmlns:s="` + NamespaceSitemap + `">` + strings.Repeat(
			`<s:url><s:loc>http://a.example/b</s:loc><r:md xmlns:r="`+NamespaceRS+`" xmlns:x="http://x.example/" x:y="z" type='text/html'/></s:url>`, n) + `</s:urlset>`,
	}
	for name, doc := range docs {
		in := strings.NewReader(doc)
		allocs := testing.AllocsPerRun(3, func() {
			in.Reset(doc)
			r := NewReader(onlyReader{in}, Options{})
			count := 0
			for {
				_, err := r.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				count++
			}
			if count != n {
				t.Fatalf("%s: %d entries, want %d", name, count, n)
			}
		})
		if most := float64(n + 60); allocs > most {
			t.Errorf("%s: %.0f allocations for %d entries: more than one each", name, allocs, n)
		}
	}
}
