package e2e_test

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"strings"
)

// badEntry is one entry that is bad in one way, among many in a list, and what must become of its resource. In it {n} is
// its number, {length}, {md5}, {sha-1}, {sha-256}, {sha-512} and {sha-256 in base64} are those of its body.
type badEntry struct{ entry, want string }

// What can become of an entry.
const (
	present = "present" // mirrored, byte for byte
	owed    = "owed"    // what came is not what was declared
	refused = "refused" // out of scope or policy
	skipped = "skipped" // not usable, told of, and nothing else
)

// entryTable is a list of bad entries.
type entryTable struct {
	name string
	head string
	rows []badEntry
}

// fill makes the list; each row's number makes its loc its own.
func (e entryTable) fill() string {
	var b strings.Builder
	b.WriteString(e.head)
	b.WriteString(entries("/r/first"))
	for i, row := range e.rows {
		b.WriteString(row.at(i))
	}
	b.WriteString(entries("/r/last") + "</urlset>")
	return b.String()
}

func (row badEntry) at(i int) string {
	body := []byte(bodyOf(fmt.Sprint("/r/", i)))
	sum := sha256.Sum256(body)
	return strings.NewReplacer("{n}", fmt.Sprint(i), "{length}", fmt.Sprint(len(body)), "{md5}", fmt.Sprintf("%x", md5.Sum(body)),
		"{sha-1}", fmt.Sprintf("%x", sha1.Sum(body)), "{sha-256}", fmt.Sprintf("%x", sum), "{SHA-256}", fmt.Sprintf("%X", sum),
		"{sha-512}", fmt.Sprintf("%x", sha512.Sum512(body)), "{sha-256 in base64}", base64.StdEncoding.EncodeToString(sum[:]),
	).Replace(row.entry)
}

// hostileEntries are all tables of entries.
func hostileEntries() []entryTable {
	var inList, inChanges, modified, hashes, lengths, rest, locs []badEntry
	for _, d := range hostileDates {
		inList = append(inList, badEntry{`<url><loc>{base}/r/{n}</loc><rs:md datetime="` + d + `" at="` + d + `"/></url>`, present})
		modified = append(modified, badEntry{`<url><loc>{base}/r/{n}</loc><lastmod>` + d + `</lastmod></url>`, present})
		inChanges = append(inChanges, badEntry{`<url><loc>{base}/r/{n}</loc><rs:md change="updated" datetime="` + d + `"/></url>`, present})
	}
	for _, h := range hostileHashes {
		hashes = append(hashes, badEntry{`<url><loc>{base}/r/{n}</loc><rs:md hash="` + h.value + `"/></url>`, h.want})
	}
	for _, l := range hostileLengths {
		lengths = append(lengths, badEntry{`<url><loc>{base}/r/{n}</loc><rs:md length="` + l.value + `"/></url>`, l.want})
	}
	for _, l := range hostileLocs {
		locs = append(locs, badEntry{"<url><loc>" + l.value + "</loc></url>", l.want})
	}
	rest = hostileShapes
	changes := urlset(`capability="changelist" from="2026-01-01T00:00:00Z" until="2026-02-01T00:00:00Z"`, "")
	return []entryTable{
		{"dates of a Resource List", listHead, inList}, {"lastmod", listHead, modified},
		{"dates of a Change List", strings.TrimSuffix(changes, "</urlset>"), inChanges},
		{"hashes", listHead, hashes}, {"lengths", listHead, lengths}, {"shapes", listHead, rest}, {"locs", listHead, locs},
	}
}

// hostileDates are dates that cannot be read or say something impossible. A date is a hint about a resource and never
// costs it (F46).
var hostileDates = []string{
	"", " ", "now", "yesterday", "0", "-1", "1e9", "1735689600", "NaN", "2026", "2026-1", "2026-01-1", "2026-13", "2026-00", "2026-02-30",
	"2025-02-29", "2026-01-32", "2026-01-00", "26-01-01", "02026-01-01", "+2026-01-01", "-0001-01-01", "0000-00-00", "0000-01-01T00:00:00Z",
	"9999-12-31T23:59:59.999999999Z", "10000-01-01T00:00:00Z", "99999999999999999999-01-01", "2026-01-01T", "2026-01-01T24:00:00Z",
	"2026-01-01T25:00:00Z", "2026-01-01T00:60:00Z", "2026-01-01T00:00:61Z", "2016-12-31T23:59:60Z", "2026-01-01T00:00:00", "2026-01-01 00:00:00Z",
	"2026-01-01T00:00:00+25:00", "2026-01-01T00:00:00+00:60", "2026-01-01T00:00:00-99:99", "2026-01-01T00:00:00 Z", "2026-01-01T00:00:00Zjunk",
	"2026-01-01T00:00:00.Z", "2026-01-01T00:00:00.1234567890123456789Z", "2026-01-01T00:00:00,5Z", "2026-W01-1", "2026-001", "20260101T000000Z",
	"Thu, 01 Jan 2026 00:00:00 GMT", "01/02/2026", "２０２６-01-01", "2026‐01‐01", "&#10;2026-01-01&#9;", "2999-01-01T00:00:00Z", "0001-01-01T00:00:00Z",
	strings.Repeat("9", 5000), "2026-01-01T00:00:00." + strings.Repeat("0", 5000) + "Z", "PT1H", "{{7*7}}", "%s%n%x", "' OR 1=1 --",
}

type badValue struct{ value, want string }

