package rsdoc

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/fuzztest"
)

var update = flag.Bool("update", false, "write the goldens anew")

var testBase = &url.URL{Scheme: "https", Host: "lib.example", Path: "/theses/list.xml"}

// Our own documents, each with what must be read from it.
func TestGoldens(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.xml")
	if err != nil || len(files) == 0 {
		t.Fatal("no documents in testdata", err)
	}
	for _, f := range files {
		doc, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		golden := strings.TrimSuffix(f, ".xml") + ".golden"
		if *update {
			if err := os.WriteFile(golden, []byte(dump(readAll(string(doc), Options{Base: testBase}))), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		for way, d := range readings(string(doc), Options{Base: testBase}) {
			if diff := cmp.Diff(string(want), dump(d)); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", f, way, diff)
			}
		}
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	cases := []struct {
		md     string
		assume Kind
		want   Kind
		raw    string
	}{
		{``, "", KindUnknown, ""},
		{``, KindResourceList, KindResourceList, ""},
		{`<rs:md/>`, KindChangeNotification, KindChangeNotification, ""},
		{`<rs:md capability="changelist"/>`, KindChangeNotification, KindChangeList, "changelist"},
		{`<rs:md capability=" ResourceList&#10;"/>`, "", KindResourceList, " ResourceList\n"},
		{`<rs:md capability="resourcesync"/>`, "", KindDescription, "resourcesync"},
		{`<rs:md capability="changelist-notification"/>`, "", KindChangeNotification, "changelist-notification"},
		{`<rs:md capability="Holograms"/>`, "", "holograms", "Holograms"},
		{`<rs:md capability="` + strings.Repeat("X", 100) + `"/>`, "", Kind(strings.Repeat("x", 100)), strings.Repeat("X", 100)},
		{`<rs:md rs:capability="changelist"/>`, "", KindUnknown, ""},
		{`<md capability="changelist"/>`, "", KindUnknown, ""},
		{`<x:md xmlns:x="http://www.openarchives.org/rs/terms" capability="changelist"/>`, "", KindUnknown, ""},
		{`<x:md xmlns:x="` + NamespaceRS + `" capability="changelist"/>`, "", KindChangeList, "changelist"},
	}
	for _, c := range cases {
		d := mustRead(t, urlset+c.md+"</urlset>", Options{Assume: c.assume})
		if d.Head.Kind != c.want || d.Head.RawKind != c.raw || d.Head.Shape != List || len(d.Entries) != 0 {
			t.Errorf("%s: kind %q, raw %q; want %q, %q", c.md, d.Head.Kind, d.Head.RawKind, c.want, c.raw)
		}
	}
	all := []Kind{
		KindDescription, KindCapabilityList, KindResourceList, KindChangeList, KindResourceDump, KindResourceDumpManifest,
		KindChangeDump, KindChangeDumpManifest, KindResourceListArchive, KindResourceDumpArchive, KindChangeListArchive,
		KindChangeDumpArchive, KindChangeNotification, KindFrameworkNotification,
	}
	for _, k := range all {
		d := mustRead(t, index+`<rs:md capability="`+strings.ToUpper(string(k))+`"/></sitemapindex>`, Options{})
		if d.Head.Kind != k || d.Head.Shape != Index {
			t.Errorf("%q is read as %q", k, d.Head.Kind)
		}
	}
}

func TestExpect(t *testing.T) {
	t.Parallel()
	h := NewHead(List, KindResourceList)
	if err := h.Expect(KindChangeList, KindResourceList); err != nil {
		t.Error(err)
	}
	err := h.Expect(KindChangeList, KindChangeDump)
	if problemOf(err) != WrongKind || !strings.Contains(err.Error(), "changelist or changedump") || !strings.Contains(err.Error(), `"resourcelist"`) {
		t.Error(err)
	}
	unknown := NewHead(List, KindUnknown)
	if err := unknown.Expect(KindChangeList); err != nil {
		t.Error(err)
	}
}

func TestHeadLink(t *testing.T) {
	t.Parallel()
	d := mustRead(t, urlset+`
		<rs:ln rel="index" href="http://a.example/0"/>
		<rs:ln rel="hub" href="http://a.example/1" pri="0"/>
		<rs:ln rel="Hub" href="http://a.example/2" pri=" 7 "/>
		<rs:ln rel="hub" href="http://a.example/3" pri="7"/>
		<rs:ln rel="hub" href="http://a.example/4" pri="1000000"/>
		<rs:md capability="capabilitylist"/></urlset>`, Options{})
	if ln, ok := d.Head.Link(RelHub); !ok || ln.Href != "http://a.example/2" || ln.Pri != 7 {
		t.Errorf("preferred link: %v, %v", ln, ok)
	}
	if _, ok := d.Head.Link(RelUp); ok {
		t.Error("a link that is not there")
	}
	for i, want := range []int{noPri, noPri, 7, 7, noPri} {
		if d.Head.Links[i].Pri != want {
			t.Errorf("link %d: pri %d, want %d", i, d.Head.Links[i].Pri, want)
		}
	}
}

// Entries that cannot be used are passed over and counted, and never cost the rest of the document (F46).
func TestSkippedEntries(t *testing.T) {
	t.Parallel()
	const good = `<url><loc>http://a.example/good</loc><rs:md change="deleted"/></url>`
	changes := `<rs:md capability="changelist" from="2013-01-01T00:00:00Z"/>`
	cases := []struct{ name, entry, why string }{
		{"no loc", `<url><rs:md change="created"/></url>`, "no loc"},
		{"nothing", `<url/>`, "no loc"},
		{"empty loc", `<url><loc> <!-- none --> </loc></url>`, "loc is empty"},
		{"loc without namespace", `<url><loc xmlns="">http://a.example/</loc></url>`, "no loc"},
		{"loc deeper down", `<url><x><loc>http://a.example/</loc></x></url>`, "no loc"},
		{"loc of another vocabulary", `<url><i:loc xmlns:i="http://i.example/">http://a.example/</i:loc></url>`, "no loc"},
		{"no URI", `<url><loc>http://[a.example/100%.pdf</loc></url>`, "loc is no URI"},
		{"line break in the URI", "<url><loc>http://a.example/a\nb</loc></url>", "loc is no URI"},
		{"no host", `<url><loc>http:///a</loc></url>`, "loc is a URI without scheme or host"},
		{"bad port", `<url><loc>http://a.example:x/</loc></url>`, "loc is no URI"},
		{"relative without base", `<url><loc>/a</loc></url>`, "loc is relative, and there is nothing to resolve it against"},
		{"element in loc", `<url><loc>http://a.example/<b>x</b></loc></url>`, "an element inside loc"},
		{"two loc", `<url><loc>http://a.example/1</loc><loc>http://a.example/2</loc></url>`, "two different loc"},
		{"unknown change", `<url><loc>http://a.example/</loc><rs:md change="renamed"/></url>`, "an unknown change"},
		{"empty change", `<url><loc>http://a.example/</loc><rs:md change=""/></url>`, "an unknown change"},
		{"two rs:md", `<url><loc>http://a.example/</loc><rs:md change="created"/><rs:md change="deleted"/></url>`, "two rs:md that differ"},
		{"entry in an entry", `<url><loc>http://a.example/</loc><url><loc>http://a.example/2</loc></url></url>`, "an entry inside an entry"},
		{"the other shape's entry", `<sitemap><loc>http://a.example/</loc></sitemap>`, "<sitemap> of the wrong shape or in no namespace"},
		{"entry without namespace", `<url xmlns=""><loc>http://a.example/</loc></url>`, "<url> of the wrong shape or in no namespace"},
		{"the namespace with https", `<url xmlns="https://www.sitemaps.org/schemas/sitemap/0.9"><loc>http://a.example/</loc></url>`, `<url> in the namespace "https://www.sitemaps.org/schemas/sitemap/0.9", which is not ` + NamespaceSitemap},
		{"the namespace with a slash behind", `<url xmlns="http://www.sitemaps.org/schemas/sitemap/0.9/"><loc>http://a.example/</loc></url>`, `<url> in the namespace "http://www.sitemaps.org/schemas/sitemap/0.9/", which is not ` + NamespaceSitemap},
		{"the namespace in other case", `<url xmlns="http://www.Sitemaps.org/Schemas/Sitemap/0.9"><loc>http://a.example/</loc></url>`, `<url> in the namespace "http://www.Sitemaps.org/Schemas/Sitemap/0.9", which is not ` + NamespaceSitemap},
		{"the namespace without www", `<sitemap xmlns="http://sitemaps.org/schemas/sitemap/0.9"><loc>http://a.example/</loc></sitemap>`, `<sitemap> in the namespace "http://sitemaps.org/schemas/sitemap/0.9", which is not ` + NamespaceSitemap},
		{"the namespace of Google", `<url xmlns="http://www.google.com/schemas/sitemap/0.84"><loc>http://a.example/</loc></url>`, `<url> in the namespace "http://www.google.com/schemas/sitemap/0.84", which is not ` + NamespaceSitemap},
		{"the namespace without a version", `<url xmlns="http://www.sitemap.org/schemas/sitemap"><loc>http://a.example/</loc></url>`, `<url> in the namespace "http://www.sitemap.org/schemas/sitemap", which is not ` + NamespaceSitemap},
	}
	for _, c := range cases {
		d := readAll(urlset+changes+good+c.entry+good+"</urlset>", Options{})
		if d.Err != nil || d.Skipped != 1 || len(d.Entries) != 2 || d.Entries[0].Ordinal != 0 || d.Entries[1].Ordinal != 2 {
			t.Errorf("%s: %s", c.name, dump(d))
			continue
		}
		r, _ := OpenBytes([]byte(urlset+changes+good+c.entry+good+"</urlset>"), Options{})
		for _, err := r.Next(); err == nil; _, err = r.Next() {
		}
		_, first := r.Skipped()
		want := fmt.Sprintf("skipped entry 1 (at byte %d): %s", len(urlset+changes+good), c.why)
		if first == nil || first.Error() != want {
			t.Errorf("%s: %v, want %q", c.name, first, want)
		}
	}
}

// What is sloppy but clear is borne.
func TestTolerance(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, doc, want string }{
		{"space and comments in loc", "<url><loc>\n\t http://a.example/<!-- x -->a<?p q?>b \r\n</loc></url>", "http://a.example/ab"},
		{"CDATA", "<url><loc>http://a.example/<![CDATA[?a=1&b=<2>]]></loc></url>", "http://a.example/?a=1&b=<2>"},
		{"references", "<url><loc>http://a.example/?a&#61;1&amp;b&#x3D;2&#x00000033;&apos;&quot;</loc></url>", `http://a.example/?a=1&b=23'"`},
		{"non-ASCII", "<url><loc>http://a.example/é/日本&#x1F600;</loc></url>", "http://a.example/é/日本😀"},
		{"spaces inside", "<url><loc>http://a.example/a b</loc></url>", "http://a.example/a b"},
		{"identity is the string", "<url><loc>HTTP://A.example:80/%7Ea//b/./c%2Fd</loc></url>", "HTTP://A.example:80/%7Ea//b/./c%2Fd"},
		{"another scheme", "<url><loc>gsiftp://a.example/b</loc></url>", "gsiftp://a.example/b"},
		{"opaque", "<url><loc>urn:isbn:0451450523</loc></url>", "urn:isbn:0451450523"},
		{"relative", "<url><loc>../a?b=c&amp;d</loc></url>", "https://lib.example/a?b=c&d"},
		{"relative to the scheme", "<url><loc>//b.example/x</loc></url>", "https://b.example/x"},
		{"the same loc twice", "<url><loc>http://a.example/</loc><loc> http://a.example/ </loc></url>", "http://a.example/"},
		{"the same relative loc twice", "<url><loc>/x</loc><loc>https://lib.example/x</loc></url>", "https://lib.example/x"},
		{"another prefix", `<s:url xmlns:s="` + NamespaceSitemap + `"><s:loc>http://a.example/</s:loc></s:url>`, "http://a.example/"},
		{"the default namespace changed", `<x xmlns="u"><url><loc>z</loc></url></x><url><loc>http://a.example/</loc></url>`, "http://a.example/"},
		{"the default namespace changed back", `<x:y xmlns:x="u" xmlns=""><z/></x:y><url><loc>http://a.example/</loc></url>`, "http://a.example/"},
		{"unknown elements", `<x/><url><y>t<z/></y><loc>http://a.example/</loc><loc xmlns="u">http://b.example/</loc></url>`, "http://a.example/"},
		{"text between", "a<url>b<loc>http://a.example/</loc>c</url>d", "http://a.example/"},
		{"the same rs:md twice", `<url><loc>http://a.example/</loc><rs:md change="created"/><rs:md change="CREATED"/></url>`, "http://a.example/"},
		{"attributes in single quotes, spaces", "<url ><loc\n>http://a.example/</loc\t><rs:md\r\nlength = '7'\n/></url >", "http://a.example/"},
		{"xml attributes", `<url xml:lang="de"><loc xml:space="preserve">http://a.example/</loc></url>`, "http://a.example/"},
		{"greater-than in text and value", `<url a="&gt;>"><loc>http://a.example/></loc></url>`, "http://a.example/>"},
		{"unicode names", `<été/><url><loc>http://a.example/</loc></url>`, "http://a.example/"},
		{"bad lastmod", "<url><lastmod>yesterday</lastmod><loc>http://a.example/</loc></url>", "http://a.example/"},
		{"elements of extensions", `<i:url xmlns:i="http://www.google.com/schemas/sitemap-image/1.1"/><url><loc>http://a.example/</loc></url>`, "http://a.example/"},
		{"elements of other vocabularies", `<url xmlns="http://x.example/sitemap"/><sitemap xmlns="u"/><rs:url/><xml:url/><url><loc>http://a.example/</loc></url>`, "http://a.example/"},
		{"a namespace too long to look through", `<url xmlns="http://www.sitemaps.org/` + strings.Repeat("x", 200) + `"/><url><loc>http://a.example/</loc></url>`, "http://a.example/"},
		{"long text that is not read", "<url><loc>http://a.example/</loc><caption>" + strings.Repeat("x", 70_000) + "</caption></url>", "http://a.example/"},
		{"a long comment", "<url><loc>http://a.example/<!--" + strings.Repeat("- x\r\n", 80_000) + "--></loc></url>", "http://a.example/"},
		{"long white space", "<url>" + strings.Repeat(" \n", 35_000) + "<loc>http://a.example/</loc></url>", "http://a.example/"},
	}
	for _, c := range cases {
		for _, wrap := range [][2]string{
			{urlset, "</urlset>"},
			{"\xEF\xBB\xBF<?xml version='1.0' encoding='utf-8' standalone=\"yes\" ?>\r\n<!-- - --><?a?>" + urlset, "</urlset >\n<!-- --><?b c?>\n"},
			{`<?xml version="1.0" encoding="US-ASCII"?><q:urlset xmlns:q="` + NamespaceSitemap + `" xmlns="` + NamespaceSitemap + `" xmlns:rs='` + NamespaceRS + `'>`, "</q:urlset>"},
			{"\n " + `<?xml version="1.1"?>` + urlset, "</urlset>"},
		} {
			for way, d := range readings(wrap[0]+c.doc+wrap[1], Options{Base: testBase}) {
				if d.Err != nil || d.Skipped != 0 || len(d.Entries) != 1 || d.Entries[0].Loc != c.want {
					t.Errorf("%s, %s: %s", c.name, way, dump(d))
				}
			}
		}
	}
}

func TestEntryValues(t *testing.T) {
	t.Parallel()
	d := mustRead(t, urlset+`<rs:md capability="resourcelist" at="2013"/>
	<url><loc>http://a.example/1</loc><rs:md length="1e3" change="renamed" hash="md5:x crc:1" datetime="soon" type=" text/html ; charset=utf-8 "/></url>
	<url><loc>http://a.example/2</loc><rs:md length="9223372036854775807" path=" /a b"/>
		<rs:ln rel="via"/><rs:ln href="http://a.example/"/><rs:ln rel=" via " href=" /x " length="-1" pri="x" modified="2013"/></url>
	<url><loc>http://a.example/3</loc><rs:md length="9223372036854775808"/></url>
	<url><loc>http://a.example/4</loc></url></urlset>`, Options{Base: testBase})
	e := d.Entries
	if e[0].Length != -1 || e[0].Change != ChangeUnknown || e[0].BadDigests != 1 || e[0].Datetime.Known() || e[0].Type != "text/html ; charset=utf-8" {
		t.Errorf("bad values are not absent: %+v", e[0])
	}
	if e[1].Length != 1<<63-1 || e[1].Path != " /a b" || e[1].BadLinks != 2 || len(e[1].Links) != 1 || e[1].Links[0].Rel != "via" ||
		e[1].Links[0].Href != "https://lib.example/x" || e[1].Links[0].Length != -1 || e[1].Links[0].Modified.String() != "2013-01-01T00:00:00Z" {
		t.Errorf("%+v", e[1])
	}
	if e[2].Length != -1 || !e[2].HasMD {
		t.Errorf("a length beyond int64: %+v", e[2])
	}
	if diff := cmp.Diff(NewEntry("http://a.example/4"), e[3], cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Ordinal" }, cmp.Ignore()), cmp.FilterValues(func(a, b []Link) bool { return len(a)+len(b) == 0 }, cmp.Ignore()), cmp.FilterValues(func(a, b []Digest) bool { return len(a)+len(b) == 0 }, cmp.Ignore())); diff != "" {
		t.Errorf("an entry keeps values of the one before:\n%s", diff)
	}
}

func TestRootValues(t *testing.T) {
	t.Parallel()
	d := mustRead(t, urlset+`<rs:md capability="changelist" from="then" until="2013-01-02"/><rs:ln rel="up"/><rs:ln rel="up" href="%zz"/></urlset>`, Options{})
	if d.Head.From.Known() || !d.Head.Until.Known() || len(d.Head.Links) != 0 {
		t.Errorf("%s", dump(d))
	}
	d = mustRead(t, urlset+strings.Repeat("<rs:ln/>", 100)+"</urlset>", Options{})
	if len(d.Head.Links) != 0 {
		t.Errorf("%s", dump(d))
	}
	d = mustRead(t, urlset+`<rs:md capability="resourcelist" modified="2013"/></urlset>`, Options{})
	if d.Head.At.Known() {
		t.Errorf("0.6: %s", dump(d))
	}
	d = mustRead(t, urlset+`<rs:md capability="changelist" from="2013"/></urlset>`, Options{})
	if d.Head.At.Known() {
		t.Error("a Change List has an at")
	}
}

// The root's rs:md and rs:ln may follow the entries.
func TestLateHead(t *testing.T) {
	t.Parallel()
	doc := urlset + `<url><loc>http://a.example/</loc><rs:md change="renamed"/></url><rs:md capability="changelist" from="2013"/><rs:ln rel="up" href="http://a.example/c"/></urlset>`
	r, err := OpenBytes([]byte(doc), Options{})
	if err != nil {
		t.Fatal(err)
	}
	h, err := r.Head()
	if err != nil || h.Kind != KindUnknown || h.HasMD {
		t.Fatalf("%+v, %v", h, err)
	}
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Fatal(err)
	}
	if h, err = r.Head(); err != nil || h.Kind != KindChangeList || !h.From.Known() || len(h.Links) != 1 {
		t.Fatalf("%+v, %v", h, err)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Fatal("io.EOF does not last:", err)
	}
	// Where the entries were read as something else, the document is refused.
	if d := readAll(doc, Options{Assume: KindResourceList}); problemOf(d.Err) != WrongKind || len(d.Entries) != 1 {
		t.Errorf("%s", dump(d))
	}
	if d := readAll(doc, Options{Assume: KindChangeList}); d.Err != nil || d.Skipped != 1 {
		t.Errorf("%s", dump(d))
	}
	late := urlset + `<url><loc>http://a.example/</loc></url><rs:md at="2013"/></urlset>`
	if d := readAll(late, Options{Assume: KindResourceList}); d.Err != nil || d.Head.Kind != KindResourceList || !d.Head.At.Known() {
		t.Errorf("%s", dump(d))
	}
}

