package rsdoc

import (
	"bytes"
	"compress/gzip"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// longList is a Resource List of n entries with both digests, some 300 bytes each, as performance.md 4 measured.
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

// readEntries reads doc to its end and returns how many entries it has.
func readEntries(b *testing.B, doc []byte) (n int) {
	b.Helper()
	r, err := Open(onlyReader{bytes.NewReader(doc)}, Options{})
	for ; err == nil; n++ {
		_, err = r.Next()
	}
	if skipped, why := r.Skipped(); err != io.EOF || skipped > 0 {
		b.Fatal(err, skipped, why)
	}
	return n - 1
}

// readTokens reads doc as the standard decoder cuts it, without a look at what the tokens say.
func readTokens(b *testing.B, doc io.Reader) {
	b.Helper()
	d := xml.NewDecoder(doc)
	for {
		if _, err := d.Token(); err == io.EOF {
			return
		} else if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReader is goal 8 of performance.md in one run: x-token is how many times as fast the reader, which decodes all values,
// is as the standard decoder that only cuts tokens. It is to be five or more, also for documents that are odd but legal.
func BenchmarkReader(b *testing.B) {
	const n = 20_000
	plain := longList(n)
	head := `<urlset xmlns="` + NamespaceSitemap + `" xmlns:rs="` + NamespaceRS + `">`
	for _, doc := range []struct {
		name string
		text []byte
	}{
		{"digests", plain},
		{"gzip", packed(b, plain)},
		{"prefixes", []byte(`<s:urlset xmlns:s="` + NamespaceSitemap + `">` + strings.Repeat(
			`<s:url><s:loc>http://a.example/b/c/d.pdf</s:loc><r:md xmlns:r="`+NamespaceRS+`" xmlns:x="http://x.example/" x:y="z" `+
				`hash='md5:d41d8cd98f00b204e9800998ecf8427e' type='text/html'/></s:url>`, n) + `</s:urlset>`)},
		{"entities", []byte(head + strings.Repeat(`<url><loc>http://a.example/?b=1&amp;c=&#50;</loc><lastmod><![CDATA[2024-05-01T00:00:00Z]]></lastmod>`+
			`<!-- x --><rs:md change="updated" datetime="2024-05-01T00:00:00.5+02:00" length="1"/></url>`, n) + `</urlset>`)},
		{"links", []byte(head + strings.Repeat(`<url><loc>http://a.example/b</loc><rs:md length="1"/>`+
			`<rs:ln rel="duplicate" href="http://b.example/b" pri="1"/><rs:ln rel="describedby" href="http://a.example/b.xml" type="application/xml"/></url>`, n) + `</urlset>`)},
	} {
		b.Run(doc.name, func(b *testing.B) {
			var ours, tokens time.Duration
			b.ReportAllocs()
			b.SetBytes(int64(len(doc.text)))
			for b.Loop() {
				began := time.Now()
				if got := readEntries(b, doc.text); got != n {
					b.Fatal(got)
				}
				ours += time.Since(began)
				b.StopTimer()
				began = time.Now()
				var in io.Reader = bytes.NewReader(doc.text)
				if isGzip(doc.text) {
					in, _ = gzip.NewReader(in)
				}
				readTokens(b, in)
				tokens += time.Since(began)
				b.StartTimer()
			}
			b.ReportMetric(float64(tokens)/float64(ours), "x-token")
			b.ReportMetric(float64(b.N*n)/ours.Seconds(), "entries/s")
		})
	}
}

func packed(b *testing.B, doc []byte) []byte {
	b.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(doc); err != nil {
		b.Fatal(err)
	}
	if err := z.Close(); err != nil {
		b.Fatal(err)
	}
	return out.Bytes()
}

// BenchmarkSmall is a notification of two entries, read where it lies; x-token as above.
func BenchmarkSmall(b *testing.B) {
	doc := longList(2)
	const round = 100
	var ours, tokens time.Duration
	b.SetBytes(int64(round * len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		for range round {
			r, err := OpenBytes(doc, Options{})
			for err == nil {
				_, err = r.Next()
			}
			if err != io.EOF {
				b.Fatal(err)
			}
		}
		ours += time.Since(began)
		b.StopTimer()
		began = time.Now()
		for range round {
			readTokens(b, bytes.NewReader(doc))
		}
		tokens += time.Since(began)
		b.StartTimer()
	}
	b.ReportMetric(float64(tokens)/float64(ours), "x-token")
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
