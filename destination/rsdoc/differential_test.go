package rsdoc

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"resyncd/destination/fuzztest"
)

// stricter are the refusals that encoding/xml does not know. It is lenient where a document could mean two things
// (go-notes.md): for each of these the scanner refuses what the oracle takes, on purpose.
var stricter = []string{
	// Forbidden markup, which encoding/xml hands over as a directive.
	"a markup declaration", "a document type declaration", "an HTML page in place",
	"<! followed by neither", "<![ followed by something else",
	// Namespaces: encoding/xml takes an undeclared prefix for a namespace.
	"the prefix ", "a name with a misplaced colon", "no name where one must be", "a name that begins with",
	"a declaration of the namespace of declarations", "a declaration that changes the prefix xml",
	"a declaration that takes a prefix away", "a namespace declared twice", "a processing instruction without a proper name",
	// Well-formedness that it does not check.
	"is there twice", "no space before an attribute", "a second root element", "text before the root element",
	"text after the end of the root element", "a CDATA section outside", "an XML declaration", "XML of version",
	"a reference to a character that XML does not allow", "a character that XML does not allow",
	"a byte sequence that is not UTF-8", "the input ends inside a character", "the document is in UTF-16",
	"only UTF-8 is read", "an & that begins no reference", "a name with a character that names cannot have",
	"a '<' in an attribute value", "before the root element", "the document is empty",
	// Limits.
	"elements nested deeper", "namespace declarations in force", "a tag with more than", "an attribute value of more than",
	"a tag of more than", "bytes of text in an element", "more than 1000 links", "with a name of more than 1024",
}

// agree compares the reader with the oracle.
func agree(t rapid.TB, doc []byte, base *url.URL) {
	t.Helper()
	got := readAll(string(doc), Options{Base: base})
	want, err := oracleRead(doc, base)
	switch {
	case got.Err == nil && err == nil:
		flat := cmp.Transformer("flat", func(s string) string { // the oracle cannot tell &#10; from a line break
			return strings.NewReplacer("\n", " ", "\t", " ", "\r", " ").Replace(s)
		})
		diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), flat, cmpopts.IgnoreFields(document{}, "First"))
		if diff != "" {
			t.Fatalf("encoding/xml (-) and the reader (+) disagree:\n%s\n%q", diff, doc)
		}
	case got.Err == nil:
		// Looser only in names (the fifth edition has more letters) and in the version, as that edition asks.
		if s := err.Error(); !strings.Contains(s, "invalid XML name") && !strings.Contains(s, "unsupported version") {
			t.Fatalf("the reader takes what encoding/xml refuses (%v): %q", err, doc)
		}
	case err == nil:
		for _, s := range stricter {
			if strings.Contains(got.Err.Error(), s) {
				return
			}
		}
		t.Fatalf("the reader refuses for a reason that is not in the list: %v: %q", got.Err, doc)
	}
}

func TestOracleOnOurDocuments(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.xml")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, f := range append(files, specFiles(os.Getenv("RESYNCD_SPEC_EXAMPLES"))...) {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		agree(t, b, testBase)
		agree(t, b, nil)
	}
	agree(t, longList(100), nil)
}

func specFiles(dir string) []string {
	if dir == "" {
		return nil
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*", "*.xml"))
	return files
}

func FuzzReader(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.xml")
	for _, name := range append(files, specFiles(os.Getenv("RESYNCD_SPEC_EXAMPLES"))...) {
		if b, err := os.ReadFile(name); err == nil {
			f.Add(b)
		}
	}
	for _, s := range []string{
		urlset + "</urlset>", index + "<sitemap><loc>http://a.example/</loc></sitemap></sitemapindex>",
		urlset + `<url><loc><![CDATA[a]]>&#x62;<!-- - --><?c d?></loc><rs:md hash="md5:x" x:y='z' xmlns:x="u"/></url></urlset>`,
		"<?xml version='1.0' encoding='utf-8'?><!DOCTYPE urlset>" + urlset + "</urlset>",
		urlset + "<rs:md capability=\"change\nlist\"/></urlset>",
		urlset + `<url xmlns="http://x.example/schemas/SiteMap"/><g:url xmlns:g="http://www.google.com/schemas/sitemap/0.84"/></urlset>`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		fuzztest.Bound(t)
		agree(t, doc, testBase)
		// However it arrives, it is the same document.
		want := dump(readAll(string(doc), Options{}))
		for way, d := range readings(string(doc), Options{}) {
			if isGzip(doc) {
				return // only two of the ways inflate
			}
			if got := dump(d); got != want {
				t.Fatalf("%s reads otherwise:\n%s\n%s", way, got, want)
			}
		}
	})
}

// pieces draws parts of documents. Sound ones are well-formed and odd; the others may hold what no document may.
type pieces struct{ sound bool }

func (p pieces) of(t *rapid.T, name string, sound []string, broken ...string) string {
	if !p.sound {
		sound = append(sound[:len(sound):len(sound)], broken...)
	}
	return rapid.SampledFrom(sound).Draw(t, name)
}

