package feed

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

const feedStart = `<feed xmlns="` + nsAtom + `">`

func TestKeysAndTimes(t *testing.T) {
	t.Parallel()
	const rss = `<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><item>%s</item></channel></rss>`
	const atom = feedStart + `<entry>%s</entry></feed>`
	for _, c := range []struct{ name, frame, in, from, key, updated, published string }{
		{"id trimmed", atom, "<id>\n urn:a </id>", "id", "urn:a", "", ""},
		{"id kept byte for byte", atom, "<id>http://Ex.example:80/ü%41 b</id>", "id", "http://Ex.example:80/ü%41 b", "", ""},
		{"empty id", atom, `<id> </id><link rel="edit" href="/e"/><link href="/a"/>`, "link", "https://x.example/a", "", ""},
		{"no alternate link", atom, `<link rel="edit" href="e"/>`, "link", "https://x.example/dir/e", "", ""},
		{"source first", atom, `<source><id>s</id><updated>2020-01-01T00:00:00Z</updated></source><id>a</id>`, "id", "a", "", ""},
		{"updated", atom, `<id>a</id><updated>2026-01-02T03:04:05.25+01:00</updated><published>2025-01-01T00:00:00Z</published>`, "id", "a", "2026-01-02T02:04:05.25Z", "2025-01-01T00:00:00Z"},
		{"published only", atom, `<id>a</id><published>2025-01-01T00:00:00Z</published>`, "id", "a", "2025-01-01T00:00:00Z", "2025-01-01T00:00:00Z"},
		{"nonsense, then sense", atom, `<id>a</id><updated>0000-00-00T00:00:00Z</updated><modified>2025-02-01</modified>`, "id", "a", "2025-02-01T00:00:00Z", ""},
		{"nonsense only", atom, `<id>a</id><updated>soon</updated><published>0001-01-01T00:00:00Z</published>`, "id", "a", "", ""},
		{"lower case time", atom, `<id>a</id><updated>2026-01-02t03:04:05z</updated>`, "id", "a", "2026-01-02T03:04:05Z", ""},
		{"upper case names", atom, `<ID>a</ID><Updated>2026-01-02T03:04:05Z</Updated>`, "id", "a", "2026-01-02T03:04:05Z", ""},
		{"guid", rss, `<guid isPermaLink="false"><![CDATA[ g 1 ]]></guid><link>/l</link>`, "guid", "g 1", "", ""},
		{"guid that is a link", rss, `<guid>http://x.example/1</guid>`, "guid", "http://x.example/1", "", ""},
		{"empty guid", rss, `<guid/><link>l</link>`, "link", "https://x.example/dir/l", "", ""},
		{"about", rss, `<guid/><atom:id>urn:i</atom:id>`, "id", "urn:i", "", ""},
		{"pubDate", rss, `<guid>g</guid><pubDate>Tue, 3 Jun 2025 9:39:21 EST</pubDate>`, "guid", "g", "2025-06-03T14:39:21Z", "2025-06-03T14:39:21Z"},
		{"in German", rss, `<guid>g</guid><pubDate>Mi, 03. Dez 2025 09:39:21 +0100</pubDate>`, "guid", "g", "2025-12-03T08:39:21Z", "2025-12-03T08:39:21Z"},
		{"in German, over two lines", rss, "<guid>g</guid><pubDate>Sa, 1 März 2025\n09:39 GMT+02:00</pubDate>", "guid", "g", "2025-03-01T07:39:00Z", "2025-03-01T07:39:00Z"},
		{"in French", rss, `<guid>g</guid><pubDate>mar., 3 juin 2025 09:39:21 GMT</pubDate>`, "guid", "g", "2025-06-03T09:39:21Z", "2025-06-03T09:39:21Z"},
		{"four letters", rss, `<guid>g</guid><pubDate>Tue, 02 Sept 2025 09:39:21 UTC</pubDate>`, "guid", "g", "2025-09-02T09:39:21Z", "2025-09-02T09:39:21Z"},
		{"wrong weekday", rss, `<guid>g</guid><pubDate>Fri, 02 Jun 2025 09:39:21 +0200</pubDate>`, "guid", "g", "2025-06-02T07:39:21Z", "2025-06-02T07:39:21Z"},
		{"no zone of this machine", rss, `<guid>g</guid><pubDate>Mon, 02 Jun 2025 09:39:21 JST</pubDate>`, "guid", "g", "2025-06-02T00:39:21Z", "2025-06-02T00:39:21Z"},
		{"almost a date", rss, `<guid>g</guid><pubDate>3 fools 2025 09:39:21 +0100</pubDate>`, "guid", "g", "", ""},
		{"dc:date first", rss, `<guid>g</guid><pubDate>Tue, 03 Jun 2025 09:39:21 GMT</pubDate><dc:date>2025-06-04</dc:date>`, "guid", "g", "2025-06-04T00:00:00Z", "2025-06-03T09:39:21Z"},
		{"weekday and two digits", rss, `<guid>g</guid><pubDate>Tuesday, 03-Jun-25 09:39:21 GMT</pubDate>`, "guid", "g", "2025-06-03T09:39:21Z", "2025-06-03T09:39:21Z"},
		{"year only", rss, `<guid>g</guid><dc:date>2014</dc:date>`, "guid", "g", "2014-01-01T00:00:00Z", ""},
		{"undeclared dc", strings.Replace(rss, `xmlns:dc="http://purl.org/dc/elements/1.1/"`, "", 1), `<guid>g</guid><dc:date>2014-02</dc:date>`, "guid", "g", "2014-02-01T00:00:00Z", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, entries, err := read(t, fmt.Sprintf(c.frame, c.in), Options{Base: parseURL(t, "https://x.example/dir/f")})
			if err != nil || len(entries) != 1 {
				t.Fatal(err, len(entries))
			}
			e := entries[0]
			got := []string{e.KeyFrom, e.Key, stamp(e.Updated), stamp(e.Published)}
			if d := cmp.Diff([]string{c.from, c.key, c.updated, c.published}, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			sameAgain(t, e)
		})
	}
}

