package feed

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// bigFeed is a feed of n entries, some 900 bytes each.
func bigFeed(kind Kind, n int) []byte {
	var b bytes.Buffer
	text := strings.Repeat("&lt;p&gt;Some text &amp;amp; more of it.&lt;/p&gt; ", 10)
	if kind == RSS {
		b.WriteString(`<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><title>Big</title>`)
		for i := range n {
			fmt.Fprintf(&b, `<item><title>Entry %d</title><link>https://x.example/%d</link><dc:creator><![CDATA[A. Uthor]]></dc:creator><pubDate>%s</pubDate><guid isPermaLink="false">urn:x:%d</guid><content:encoded>%s</content:encoded></item>
`, i, i, time.Unix(int64(1e9+i), 0).UTC().Format(time.RFC1123), i, text)
		}
		b.WriteString(`</channel></rss>`)
		return b.Bytes()
	}
	b.WriteString(feedStart + `<title>Big</title>`)
	for i := range n {
		fmt.Fprintf(&b, `<entry><id>urn:x:%d</id><title>Entry %d</title><updated>%s</updated><author><name>A. Uthor</name></author><link href="https://x.example/%d"/><content type="html">%s</content></entry>
`, i, i, time.Unix(int64(1e9+i), 0).UTC().Format(time.RFC3339), i, text)
	}
	b.WriteString(`</feed>`)
	return b.Bytes()
}

func BenchmarkRead(b *testing.B) {
	for _, kind := range []Kind{Atom, RSS} {
		b.Run(string(kind), func(b *testing.B) {
			const n = 1000
			doc := bigFeed(kind, n)
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			for b.Loop() {
				got := 0
				if _, err := Read(bytes.NewReader(doc), Options{}, func(*Entry) error { got++; return nil }); err != nil || got != n {
					b.Fatal(err, got)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
		})
	}
}

func BenchmarkMerge(b *testing.B) {
	const n = 1000
	var edits []*Edit
	for i := range n {
		e := &Edit{Subject: "s", Author: "tel:+1", Observed: time.Unix(int64(i*7919%n), 0)}
		for j := range 20 {
			e.Fields = append(e.Fields, Field{fmt.Sprintf("field%02d", (i+j)%25), "value"})
		}
		edits = append(edits, e)
	}
	b.ReportAllocs()
	for b.Loop() {
		if r := Merge("s", edits); r.Edits != n {
			b.Fatal(r.Edits)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "edits/s")
}
