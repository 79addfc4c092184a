package rsdoc

import (
	"strings"
	"testing"
)

// hostile documents that must be refused as a whole, however they arrive. Each body stands alone unless it begins
// with "+": then it is put inside a urlset.
func TestHostile(t *testing.T) {
	t.Parallel()
	long := func(s string, n int) string { return strings.Repeat(s, n) }
	small := Limits{Bytes: 4000, Depth: 4, Attributes: 4, Text: 200}
	cases := []struct {
		name, doc string
		limits    Limits
		want      Problem
	}{
		// Not a document at all.
		{"empty", "", Limits{}, Truncated},
		{"white space", " \n\t\r\n", Limits{}, Truncated},
		{"byte order mark alone", "\xEF\xBB\xBF", Limits{}, Truncated},
		{"declaration alone", `<?xml version="1.0"?>`, Limits{}, Truncated},
		{"comment alone", `<!-- nothing -->`, Limits{}, Truncated},
		{"plain text", "Service Unavailable", Limits{}, NotXML},
		{"JSON", `{"error":"not found"}`, Limits{}, NotXML},
		{"ZIP", "PK\x03\x04", Limits{}, NotXML},
		{"second byte order mark", "\xEF\xBB\xBF\xEF\xBB\xBF" + urlset + "</urlset>", Limits{}, NotXML},
		{"UTF-16 with mark", "\xFF\xFE<\x00u\x00", Limits{}, WrongEncoding},
		{"UTF-16 big endian", "\xFE\xFF\x00<\x00u", Limits{}, WrongEncoding},
		{"UTF-16 without mark", "<\x00u\x00r\x00l\x00", Limits{}, Malformed},
		{"UTF-8 cut in a character", urlset + "</urlset>\xE2\x82", Limits{}, Truncated},
		// Another document (F58).
		{"HTML 5", "<!DOCTYPE html>\n<html><head></head></html>", Limits{}, Forbidden},
		{"html in lower case", "<!doctype html><title>x", Limits{}, Forbidden},
		{"XHTML", `<html xmlns="http://www.w3.org/1999/xhtml"><body/></html>`, Limits{}, WrongRoot},
		{"RSS", `<rss version="2.0"><channel/></rss>`, Limits{}, WrongRoot},
		{"Atom", `<feed xmlns="http://www.w3.org/2005/Atom"/>`, Limits{}, WrongRoot},
		{"error", `<error>no</error>`, Limits{}, WrongRoot},
		{"no namespace", `<urlset><url><loc>http://a.example/</loc></url></urlset>`, Limits{}, WrongRoot},
		{"another namespace", `<urlset xmlns="http://www.google.com/schemas/sitemap/0.84"/>`, Limits{}, WrongRoot},
		{"namespace with a space", `<urlset xmlns="` + NamespaceSitemap + ` "/>`, Limits{}, WrongRoot},
		{"namespace on a prefix only", `<urlset xmlns:s="` + NamespaceSitemap + `"/>`, Limits{}, WrongRoot},
		{"an entry as root", `<url xmlns="` + NamespaceSitemap + `"/>`, Limits{}, WrongRoot},
		{"root in capitals", `<URLSET xmlns="` + NamespaceSitemap + `"/>`, Limits{}, WrongRoot},
		// Declarations.
		{"document type", "<!DOCTYPE urlset>" + urlset + "</urlset>", Limits{}, Forbidden},
		{"billion laughs", `<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>` + urlset + "</urlset>", Limits{}, Forbidden},
		{"external entity", `<!DOCTYPE l [<!ENTITY x SYSTEM "file:///etc/passwd">]>` + urlset + "</urlset>", Limits{}, Forbidden},
		{"document type inside", "+<!DOCTYPE x>", Limits{}, Forbidden},
		{"entity inside", `+<!ENTITY x "y">`, Limits{}, Forbidden},
		{"document type behind", urlset + "</urlset><!DOCTYPE x>", Limits{}, Forbidden},
		{"unknown section", "+<![INCLUDE[x]]>", Limits{}, Malformed},
		{"ISO-8859-1 declared", `<?xml version="1.0" encoding="ISO-8859-1"?>` + urlset + "</urlset>", Limits{}, WrongEncoding},
		{"UTF-16 declared", `<?xml version="1.0" encoding="utf-16"?>` + urlset + "</urlset>", Limits{}, WrongEncoding},
		{"empty encoding", `<?xml version="1.0" encoding=""?>` + urlset + "</urlset>", Limits{}, WrongEncoding},
		{"XML 2", `<?xml version="2.0"?>` + urlset + "</urlset>", Limits{}, Malformed},
		{"no version", `<?xml encoding="UTF-8"?>` + urlset + "</urlset>", Limits{}, Malformed},
		{"empty declaration", `<?xml ?>` + urlset + "</urlset>", Limits{}, Malformed},
		{"declaration with more", `<?xml version="1.0" color="red"?>` + urlset + "</urlset>", Limits{}, Malformed},
		{"declaration out of order", `<?xml version="1.0" standalone="yes" encoding="UTF-8"?>` + urlset + "</urlset>", Limits{}, Malformed},
		{"declaration with a prefix", `<?xml ver:sion="1.0"?>` + urlset + "</urlset>", Limits{}, Malformed},
		{"declaration without version", `<?xml encoding="UTF-8"?>` + urlset + "</urlset>", Limits{}, Malformed},
		{"declaration as a tag", `<?xml version="1.0"/?>` + urlset + "</urlset>", Limits{}, Malformed},
		{"declaration in capitals", `<?XML version="1.0"?>` + urlset + "</urlset>", Limits{}, Malformed},
		{"declaration late", "<!-- x --><?xml version=\"1.0\"?>" + urlset + "</urlset>", Limits{}, Malformed},
		{"declaration inside", `+<?xml version="1.0"?>`, Limits{}, Malformed},
		{"endless declaration", `<?xml version="1.0"` + long(" ", 5000) + `?>` + urlset + "</urlset>", Limits{}, Limit},
		// Characters.
		{"invalid UTF-8 in text", "+<url><loc>http://a.example/\xFF</loc></url>", Limits{}, WrongEncoding},
		{"overlong UTF-8", "+<a>\xC0\xAF</a>", Limits{}, WrongEncoding},
		{"surrogate in UTF-8", "+<a>\xED\xA0\x80</a>", Limits{}, WrongEncoding},
		{"beyond Unicode", "+<a>\xF4\x90\x80\x80</a>", Limits{}, WrongEncoding},
		{"Latin 1 in a comment", "+<!-- \xE9 -->", Limits{}, WrongEncoding},
		{"Latin 1 in an attribute", "+<a b='\xE9'/>", Limits{}, WrongEncoding},
		{"NUL", "+\x00", Limits{}, Malformed},
		{"escape", "+<a>\x1B[31m</a>", Limits{}, Malformed},
		{"vertical tab in a tag", "+<a\x0B/>", Limits{}, Malformed},
		{"U+FFFE", "+<a>\uFFFE</a>", Limits{}, Malformed},
		{"U+FFFF in an instruction", "+<?a \uFFFF?>", Limits{}, Malformed},
		// References.
		{"entity of HTML", "+<url><loc>http://a.example/&nbsp;</loc></url>", Limits{}, Malformed},
		{"bare ampersand in loc", "+<url><loc>http://a.example/?a=1&b=2</loc></url>", Limits{}, Malformed},
		{"bare ampersand in unread text", "+<x>R & D</x>", Limits{}, Malformed},
		{"bare ampersand in an attribute", `+<rs:ln rel="up" href="http://a.example/?a&b"/>`, Limits{}, Malformed},
		{"ampersand at the end", "+<x>&</x>", Limits{}, Malformed},
		{"empty reference", "+<x>&;</x>", Limits{}, Malformed},
		{"empty number", "+<x>&#;</x>", Limits{}, Malformed},
		{"empty hex number", "+<x>&#x;</x>", Limits{}, Malformed},
		{"capital X", "+<x>&#X41;</x>", Limits{}, Malformed},
		{"sign in a number", "+<x>&#+65;</x>", Limits{}, Malformed},
		{"reference to NUL", "+<x>&#0;</x>", Limits{}, Malformed},
		{"reference to a control character", "+<x>&#x1;</x>", Limits{}, Malformed},
		{"reference to a surrogate", "+<x>&#xD800;</x>", Limits{}, Malformed},
		{"reference to U+FFFF", "+<x>&#65535;</x>", Limits{}, Malformed},
		{"reference beyond Unicode", "+<x>&#x110000;</x>", Limits{}, Malformed},
		{"reference beyond int64", "+<x>&#x1000000000000000F;</x>", Limits{}, Malformed},
		{"endless reference", "+<x>&" + long("a", 70_000) + ";</x>", Limits{}, Malformed},
		{"reference outside of the root", "&#32;" + urlset + "</urlset>", Limits{}, NotXML},
		// Tags.
		{"mismatched tags", "+<a></b>", Limits{}, Malformed},
		{"crossed tags", "+<a><b></a></b>", Limits{}, Malformed},
		{"longer end tag", "+<a></ab>", Limits{}, Malformed},
		{"end tag of another prefix", `+<x:a xmlns:x="u" xmlns:y="u"></y:a>`, Limits{}, Malformed},
		{"end tag with an attribute", "+<a></a b='c'>", Limits{}, Malformed},
		{"end tag with a space in front", "+<a></ a>", Limits{}, Malformed},
		{"end tag first", "</urlset>", Limits{}, Malformed},
		{"one end tag too many", urlset + "</urlset></urlset>", Limits{}, Malformed},
		{"empty tag name", "+<>", Limits{}, Malformed},
		{"name of a digit", "+<1a/>", Limits{}, Malformed},
		{"name of a hyphen", "+<-a/>", Limits{}, Malformed},
		{"name of a sign", "+<×/>", Limits{}, Malformed},
		{"two colons", "+<rs:a:b/>", Limits{}, Malformed},
		{"colon first", "+<:a/>", Limits{}, Malformed},
		{"colon last", "+<rs: />", Limits{}, Malformed},
		{"digit behind the colon", "+<rs:1/>", Limits{}, Malformed},
		{"space in an empty tag", "+<a / >", Limits{}, Malformed},
		{"less-than in a tag", "+<a <b/>", Limits{}, Malformed},
		{"attribute without value", "+<a b/>", Limits{}, Malformed},
		{"attribute without quotes", "+<a b=c/>", Limits{}, Malformed},
		{"attributes without space", `+<a b="c"d="e"/>`, Limits{}, Malformed},
		{"less-than in an attribute", `+<a b="<"/>`, Limits{}, Malformed},
		{"attribute twice", `+<rs:md capability="resourcelist" capability="changelist"/>`, Limits{}, Malformed},
		{"attribute twice by namespace", `+<a xmlns:x="u" xmlns:y="u" x:b="" y:b=""/>`, Limits{}, Malformed},
		{"namespace twice", `+<a xmlns:x="u" xmlns:x="v"/>`, Limits{}, Malformed},
		{"default namespace twice", `+<a xmlns="u" xmlns="v"/>`, Limits{}, Malformed},
		{"undeclared prefix", "+<x:a/>", Limits{}, Malformed},
		{"undeclared prefix of an attribute", `+<a x:b="c"/>`, Limits{}, Malformed},
		{"prefix out of scope", `+<a xmlns:x="u"/><x:b/>`, Limits{}, Malformed},
		{"prefix taken away", `+<a xmlns:rs=""/>`, Limits{}, Malformed},
		{"prefix xml rebound", `+<a xmlns:xml="u"/>`, Limits{}, Malformed},
		{"namespace of xml rebound", `+<a xmlns:x="http://www.w3.org/XML/1998/namespace"/>`, Limits{}, Malformed},
		{"prefix xmlns declared", `+<a xmlns:xmlns="u"/>`, Limits{}, Malformed},
		{"namespace of xmlns", `+<a xmlns="http://www.w3.org/2000/xmlns/"/>`, Limits{}, Malformed},
		{"element of prefix xmlns", `+<xmlns:a/>`, Limits{}, Malformed},
		// Other markup.
		{"CDATA end in text", "+<a>]]></a>", Limits{}, Malformed},
		{"CDATA outside", "<![CDATA[]]>" + urlset + "</urlset>", Limits{}, Malformed},
		{"CDATA behind", urlset + "</urlset><![CDATA[ ]]>", Limits{}, Malformed},
		{"hyphens in a comment", "+<!-- a -- b -->", Limits{}, Malformed},
		{"three hyphens", "+<!-- a --->", Limits{}, Malformed},
		{"half a comment", "+<!- a -->", Limits{}, Malformed},
		{"instruction without name", "+<? a?>", Limits{}, Malformed},
		{"instruction with a colon", "+<?a:b c?>", Limits{}, Malformed},
		// Around the root.
		{"text before the root", "x" + urlset + "</urlset>", Limits{}, NotXML},
		{"text behind the root", urlset + "</urlset>x", Limits{}, Malformed},
		{"second root", urlset + "</urlset>" + urlset + "</urlset>", Limits{}, Malformed},
		{"second empty root", urlset + "</urlset><a/>", Limits{}, Malformed},
		{"NUL padding behind the root", urlset + "</urlset>\n\x00\x00", Limits{}, Malformed},
		// Cut short.
		{"cut in the root's tag", urlset[:30], Limits{}, Truncated},
		{"cut behind the root's tag", urlset, Limits{}, Truncated},
		{"cut in an entry", urlset + "<url><loc>http://a.example/", Limits{}, Truncated},
		{"cut between entries", urlset + "<url><loc>http://a.example/</loc></url>\n", Limits{}, Truncated},
		{"cut in an attribute", urlset + `<rs:md capability="resource`, Limits{}, Truncated},
		{"cut in a reference", urlset + "<a>&am", Limits{}, Truncated},
		{"cut in a comment", urlset + "<!-- a -", Limits{}, Truncated},
		{"cut in a CDATA section", urlset + "<a><![CDATA[x]]", Limits{}, Truncated},
		{"cut in an instruction", urlset + "<?a b?", Limits{}, Truncated},
		{"cut in the end tag", urlset + "</urlse", Limits{}, Truncated},
		{"cut in a comment behind", urlset + "</urlset><!-- ", Limits{}, Truncated},
		{"a lone less-than behind", urlset + "</urlset><", Limits{}, Truncated},
		// Limits.
		{"too long", "+" + long("<!-- comment -->", 300), small, Limit},
		{"too long behind the root", urlset + "</urlset>" + long(" ", 4000), small, Limit},
		{"too deep", "+<a><a><a><a/></a></a></a>", small, Limit},
		{"too deep by default", "+" + long("<a>", 40), Limits{}, Limit},
		{"too many attributes", `+<a a="" b="" c="" d="" e=""/>`, small, Limit},
		{"too many declarations", `+<a xmlns:a="a" xmlns:b="a"><a xmlns:c="a"/></a>`, small, Limit},
		{"too long a value", "+<a b='" + long("x", 201) + "'/>", small, Limit},
		{"endless value", "+<a b='" + long("x", 70_000), Limits{}, Limit},
		{"endless tag", "+<a " + long(" ", 270_000), Limits{}, Limit},
		{"endless name", "+<" + long("a", 270_000), Limits{}, Limit},
		{"endless instruction name", "+<?" + long("a", 2000), Limits{}, Limit},
		{"too long a loc", "+<url><loc>http://a.example/" + long("x", 200) + "</loc></url>", small, Limit},
		{"too long a loc of references", "+<url><loc>http://a.example/" + long("&amp;", 250) + "</loc></url>", small, Limit},
		{"too long a loc of CDATA", "+<url><loc><![CDATA[" + long("x", 100_000) + "]]></loc></url>", Limits{}, Limit},
		{"too long a loc over comments", "+<url><loc>" + long("xxxxxxxxxx<!-- -->", 30) + "</loc></url>", small, Limit},
		{"too many links on the root", "+" + long(`<rs:ln rel="a" href="http://a.example/"/>`, maxLinks+1), Limits{}, Limit},
		{"too many links in an entry", "+<url><loc>http://a.example/</loc>" + long(`<rs:ln rel="a" href="http://a.example/"/>`, maxLinks+1) + "</url>", Limits{}, Limit},
		{"too many links on the root among entries", "+" + long(`<url><loc>http://a.example/</loc></url><rs:ln rel="a" href="http://a.example/"/>`, maxLinks+1), Limits{}, Limit},
		{"links too long together", "+" + long(`<rs:ln rel="a" href="http://a.example/`+long("x", 50_000)+`"/>`, 6), Limits{}, Limit},
		// Documents that contradict themselves.
		{"two rs:md on the root", `+<rs:md capability="resourcelist"/><rs:md capability="changelist"/>`, Limits{}, Malformed},
		{"two rs:md around entries", `+<rs:md capability="resourcelist" at="2013"/><url><loc>http://a.example/</loc></url><rs:md capability="resourcelist" at="2014"/>`, Limits{}, Malformed},
	}
	if len(cases) < 60 {
		t.Fatalf("%d rows", len(cases))
	}
	for _, c := range cases {
		doc := c.doc
		if strings.HasPrefix(doc, "+") {
			doc = urlset + doc[1:] + "</urlset>"
			if c.want == Truncated {
				t.Fatalf("%s: a row that cuts the document must not be wrapped", c.name)
			}
		}
		want := ""
		for way, d := range readings(doc, Options{Limits: c.limits}) {
			if problemOf(d.Err) != c.want {
				t.Errorf("%s, %s: %v, want %s", c.name, way, d.Err, c.want)
				continue
			}
			if want == "" {
				want = d.Err.Error()
			}
			if d.Err.Error() != want {
				t.Errorf("%s, %s: the readings disagree: %v and %s", c.name, way, d.Err, want)
			}
		}
	}
}