// What roots there are, and that Read and Sniff agree on them.
func TestRoots(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, doc   string
		sniff, read Kind
		keys        string
	}{
		{"atom", feedStart + `<entry><id>a</id></entry></feed>`, Atom, Atom, "a"},
		{"prefix", `<x:feed xmlns:x="` + nsAtom + `"><x:entry><x:id>a</x:id></x:entry></x:feed>`, Atom, Atom, "a"},
		{"https namespace", `<feed xmlns="https://www.w3.org/2005/Atom/"><entry><id>a</id></entry></feed>`, Atom, Atom, "a"},
		{"no namespace", `<feed><entry><id>a</id></entry></feed>`, Atom, Atom, "a"},
		{"undeclared prefix", `<atom:feed><atom:entry><atom:id>a</atom:id></atom:entry></atom:feed>`, Atom, Atom, "a"},
		{"one entry", `<entry xmlns="` + nsAtom + `"><id>a</id></entry>`, Atom, Atom, "a"},
		{"one entry without namespace", `<entry><id>a</id></entry>`, None, Atom, "a"},
		{"one tombstone", `<d:deleted-entry xmlns:d="` + nsTomb + `" ref="a"/>`, Atom, Atom, "a"},
		{"rss", `<rss><channel><item><guid>a</guid></item></channel></rss>`, RSS, RSS, "a"},
		{"rss with a namespace", `<rss xmlns="http://backend.userland.com/rss2"><channel><item><guid>a</guid></item></channel></rss>`, RSS, RSS, "a"},
		{"upper case", `<RSS><Channel><Item><Guid>a</Guid></Item></Channel></RSS>`, RSS, RSS, "a"},
		{"items beside the channel", `<rss><channel/><item><guid>a</guid></item></rss>`, RSS, RSS, "a"},
		{"one item", `<item><guid>a</guid></item>`, None, RSS, "a"},
		{"rdf", `<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"><channel/><item r:about="a"/></r:RDF>`, RSS, RSS, "a"},
		{"rdf 0.9", `<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://my.netscape.com/rdf/simple/0.9/"><item><link>a</link></item></r:RDF>`, RSS, RSS, "a"},
		{"rdf by its channel", `<rdf:RDF> <channel> <item rdf:about="a"/></channel></rdf:RDF>`, RSS, RSS, "a"},
		{"rdf of something else", `<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><Person/></r:RDF>`, None, None, ""},
		{"another feed", `<feed xmlns="http://shop.example/products"><entry/></feed>`, None, None, ""},
		{"html", "<!DOCTYPE html>\n<html><head><title>x</title></head></html>", None, None, ""},
		{"json", `{"version": "https://jsonfeed.org/version/1.1"}`, None, None, ""},
		{"nothing", "", None, None, ""},
		{"blank lines", "\n\n  \ufeff" + feedStart + `</feed>`, Atom, Atom, ""},
		{"example in an item", `<rss><channel><item><guid>a</guid><title><![CDATA[<?xml version="1.0"?><feed/>]]></title></item></channel></rss>`, RSS, RSS, "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := Sniff("text/html", []byte(c.doc)); got != c.sniff {
				t.Errorf("sniffed %q, want %q", got, c.sniff)
			}
			head, entries, err := read(t, c.doc, Options{})
			if head.Kind != c.read || keys(entries) != c.keys || (err == nil) != (c.read != None) {
				t.Errorf("kind %q, keys %q, error %v", head.Kind, keys(entries), err)
			}
			var said *Error
			if err != nil && !errors.As(err, &said) {
				t.Errorf("%T", err)
			}
			for _, e := range entries {
				sameAgain(t, e)
			}
		})
	}
}