// hostileHashes: what cannot be read is ignored; what can be read must match (F49).
var hostileHashes = []badValue{
	{"", present}, {" ", present}, {":", present}, {"md5", present}, {"md5:", present}, {"md5::", present}, {":{md5}", present},
	{"md5:{md5}", present}, {"MD5:{md5}", present}, {"sha-256:{SHA-256}", present}, {"sha256:{sha-256}", present}, {"SHA-256:{sha-256}", present},
	{"sha-256:{sha-256 in base64}", present}, {"sha-1:{sha-1}", present}, {"sha-512:{sha-512}", present}, {"  md5:{md5}&#10;sha-256:{sha-256}&#9;", present},
	{"md5:{sha-256}", present}, {"sha-256:{md5}", present}, {"md5:{md5}0", present}, {"md5:0", present}, {"md5:zz{md5}", present},
	{"crc32:00000000", present}, {"blake3:{sha-256}", present}, {"sha-3:{sha-256}", present}, {"md4:{md5}", present}, {"md5={md5}", present},
	{"md5:{md5},sha-256:{sha-256}", present}, {"\u0441rc:1", present}, {"md5:" + strings.Repeat("a", 5000), present},
	{strings.Repeat("x:y ", 5000), present}, {"sha-256:../../etc/passwd", present}, {"{sha-256}", present}, {"md5:{md5} md5:{md5}", present},
	{"md5:" + strings.Repeat("0", 32), owed}, {"sha-1:" + strings.Repeat("0", 40), owed}, {"sha-256:" + strings.Repeat("0", 64), owed},
	{"sha-384:" + strings.Repeat("f", 96), owed}, {"sha-512:" + strings.Repeat("f", 128), owed}, {"sha-256:" + strings.Repeat("A", 43) + "=", owed},
	{"md5:{md5} sha-256:" + strings.Repeat("0", 64), owed}, {"md5:" + strings.Repeat("0", 32) + " sha-256:{sha-256}", present},
	{"md5:{md5} md5:" + strings.Repeat("0", 32), present}, {"sha-256:{sha-256} sha-256:" + strings.Repeat("1", 64), present},
}

// hostileLengths: what is no number of bytes is ignored; a number binds (F50).
var hostileLengths = []badValue{
	{"", present}, {"-1", present}, {"+{length}", present}, {"1e3", present}, {"0x10", present}, {"1.0", present}, {"NaN", present}, {"Infinity", present},
	{"９", present}, {"1,000", present}, {"1 000", present}, {"ten", present}, {"99999999999999999999999999", present}, {"18446744073709551616", present},
	{" {length} ", present}, {"{length}", present}, {"0{length}", present}, {strings.Repeat("9", 5000), present}, {"{length}B", present},
	{"0", owed}, {"1", owed}, {"9223372036854775807", owed}, {"1000000000000", owed}, {"{length}0", owed},
}

// hostileShapes are entries of the wrong form.
var hostileShapes = []badEntry{
	{"<url/>", skipped}, {"<url><loc/></url>", skipped}, {"<url><loc> </loc></url>", skipped}, {"<url>{base}/r/{n}</url>", skipped},
	{"<url><loc><b>{base}/r/{n}</b></loc></url>", skipped}, {"<url><loc>{base}/r/{n}<b/></loc></url>", skipped},
	{"<url><loc>{base}/r/{n}</loc><loc>{base}/r/{n}</loc></url>", present}, {"<url><loc>{base}/r/{n}</loc><loc>{base}/r/other</loc></url>", skipped},
	{"<url><LOC>{base}/r/{n}</LOC></url>", skipped}, {`<url><rs:loc>{base}/r/{n}</rs:loc></url>`, skipped},
	{"<url><loc><![CDATA[{base}/r/{n}]]></loc></url>", present}, {"<url><loc>{base}<!-- x -->/r/{n}</loc></url>", present},
	{"<url><loc>\n\t {base}/r/{n} \r\n</loc></url>", present}, {`<url><loc xml:base="http://evil.example/">{base}/r/{n}</loc></url>`, present},
	{`<url><loc>{base}/r/{n}</loc><rs:md type="text/html` + strings.Repeat(";x", 5000) + `"/></url>`, present},
	{`<url><loc>{base}/r/{n}</loc><rs:md type="&lt;script>alert(1)&lt;/script>"/></url>`, present},
	{`<url><loc>{base}/r/{n}</loc><rs:md encoding="../../../gzip"/></url>`, present}, {`<url><loc>{base}/r/{n}</loc><rs:md path="../../../etc/passwd"/></url>`, present},
	{`<url><loc>{base}/r/{n}</loc><rs:md path="/etc/passwd"/></url>`, present}, {`<url><loc>{base}/r/{n}</loc><rs:md capability="description"/></url>`, present},
	{`<url><loc>{base}/r/{n}</loc><rs:md change="deleted"/></url>`, present}, {`<url><loc>{base}/r/{n}</loc><rs:md length="1"/><rs:md length="2"/></url>`, present},
	{`<url><loc>{base}/r/{n}</loc><rs:ln rel="duplicate" href="file:///etc/passwd" pri="-1"/></url>`, present},
	{`<url><loc>{base}/r/{n}</loc><rs:ln rel="" href=""/><rs:ln/><rs:ln rel="x"/><rs:ln href="http://[::"/></url>`, present},
	{`<url><loc>{base}/r/{n}</loc><rs:ln rel="contents" href="{base}/zip" hash="md5:x" length="-9" modified="never"/></url>`, present},
	{`<url><loc>{base}/r/{n}</loc><changefreq>hourly; rm -rf /</changefreq><priority>NaN</priority></url>`, present},
	{`<url xmlns:evil="urn:evil" evil:onload="x"><loc>{base}/r/{n}</loc><evil:script/></url>`, present},
}
