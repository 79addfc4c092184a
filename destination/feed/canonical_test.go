package feed

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// One entry, written in many ways, is one document.
func TestSameEntrySameBytes(t *testing.T) {
	t.Parallel()
	const want = xmlDeclaration + `<entry xmlns="` + nsAtom + `" xmlns:m="urn:m" xml:base="https://x.example/a/" xml:lang="en">
  <id>a</id>
  <author>
    <name>N</name>
  </author>
  <title type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">x &lt; <b>y</b> é</div></title>
  <m:x a="1" m:b="2">&gt;"</m:x>
</entry>
`
	for name, doc := range map[string]string{
		"on the feed": `<feed xmlns="` + nsAtom + `" xmlns:m="urn:m" xmlns:unused="urn:u" xml:lang="en" xml:base="https://x.example/a/"><entry><id>a</id><author><name>N</name></author>
			<title type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">x &lt; <b>y</b> é</div></title><m:x a="1" m:b="2">>"</m:x></entry></feed>`,
		"on the entry": `<feed xmlns="` + nsAtom + `" xml:base="https://x.example/"><entry xml:base="a/" xml:lang="en" xmlns:m="urn:m">
			<id>a</id><!-- c --><author>
			<name>N</name></author><title type='xhtml'><div xmlns='http://www.w3.org/1999/xhtml'>x &#60; <b>y</b> &eacute;</div></title><m:x m:b="2" a="1"><![CDATA[>"]]></m:x></entry></feed>`,
		"with prefixes": `<a:feed xmlns:a="` + nsAtom + `" xmlns:h="http://www.w3.org/1999/xhtml" xml:lang="de" xml:base="https://x.example/b/"><a:entry xml:lang="en" xml:base="../a/"><a:id>a</a:id><a:author><a:name>N</a:name></a:author>
			<a:title type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">x &lt; <b>y</b> &#233;</div></a:title><m:x a='1' xmlns:m="urn:m" m:b='2'>&gt;&quot;</m:x></a:entry></a:feed>`,
		"as it is": want,
	} {
		_, entries := mustRead(t, doc)
		if d := cmp.Diff(want, string(entries[0].XML)); d != "" {
			t.Errorf("%s (-want +got)\n%s", name, d)
		}
	}
}

// An item as it is, as .NET writes it, and as ElementTree does.
func TestUsualPrefixes(t *testing.T) {
	t.Parallel()
	const want = xmlDeclaration + `<item xmlns:atom="` + nsAtom + `" xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:dc="http://purl.org/dc/elements/1.1/">
  <guid>a</guid>
  <atom:updated>2026-01-02T03:04:05Z</atom:updated>
  <dc:x dc:y="1">z</dc:x>
  <content:encoded>c</content:encoded>
</item>
`
	for _, p := range [][3]string{{"atom", "dc", "content"}, {"a10", "dc", "content"}, {"ns0", "ns1", "ns2"}, {"dc", "content", "atom"}} {
		doc := strings.NewReplacer("A:", p[0]+":", "D:", p[1]+":", "C:", p[2]+":").Replace(`<rss xmlns:A:="` + nsAtom + `" xmlns:D:="http://purl.org/dc/elements/1.1/" xmlns:C:="http://purl.org/rss/1.0/modules/content/">
			<channel><item><guid>a</guid><A:updated>2026-01-02T03:04:05Z</A:updated><D:x D:y="1">z</D:x><C:encoded>c</C:encoded></item></channel></rss>`)
		_, entries := mustRead(t, strings.ReplaceAll(doc, ":=", "="))
		if d := cmp.Diff(want, string(entries[0].XML)); d != "" {
			t.Errorf("%s (-want +got)\n%s", p, d)
		}
	}
}

func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"prefixes that change":  `<p:a xmlns:p="urn:1"><p:b xmlns:p="urn:2"><p:c p:d="e"/></p:b><p:f/></p:a><p:g xmlns:p="urn:3"/>`,
		"default that changes":  `<x xmlns=""><y/><z xmlns="urn:z"><entry xmlns="` + nsAtom + `"/></z></x>`,
		"mixed white space":     `<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"> <b>a</b> <i>b</i>` + "\n\t" + `<pre>  c  </pre></div></content>`,
		"instructions":          `<?php echo "<b>" ?><content>a<?x?>b</content>`,
		"white space in values": `<category term="a&#10;b&#9;c&#13;d"/><content>a&#13;b</content>`,
		"text in the entry":     `stray <id>x</id> text`,
		"names in values":       `<q:v xmlns:q="urn:q" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:only="urn:only" xsi:type="only:T q:U"/>`,
		"usual for another":     `<n:v xmlns:n="http://purl.org/dc/elements/1.1/" xmlns:dc="urn:d" n:a="1" dc:a="2"/><dc:w xmlns:dc="urn:d"><n:v xmlns:n="http://purl.org/dc/elements/1.1/" a="dc:v"/></dc:w>`,
		"undeclared":            `<u:v w:x="y"/><w:z xmlns:w="urn:w"/>`,
		"base within":           `<content xml:base="b/" xml:space="preserve">  </content>`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc := feedStart + "<entry>" + in + "</entry></feed>"
			_, entries := mustRead(t, doc)
			sameAgain(t, entries[0])
			before, after := tokens(t, doc), tokens(t, string(entries[0].XML))
			if d := cmp.Diff(before[1:len(before)-1], after); d != "" {
				t.Errorf("(-want +got)\n%s\n%s", d, entries[0].XML)
			}
			if strings.Contains(name, "values") && strings.Contains(in, "only") && !strings.Contains(string(entries[0].XML), `xmlns:only="urn:only"`) {
				t.Errorf("a namespace that a value names is lost:\n%s", entries[0].XML)
			}
		})
	}
}

// tokens are a document's tokens by the standard decoder, without declarations and the white space of the entry itself.
func tokens(t *testing.T, doc string) []string {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(doc))
	var out []string
	depth := 0
	entry := 0
	for {
		tok, err := d.Token()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatalf("%v in %s", err, doc)
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			depth++
			if tok.Name.Local == "entry" && entry == 0 {
				entry = depth
			}
			s := "<" + strings.TrimPrefix(tok.Name.Space, undeclared) + " " + tok.Name.Local
			for _, a := range tok.Attr {
				if a.Name.Space != "xmlns" && a.Name.Local != "xmlns" {
					s += " " + strings.TrimPrefix(a.Name.Space, undeclared) + " " + a.Name.Local + "=" + a.Value
				}
			}
			out = append(out, s)
		case xml.EndElement:
			depth--
			out = append(out, "</"+tok.Name.Local)
		case xml.CharData:
			s := string(tok)
			if depth == entry {
				s = strings.TrimSpace(s)
			}
			if s == "" || depth < entry {
				continue
			}
			out = append(out, s)
		case xml.ProcInst:
			if tok.Target != "xml" {
				out = append(out, "?"+tok.Target+" "+string(tok.Inst))
			}
		}
	}
}