func TestSniffCutHead(t *testing.T) {
	t.Parallel()
	const doc = `<?xml version="1.0"?><!-- c --><feed xmlns:yt="http://www.youtube.com/xml/schemas/2015" xmlns="` + nsAtom + `" xml:lang='en'>`
	from := strings.Index(doc, nsAtom) + len(nsAtom)
	for n := from; n <= len(doc); n++ {
		if got := Sniff("", []byte(doc[:n])); got != Atom {
			t.Errorf("sniffed %q in %q", got, doc[:n])
		}
	}
	for n := range from {
		Sniff("", []byte(doc[:n])) // anything but a crash
	}
}

// Broken XML: the entries before were given, the error has its line.
func TestCutShort(t *testing.T) {
	t.Parallel()
	const doc = feedStart + "\n<entry><id>a</id></entry>\n<entry><id>b</id>\n<title>cut"
	_, entries, err := read(t, doc, Options{})
	var said *Error
	if !errors.As(err, &said) || said.Line != 4 || said.Offset != int64(len(doc)) || keys(entries) != "a" {
		t.Errorf("%v, keys %q", err, keys(entries))
	}
	_, entries, err = read(t, feedStart+"\n<entry><id>a</id></entry>\n", Options{})
	if !errors.As(err, &said) || said.Line != 3 || keys(entries) != "a" {
		t.Errorf("between two entries: %v, keys %q", err, keys(entries))
	}
}

// One broken entry costs only itself (P11).
func TestBrokenEntryCostsItself(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 7000)
	deep := strings.Repeat("<b>", 50)
	for _, c := range []struct{ name, in, keys, problem string }{
		{"markup in a value", "<entry><title a='<b>'>a</title><id>x</id></entry>", "a z", "line 2"},
		{"broken between entries", "<x <entry><id>x</id></entry>", "a x z", ""},
		{"<<", "<entry><id>x</id><<entry><id>y</id></entry>", "a x y z", ""},
		{"too large", "<entry><id>x</id><title>" + long + "</title></entry>", "a z", "larger"},
		{"too deep", "<entry><id>x</id>" + deep + "</entry>", "a z", "deep"},
		{"too many attributes", "<entry" + strings.Repeat(" a='b'", 300) + "><id>x</id></entry>", "a z", "attributes"},
		{"too many namespaces", "<entry><id>x</id><a" + strings.Repeat(" xmlns:a='b'", 200) + "><a" + strings.Repeat(" xmlns:a='b'", 200) + "></entry>", "a z", "namespace"},
		{"empty", "<entry/>", "a z", "empty"},
		{"a prefix too long", "<entry><id>x</id><c " + long[:300] + ":d='e'/></entry>", "a z", "prefix"},
		{"a name of a digit behind a prefix", `<entry xmlns:b="http://www.w3.org/2005/Atom"><b:0d/><id>x</id></entry>`, "a z", "invalid XML name"},
		{"white space only", "<entry xml:lang='en'> \n<!-- nothing --> </entry>", "a z", "empty"},
		{"tombstone of nothing", `<at:deleted-entry when="2020-01-01T00:00:00Z"/>`, "a z", "ref"},
		{"edit of nothing", `<entry><id>x</id><report:subject> </report:subject><report:content/></entry>`, "a z", "subject"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			doc := feedStart + "<entry><id>a</id></entry>\n" + c.in + "<entry><id>z</id></entry></feed>"
			head, entries, err := read(t, doc, Options{Limits: Limits{EntryBytes: 6000, Depth: 20}})
			if err != nil || keys(entries) != c.keys {
				t.Errorf("%v, keys %q, want %q", err, keys(entries), c.keys)
			}
			if c.problem != "" && (head.Skipped != 1 || len(head.Problems) != 1 || !strings.Contains(head.Problems[0], c.problem)) {
				t.Errorf("skipped %d, problems %q", head.Skipped, head.Problems)
			}
			// The last one broken: the document still ends as it should.
			head, entries, err = read(t, feedStart+"<entry><id>a</id></entry>"+strings.ReplaceAll(c.in, "<entry><id>y</id></entry>", "")+"</feed>", Options{Limits: Limits{EntryBytes: 6000, Depth: 20}})
			if err != nil || !strings.HasPrefix(keys(entries), "a") {
				t.Errorf("as the last one: %v, keys %q, problems %q", err, keys(entries), head.Problems)
			}
		})
	}
}