// Head reads no further than to the first entry, so that work can begin while a list arrives.
func TestHeadIsEarly(t *testing.T) {
	t.Parallel()
	pr, pw := io.Pipe()
	go func() {
		_, _ = io.WriteString(pw, urlset+`<rs:md capability="resourcelist"/><url>`)
	}()
	r := NewReader(pr, Options{})
	h, err := r.Head()
	if err != nil || h.Kind != KindResourceList {
		t.Fatal(h, err)
	}
	go func() {
		_, _ = io.WriteString(pw, `<loc>http://a.example/</loc></url><`)
	}()
	if e, err := r.Next(); err != nil || e.Loc != "http://a.example/" {
		t.Fatal(e, err)
	}
	gone := errors.New("peer has gone")
	_ = pw.CloseWithError(gone)
	for range 2 {
		if _, err := r.Next(); !errors.Is(err, gone) || problemOf(err) != 0 {
			t.Fatal("the reader's error is lost:", err)
		}
	}
	if _, err := r.Head(); !errors.Is(err, gone) {
		t.Fatal(err)
	}
}

func TestReaderErrors(t *testing.T) {
	t.Parallel()
	whole := urlset + "</urlset>"
	broken := errors.New("broken")
	fail := func(doc string, err error) error {
		return collect(NewReader(io.MultiReader(strings.NewReader(doc), errReader{err}), Options{}), nil).Err
	}
	// A document is complete only where its input ended well, even behind the root.
	if err := fail(whole, broken); !errors.Is(err, broken) || problemOf(err) != 0 {
		t.Error(err)
	}
	if err := fail(whole, io.ErrUnexpectedEOF); problemOf(err) != Truncated || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if err := fail(whole, nil); !errors.Is(err, io.ErrNoProgress) {
		t.Error(err)
	}
	if err := readAll(urlset, Options{}).Err; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if err := collect(NewReader(lyingReader{}, Options{}), nil).Err; err == nil {
		t.Error("a reader with an impossible count is believed")
	}
	r, _ := OpenBytes([]byte(whole), Options{})
	_, _ = r.Next()
	if r.Bytes() != int64(len(whole)) {
		t.Errorf("%d bytes, want %d", r.Bytes(), len(whole))
	}
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }

type lyingReader struct{}

func (lyingReader) Read(p []byte) (int, error) { return len(p) + 1, nil }

// A percent sign that begins no escape stands for itself, and stays as it was written (contract.md 5).
func TestStrayPercent(t *testing.T) {
	t.Parallel()
	base, _ := url.Parse("http://a.example/d/")
	r := &Reader{opts: Options{Base: base}}
	for in, want := range map[string]string{
		"http://a.example/100%":     "http://a.example/100%",
		"http://a.example/f%zz?q=%": "http://a.example/f%zz?q=%",
		"100%.pdf":                  "http://a.example/d/100%25.pdf",
		"http://%zz/":               "",
		"http://a.example:%/x":      "",
		"http://a.example/a%\nb":    "",
	} {
		if got, fault := r.uri([]byte(in)); got != want || (fault == "") != (want != "") {
			t.Errorf("%q: %q, %q; want %q", in, got, fault, want)
		}
	}
}

// A URI that plainHTTP accepts must be one for url.Parse, and give the same answer.
func FuzzPlainHTTP(f *testing.F) {
	for _, s := range []string{"http://a.example/", "https://A_b-1.example:8080/x%2F?y=%20#z", "http://a.example/\x7F", "http://a.example/%zz", "http://a.example/%2", "http://a.example/\n", "http://a.example:/", "http://é/", "http://a.example/\u0085"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		fuzztest.Bound(t)
		if !plainHTTP(s) {
			return
		}
		if u, err := url.Parse(s); err != nil || !u.IsAbs() || u.Hostname() == "" {
			t.Fatalf("%q: %v, %v", s, u, err)
		}
	})
}
