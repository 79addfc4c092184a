package e2e_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
)

const (
	nsOfMaps  = `xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"`
	nsOfBoth  = nsOfMaps + ` xmlns:rs="http://www.openarchives.org/rs/terms/"`
	listHead  = `<urlset ` + nsOfBoth + `><rs:md capability="resourcelist" at="2026-01-02T00:00:00Z"/>`
	listTail  = `</urlset>`
	indexHead = `<sitemapindex ` + nsOfBoth + `><rs:md capability="resourcelist" at="2026-01-02T00:00:00Z"/>`
	indexTail = `</sitemapindex>`
)

// resourceList is a sound Resource List around some entries.
func resourceList(inner string) string { return listHead + inner + listTail }

// entries are sound ones.
func entries(paths ...string) string {
	var b strings.Builder
	for _, p := range paths {
		fmt.Fprintf(&b, "<url><loc>{base}%s</loc></url>", p)
	}
	return b.String()
}

func times(s string, n int) string { return strings.Repeat(s, n) }

func zipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(s)) // a buffer takes all
	_ = w.Close()
	return b.String()
}

// hostileXML are documents that must be refused in these words. A body that begins with "+" stands in a list behind a
// sound entry, which is mirrored, while nothing follows from what the list does not name.
var hostileXML = []struct{ name, body, says string }{
	// Something else.
	{"nothing", "", "truncated"},
	{"words", "The service is unavailable", "not XML"},
	{"JSON", `{"urlset":[]}`, "not XML"},
	{"an archive", "PK\x03\x04\x14\x00", "not XML"},
	{"an executable", "\x7FELF\x02\x01\x01", "not XML"},
	{"a picture", "\x89PNG\r\n\x1a\n", "wrong encoding"},
	{"a hundred NULs", times("\x00", 100), "refused document"},
	{"two byte order marks", "\xEF\xBB\xBF\xEF\xBB\xBF" + listHead + listTail, "not XML"},
	{"YAML", "urlset:\n  - url: x\n", "not XML"},
	{"text in front", "ok\n" + listHead + listTail, "not XML"},
	{"a reference in front", "&#32;" + listHead + listTail, "not XML"},
	// Encodings.
	{"UTF-16 with a mark", "\xFF\xFE<\x00u\x00r\x00l\x00", "wrong encoding"},
	{"UTF-16 the other way", "\xFE\xFF\x00<\x00u\x00r", "wrong encoding"},
	{"UTF-16 without a mark", "<\x00u\x00r\x00l\x00", "malformed"},
	{"Latin 1 by name", `<?xml version="1.0" encoding="ISO-8859-1"?>` + listHead + listTail, "wrong encoding"},
	{"UTF-7 by name", `<?xml version="1.0" encoding="UTF-7"?>` + listHead + listTail, "wrong encoding"},
	{"EBCDIC by name", `<?xml version="1.0" encoding="cp037"?>` + listHead + listTail, "wrong encoding"},
	{"no encoding by name", `<?xml version="1.0" encoding=""?>` + listHead + listTail, "wrong encoding"},
	{"Latin 1 in a loc", "+<url><loc>{base}/r/\xE9</loc></url>", "wrong encoding"},
	{"overlong UTF-8", "+<url><loc>{base}/r/\xC0\xAF</loc></url>", "wrong encoding"},
	{"overlong dots", "+<url><loc>{base}/r/\xC0\xAE\xC0\xAE/x</loc></url>", "wrong encoding"},
	{"a surrogate in UTF-8", "+<url><loc>{base}/r/\xED\xA0\x80</loc></url>", "wrong encoding"},
	{"beyond Unicode", "+<x>\xF4\x90\x80\x80</x>", "wrong encoding"},
	// Declarations, entities.
	{"a document type", "<!DOCTYPE urlset>" + listHead + listTail, "forbidden markup"},
	{"an HTML page", "<!DOCTYPE html><html><head><title>Login</title></head><body>x</body></html>", "forbidden markup"},
	{"ten thousand million laughs", `<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;">]>` + listHead + "<url><loc>{base}/&c;</loc></url>" + listTail, "forbidden markup"},
	{"quadratic blow-up", `<!DOCTYPE l [<!ENTITY a "` + times("a", 10_000) + `">]>` + listHead + times("&a;", 100) + listTail, "forbidden markup"},
	{"an external entity", `<!DOCTYPE l [<!ENTITY x SYSTEM "file:///etc/passwd">]>` + listHead + "<url><loc>{base}/r/&x;</loc></url>" + listTail, "forbidden markup"},
	{"an external entity from the net", `<!DOCTYPE l [<!ENTITY x SYSTEM "{base}/r/entity">]>` + listHead + "&x;" + listTail, "forbidden markup"},
	{"a parameter entity", `<!DOCTYPE l [<!ENTITY % x SYSTEM "{base}/r/dtd"> %x;]>` + listHead + listTail, "forbidden markup"},
	{"an external document type", `<!DOCTYPE urlset SYSTEM "{base}/r/dtd">` + listHead + listTail, "forbidden markup"},
	{"a public document type", `<!DOCTYPE urlset PUBLIC "-//X//EN" "{base}/r/dtd">` + listHead + listTail, "forbidden markup"},
	{"a document type within", "+<!DOCTYPE x>", "forbidden markup"},
	{"an entity within", `+<!ENTITY x "y">`, "forbidden markup"},
	{"a document type behind", listHead + listTail + "<!DOCTYPE x>", "forbidden markup"},
	{"an attribute list", "+<!ATTLIST url a CDATA #IMPLIED>", "forbidden markup"},
	{"a notation", `+<!NOTATION x SYSTEM "y">`, "forbidden markup"},
	{"a conditional section", "+<![INCLUDE[x]]>", "malformed"},
	{"XML 2", `<?xml version="2.0"?>` + listHead + listTail, "malformed"},
	{"a declaration within", `+<?xml version="1.0"?>`, "malformed"},
	{"a late declaration", `<!-- x --><?xml version="1.0"?>` + listHead + listTail, "malformed"},
	{"a declaration in capitals", `<?XML version="1.0"?>` + listHead + listTail, "malformed"},
	{"an endless declaration", `<?xml version="1.0"` + times(" ", 300_000), "over a limit"},
	// Another root (F58).
	{"XHTML", `<html xmlns="http://www.w3.org/1999/xhtml"><body>not found</body></html>`, "wrong root"},
	{"an error", "<error><code>404</code></error>", "wrong root"},
	{"SOAP", `<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Body/></s:Envelope>`, "wrong root"},
	{"SVG", `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`, "wrong root"},
	{"OAI-PMH", `<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><error code="badVerb"/></OAI-PMH>`, "wrong root"},
	{"no namespace", "<urlset><url><loc>{base}/r/x</loc></url></urlset>", "wrong root"},
	{"an old namespace", `<urlset xmlns="http://www.google.com/schemas/sitemap/0.84"/>`, "wrong root"},
	{"a namespace with a space", `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9 "/>`, "wrong root"},
	{"a namespace with https", `<urlset xmlns="https://www.sitemaps.org/schemas/sitemap/0.9"/>`, "wrong root"},
	{"a namespace on a prefix", `<urlset xmlns:s="http://www.sitemaps.org/schemas/sitemap/0.9"/>`, "wrong root"},
	{"an entry as the root", "<url " + nsOfMaps + "><loc>{base}/r/x</loc></url>", "wrong root"},
	{"a root in capitals", "<URLSET " + nsOfMaps + "/>", "wrong root"},
	// Another kind.
	{"a list of no known kind", "<urlset " + nsOfBoth + `><rs:md capability="everything"/></urlset>`, ""},
	{"a notification", "<urlset " + nsOfBoth + `><rs:md capability="change-notification" from="2026-01-01" until="2026-01-02"/></urlset>`, ""},
	{"a manifest", "<urlset " + nsOfBoth + `><rs:md capability="resourcedump-manifest" at="2026-01-01"/></urlset>`, ""},
	{"two kinds", "<urlset " + nsOfBoth + `><rs:md capability="resourcelist"/><rs:md capability="changelist"/></urlset>`, "malformed"},
	{"two times", "<urlset " + nsOfBoth + `><rs:md capability="resourcelist" at="2013"/><rs:md capability="resourcelist" at="2014"/></urlset>`, "malformed"},
	// Characters and references.
	{"a NUL", "+<x>\x00</x>", "malformed"},
	{"an escape character", "+<x>\x1B]0;title\x07</x>", "malformed"},
	{"U+FFFE", "+<x>\uFFFE</x>", "malformed"},
	{"a reference to NUL", "+<url><loc>{base}/r/&#0;</loc></url>", "malformed"},
	{"a reference to a control character", "+<url><loc>{base}/r/&#x1B;</loc></url>", "malformed"},
	{"a reference to a surrogate", "+<x>&#xD800;</x>", "malformed"},
	{"a reference beyond Unicode", "+<x>&#x110000;</x>", "malformed"},
	{"a reference beyond all numbers", "+<x>&#x" + times("F", 100) + ";</x>", "malformed"},
	{"an entity of HTML", "+<url><loc>{base}/r/&nbsp;</loc></url>", "malformed"},
	{"a bare ampersand", "+<url><loc>{base}/r/?a=1&b=2</loc></url>", "malformed"},
	{"an empty reference", "+<x>&;</x>", "malformed"},
	{"an endless reference", "+<x>&" + times("a", 70_000) + ";</x>", "malformed"},
	// Tags.
	{"crossed tags", "+<a><b></a></b>", "malformed"},
	{"an end tag too many", listHead + listTail + listTail, "malformed"},
	{"an end tag first", listTail, "malformed"},
	{"an empty name", "+<>", "malformed"},
	{"a name of a digit", "+<1/>", "malformed"},
	{"two colons", "+<rs:a:b/>", "malformed"},
	{"an attribute without quotes", "+<a b=c/>", "malformed"},
	{"an attribute twice", `+<url><loc>{base}/r/x</loc><rs:md length="1" length="2"/></url>`, "malformed"},
	{"an attribute twice by namespace", `+<a xmlns:x="u" xmlns:y="u" x:b="" y:b=""/>`, "malformed"},
	{"an undeclared prefix", "+<x:a/>", "malformed"},
	{"a rebound xml prefix", `+<a xmlns:xml="u"/>`, "malformed"},
	{"less-than in a value", `+<a b="<"/>`, "malformed"},
	{"CDATA outside", "<![CDATA[]]>" + listHead + listTail, "malformed"},
	{"the end of CDATA in text", "+<a>]]></a>", "malformed"},
	{"hyphens in a comment", "+<!-- a -- b -->", "malformed"},
	{"text behind", listHead + listTail + "x", "malformed"},
	{"a second root", listHead + listTail + listHead + listTail, "malformed"},
	{"NULs behind", listHead + listTail + times("\x00", 512), "malformed"},
	// Cut short.
	{"cut behind the head", listHead, "truncated"},
	{"cut in an entry", listHead + "<url><loc>{base}/r/", "truncated"},
	// Limits.
	{"too deep", "+" + times("<a>", 40), "over a limit"},
	{"a hundred thousand deep", "+" + times("<a>", 100_000), "over a limit"},
	{"a thousand attributes", "+<a " + strings.Join(numbered("a%d='' ", 1000), "") + "/>", "over a limit"},
	{"a thousand declarations", "+<a " + strings.Join(numbered("xmlns:a%d='u' ", 1000), "") + "/>", "over a limit"},
	{"a long value", "+<a b='" + times("x", 70_000) + "'/>", "over a limit"},
	{"an endless tag", "+<a " + times(" ", 300_000), "over a limit"},
	{"an endless name", "+<" + times("a", 300_000), "over a limit"},
	{"an endless loc", "+<url><loc>{base}/r/" + times("x", 70_000) + "</loc></url>", "over a limit"},
	{"a loc of CDATA", "+<url><loc><![CDATA[" + times("x", 100_000) + "]]></loc></url>", "over a limit"},
	{"a loc in many pieces", "+<url><loc>" + times("xxxxxxxxxx<!-- -->", 10_000) + "</loc></url>", "over a limit"},
	{"two thousand links", "+" + times(`<rs:ln rel="a" href="{base}/"/>`, 2000), "over a limit"},
	{"two thousand links of an entry", "+<url><loc>{base}/r/x</loc>" + times(`<rs:ln rel="duplicate" href="{base}/"/>`, 2000) + "</url>", "over a limit"},
	{"six long links", "+" + times(`<rs:ln rel="a" href="{base}/`+times("x", 50_000)+`"/>`, 6), "over a limit"},
}

func numbered(format string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(format, i)
	}
	return out
}

// hostileTables are the Sources of TestHostileDocuments.
func hostileTables() [][]badSource {
	return [][]badSource{hostileDocuments(), hostileLists(), hostileAnswers()}
}

// hostileDocuments are Sources whose list is one of hostileXML; in the short form a third of them, since TestHostilePosts
// and the reader's own tests have them all.
func hostileDocuments() (documents []badSource) {
	for i, row := range hostileXML {
		if !soak && i%3 != 0 {
			continue
		}
		body, want := row.body, notUsed(row.says)
		if strings.HasPrefix(body, "+") {
			body, want = resourceList(entries("/r/a")+body[1:]), behind(1, row.says)
		}
		documents = append(documents, badSource{name: row.name, pages: pages{"/list.xml": {body: body}}, want: want})
	}
	return documents
}