// Faults of which it is plain what was meant cost nothing.
func TestMended(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"loose <", "<title>a < b <3 <</title>", "<title>a &lt; b &lt;3 &lt;</title>"},
		{"loose < in a value", "<category term='a < b'/>", `<category term="a &lt; b"/>`},
		{"]]> outside", "<title>a ]]> b]]]></title>", "<title>a ]]&gt; b]]]&gt;</title>"},
		{"CDATA in CDATA", "<title><![CDATA[a <![CDATA[ b ]]> c ]]></title>", "<title>a &lt;![CDATA[ b  c ]]&gt;</title>"},
		{"CDATA is kept", "<title><![CDATA[< <!-- -- --> <? &#0; ]] > ']]></title>", "<title>&lt; &lt;!-- -- --&gt; &lt;? &amp;#0; ]] &gt; '</title>"},
		{"split CDATA", "<title><![CDATA[a]]]]><![CDATA[>b]]></title>", "<title>a]]&gt;b</title>"},
		{"comments", "<!----><!-- -- -- <entry> ' --><title>a<!-- --->b<!-- x -> -->c</title><!-- --- -->", "<title>abc</title>"},
		{"lines in values", "<category term='a\r\nb\r\tc\n' label='&#10;'/>", `<category label="&#xA;" term="a b  c "/>`},
		{"quotes in text", "<title>it's \"<b>x'</b></title>", `<title>it's "<b>x'</b></title>`},
		{"other quotes in values", `<category term="it's" label='"<!--"'/>`, ""},
		{"instruction", "<?x a > b < c ' ?><title>a</title>", "<?x a > b < c ' ?>\n  <title>a</title>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			head, entries, err := read(t, feedStart+"<entry>"+c.in+"<id>a</id></entry>\n<entry><id>z</id></entry>\n<x", Options{})
			var said *Error
			if !errors.As(err, &said) || said.Line != 3+strings.Count(c.in, "\n") {
				t.Errorf("%v", err)
			}
			if c.want == "" { // of those there is no telling
				if keys(entries) != "z" {
					t.Errorf("keys %q", keys(entries))
				}
				return
			}
			if keys(entries) != "a z" || !strings.Contains(string(entries[0].XML), "\n  "+c.want+"\n") {
				t.Fatalf("keys %q, problems %q\n%s", keys(entries), head.Problems, entries[0].XML)
			}
			sameAgain(t, entries[0])
		})
	}
}

// Where reading goes on in what is too large, faults are mended again.
func TestMendedBehindAFault(t *testing.T) {
	t.Parallel()
	doc := feedStart + "<entry><id>a</id><content><![CDATA[" + strings.Repeat("x", 3000) + "<entry><id>b</id><title>a < b</title></entry><entry><id>c</id></entry></feed>"
	_, entries, err := read(t, doc, Options{Limits: Limits{EntryBytes: 1000}})
	if err != nil || keys(entries) != "b c" || entries[0].Title != "a < b" {
		t.Errorf("%v, keys %q", err, keys(entries))
	}
}