func (p pieces) many(t *rapid.T, name string, least, most int, draw func(*rapid.T) string) string {
	return strings.Join(rapid.SliceOfN(rapid.Custom(draw), least, most).Draw(t, name), "")
}

func (p pieces) text(t *rapid.T) string {
	return p.many(t, "text", 0, 3, func(t *rapid.T) string {
		return p.of(t, "piece", []string{
			"", " ", "b", "http://a.example/b", "https://é.example", "/r", "&amp;", "&#x26;", "<![CDATA[?a&b]]>", "<!-- - -->", "<?pi x?>",
			"]]&gt;", "]", "\r\n", "\r", "100%", "<i/>", "2013-01-03", ">", "&#13;", "<i>x<loc>y</loc></i>",
		}, "]]>", "&", "&nbsp;", "<!-- -- -->", "<!DOCTYPE x>", "\x00", "\xFF", "&#xD800;")
	})
}

func (p pieces) tag(t *rapid.T) string {
	attr := rapid.Custom(func(t *rapid.T) string {
		return p.of(t, "attr", []string{
			` capability="changelist"`, ` capability='ResourceList'`, ` change="created"`, ` change=" deleted "`, ` change="x"`,
			` from="2013"`, ` until="2014-01-01T00:00:00Z"`, ` at='x'`, ` length="12"`, ` length="-1"`, ` type=" a/b&#10;c "`,
			" hash=\"md5:1584abdf8ebdc9802ac0c6a7402c03b6\r\n md5:0\"", ` rel="up"`, ` rel = " hub"`, ` href="/c?d&amp;e"`, ` href="http://[x"`,
			` pri="3"`, ` rs:change="deleted"`, ` xmlns:x="u"`, ` path="a&lt;b"`, ` datetime="2013-01-03T18:00:00.5Z"`, ` encoding="gzip"`,
			` modified="2013"`, ` xml:lang='de'`,
		}, ` xmlns:rs="u"`, ` xmlns="u"`, ` xmlns=""`, ` x:y="z"`, ` b="<"`, ` q`, ` b="&"`)
	})
	byName := func(s string) string {
		if p.sound {
			s, _, _ = strings.Cut(strings.TrimSpace(s), "=")
			return strings.TrimSpace(s)
		}
		return s
	}
	attrs := strings.Join(rapid.SliceOfNDistinct(attr, 0, 4, byName).Draw(t, "attrs"), "")
	name := p.of(t, "name", []string{"rs:md", "rs:ln", "rs:md", "rs:ln", "md", "changefreq"}, "x:y")
	return "<" + name + attrs + p.of(t, "end", []string{"/>", " \n/>", "><a/></" + name + ">"}, "/ >", ">")
}

func (p pieces) entry(t *rapid.T) string {
	name := p.of(t, "entry", []string{"url", "url", "url", "url", "sitemap", "rs:url", "x"})
	attr := p.of(t, "attr", []string{"", "", "", ` xmlns=""`, ` a="b"`, ` xmlns="https://www.sitemaps.org/schemas/sitemap/0.9"`, ` xmlns="u"`})
	children := p.many(t, "children", 1, 5, func(t *rapid.T) string {
		switch rapid.IntRange(0, 5).Draw(t, "child") {
		case 0, 1, 4:
			return "<loc>http://a.example/" + p.text(t) + "</loc>"
		case 2:
			return "<lastmod>" + p.text(t) + "</lastmod>"
		case 3:
			return p.text(t)
		default:
			return p.tag(t)
		}
	})
	return "<" + name + attr + ">" + children + "</" + name + p.of(t, "end", []string{">", ">", " >"}, "x>")
}

func (p pieces) document(t *rapid.T) string {
	root := p.of(t, "root", []string{"urlset", "urlset", "urlset", "sitemapindex"})
	body := p.many(t, "parts", 3, 8, func(t *rapid.T) string {
		return rapid.SampledFrom([]func(*rapid.T) string{p.entry, p.entry, p.entry, p.tag, p.text}).Draw(t, "part")(t)
	})
	return p.of(t, "head", []string{"", "<?xml version='1.0'?>", "\xEF\xBB\xBF", " ", "<!-- x -->"}, "<!DOCTYPE x>", "x") +
		"<" + root + ` xmlns="` + NamespaceSitemap + `" xmlns:rs="` + NamespaceRS + `">` + body +
		"</" + root + ">" + p.of(t, "tail", []string{"", "\n", "<!-- -->"}, "x", "<a/>")
}

// Documents put together from pieces reach further than mutated bytes: all are odd, and most are read to the end.
func TestOracleOnPieces(t *testing.T) {
	t.Parallel()
	read, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		doc := pieces{sound: rapid.IntRange(0, 3).Draw(t, "sound") > 0}.document(t)
		agree(t, []byte(doc), testBase)
		switch d := readAll(doc, Options{Base: testBase}); {
		case d.Err != nil:
			refused++
		case len(d.Entries) > 0:
			read++
		}
	})
	if read == 0 || refused == 0 {
		t.Errorf("%d documents read and %d refused: the test compares too little", read, refused)
	}
}