// What is written small must not become large (P8).
func TestGrowth(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("u", maxNamespace)
	doc := `<feed xmlns="` + nsAtom + `" xmlns:p="` + long + `"><entry><id>a</id><x xmlns:p="s"><p:a/></x>` + strings.Repeat("<p:a/>", 5_000) + `</entry>
		<entry><id>b</id><x xmlns="` + long + `u"/></entry><entry><id>c</id>` + strings.Repeat("<p:a/>", 5_000) + "</entry></feed>"
	head, entries, err := read(t, doc, Options{})
	if err != nil || keys(entries) != "c" || head.Skipped != 2 {
		t.Errorf("%v, keys %q, problems %.500q", err, keys(entries), head.Problems)
	}
	far := "http://x.example/" + strings.Repeat("d", 800) + "/"
	for kind, doc := range map[Kind]string{
		Atom: feedStart + "<entry xml:base='" + far + "'><id>a</id>" + strings.Repeat("<link href='a'/>", 4_000) + "</entry></feed>",
		RSS:  "<rss><channel><item xml:base='" + far + "'><guid>a</guid>" + strings.Repeat("<link>a</link><atom:link href='a'/>", 2_000) + "</item></channel></rss>",
	} {
		if _, entries := mustRead(t, doc); keys(entries) != "a" || len(entries[0].Links) != maxEntryLinks {
			t.Errorf("%s: keys %q", kind, keys(entries))
		}
	}
}

func TestHugeKeys(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", maxKey)
	id := "<entry><id>%s</id></entry>"
	_, entries := mustRead(t, feedStart+fmt.Sprintf(id, long)+fmt.Sprintf(id, long+"1")+fmt.Sprintf(id, long+"2")+`<at:deleted-entry ref="`+long+`2"/></feed>`)
	if entries[0].Key != long || !strings.HasPrefix(entries[1].Key, digestKey) || entries[1].Key == entries[2].Key || entries[1].KeyFrom != fromID ||
		entries[3].Key != entries[2].Key {
		t.Errorf("keys %.3000q", keys(entries))
	}
	sameAgain(t, entries[1])
}

// End tags that are missing, superfluous or in the wrong case.
func TestEndTags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ doc, keys string }{
		{feedStart + "<entry><id>a</id><entry><id>b</id></feed>", "a b"},
		{feedStart + "<entry><id>a</id></x></y></entry></z><entry><id>b</id></entry></feed> </junk> &", "a b"},
		{feedStart + "<ENTRY><id>a</ID></entry></Feed>", "a"},
		{"<rss><channel><item><guid>a</guid><item><guid>b</guid></channel></rss>", "a b"},
		{"<rss><channel><item><guid>a</guid></rss>", "a"},
		{"<rss><channel><title>t<item><guid>a</guid></item></rss>", "a"},
		{"<rss><channel><item><guid>a</guid><description><p>x<br>y<p>z</description></item><item><guid>b</guid></item></channel></rss>", "a b"},
	} {
		if _, entries := mustRead(t, c.doc); keys(entries) != c.keys {
			t.Errorf("keys %q of %s", keys(entries), c.doc)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	doc := feedStart + strings.Repeat("<entry><id>a</id></entry>", 5) + "</feed>"
	_, entries, err := read(t, doc, Options{Limits: Limits{Entries: 4}})
	var said *Error
	if !errors.As(err, &said) || len(entries) != 4 || !strings.Contains(err.Error(), "more than 4 entries") {
		t.Errorf("%v, %d entries", err, len(entries))
	}
	if _, entries, err := read(t, doc, Options{Limits: Limits{Entries: 5}}); err != nil || len(entries) != 5 {
		t.Errorf("as many as allowed: %v, %d entries", err, len(entries))
	}
	// A token without end costs no more than the limit.
	var n counter
	endless := io.MultiReader(strings.NewReader(feedStart+"<entry><id>a</id><content>"), io.TeeReader(io.LimitReader(same('x'), 4<<20), &n))
	_, err = Read(endless, Options{Limits: Limits{EntryBytes: 1000}}, func(*Entry) error { return nil })
	if !errors.As(err, &said) || n != 4<<20 {
		t.Errorf("%v after %d bytes", err, n)
	}
	bare := "<entry xmlns='" + nsAtom + "'><id>a</id>" + strings.Repeat("x", 2000) + "</entry>"
	if _, _, err := read(t, bare, Options{Limits: Limits{EntryBytes: 1000}}); !errors.As(err, &said) {
		t.Errorf("one entry, too large: %v", err)
	}
	parts := feedStart + "<entry><id>a</id>" + strings.Repeat("<a/>", maxParts) + "</entry><entry><id>b</id></entry></feed>"
	head, entries, err := read(t, parts, Options{})
	if err != nil || keys(entries) != "b" || head.Skipped != 1 {
		t.Errorf("too many parts: %v, keys %q, problems %q", err, keys(entries), head.Problems)
	}
	var prefixes strings.Builder // undeclared ones, without end
	for i := range 20_000 {
		fmt.Fprintf(&prefixes, "<p%d:x/>", i)
	}
	head, entries, err = read(t, feedStart+"<entry><id>a</id>"+prefixes.String()+"</entry></feed>", Options{})
	if err != nil || keys(entries) != "a" {
		t.Errorf("many prefixes: %v, problems %q", err, head.Problems)
	}
	sameAgain(t, entries[0])
	nested := strings.NewReplacer("/>", ">").Replace(prefixes.String())[:3000]
	head, _, err = read(t, feedStart+"<entry><id>a</id>"+nested[:strings.LastIndexByte(nested, '<')]+"</entry></feed>", Options{Limits: Limits{Depth: 1000}})
	if err != nil || head.Skipped != 1 {
		t.Errorf("many prefixes in each other: %v, problems %q", err, head.Problems)
	}
	many := feedStart + strings.Repeat("<entry/>", 100) + "</feed>"
	if head, _, err := read(t, many, Options{}); err != nil || head.Skipped != 100 || len(head.Problems) != maxProblems {
		t.Errorf("%v, skipped %d, %d problems", err, head.Skipped, len(head.Problems))
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

type same byte

func (s same) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(s)
	}
	return len(p), nil
}

func TestErrorsOfOthers(t *testing.T) {
	t.Parallel()
	stop := errors.New("enough")
	doc := feedStart + "<entry><id>a</id></entry><entry><id>b</id></entry></feed>"
	n := 0
	_, err := Read(strings.NewReader(doc), Options{}, func(*Entry) error { n++; return stop })
	if err != stop || n != 1 { //nolint:errorlint // as it is
		t.Errorf("%v after %d", err, n)
	}
	_, err = Read(strings.NewReader("<entry><id>a</id></entry>"), Options{}, func(*Entry) error { return stop })
	if err != stop { //nolint:errorlint // as it is
		t.Errorf("of one entry: %v", err)
	}
	broken := errors.New("connection reset")
	for _, cut := range []int{0, 10, len(feedStart) + 3, len(doc) - 20} {
		var said *Error
		_, err = Read(io.MultiReader(strings.NewReader(doc[:cut]), iotest.ErrReader(broken)), Options{}, func(*Entry) error { return nil })
		if !errors.Is(err, broken) || errors.As(err, &said) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
}

// Links of entries are not the feed's (S-08), whatever stands around them.
func TestFeedLevelLinksOnly(t *testing.T) {
	t.Parallel()
	const evil = `<link xmlns="` + nsAtom + `" rel="hub self next" href="https://evil.example/"/>`
	for _, doc := range []string{
		feedStart + "<entry><id>a</id>" + evil + "</entry><author>" + evil + "</author></feed>",
		feedStart + "<entry><id>a</id><source>" + evil + "</source></entry></feed>",
		"<entry><id>a</id>" + evil + "</entry>",
		"<rss><channel><item><guid>a</guid>" + evil + "</item><image>" + evil + "</image></channel></rss>",
		"<rss><channel/>" + evil + "<item><guid>a</guid>" + evil + "</item></rss>",
		`<rss><channel><link rel="hub" href="https://evil.example/">x</link></channel></rss>`,
	} {
		if head, _ := mustRead(t, doc); len(head.Hubs) > 0 || head.Self != "" || head.Next != "" {
			t.Errorf("%+v of %s", head, doc)
		}
	}
	head, _ := mustRead(t, `<rss><channel>`+strings.ReplaceAll(evil, "evil", "good")+`</channel></rss>`)
	if len(head.Hubs) != 1 || head.Self != "https://good.example/" || head.Next != head.Self {
		t.Errorf("%+v", head)
	}
}

func TestNoPasswordInEntries(t *testing.T) {
	t.Parallel()
	_, entries, err := read(t, feedStart+`<entry><link href="a"/></entry></feed>`, Options{Base: parseURL(t, "https://user:secret@x.example/f")})
	if err != nil || entries[0].Key != "https://x.example/a" || strings.Contains(string(entries[0].XML), "secret") {
		t.Errorf("%v %s\n%s", err, entries[0].Key, entries[0].XML)
	}
}
