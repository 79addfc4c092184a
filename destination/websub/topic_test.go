package websub

import (
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"resyncd/destination/fuzztest"
)

const (
	atomFeed = `<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><title>x</title><link rel="hub" href="http://h/"/><link href="http://t/" rel="self" type="application/atom+xml"/><link href="http://page/"/>` +
		`<entry><link rel="hub" href="http://evil/"/><source><link rel="self" href="http://evil/"/></source></entry></feed>`
	rssFeed = `<rss version="2.0" xmlns:a10="http://www.w3.org/2005/Atom"><channel><title>x</title><link>http://page/</link><a10:link rel="self" href="http://t/"/><a10:link rel="hub" href="http://h/"/>` +
		`<item><a10:link rel="hub" href="http://evil/"/></item></channel></rss>`
	rdfFeed = `<?xml version="1.0"?><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/" xmlns:atom="http://www.w3.org/2005/Atom"><channel rdf:about="http://page/"><link>http://page/</link><atom:link rel="hub" href="http://h/"/><atom:link rel="self" href="http://t/"/></channel>` +
		`<item><atom:link rel="hub" href="http://evil/"/></item></rdf:RDF>`
	htmlPage = `<!doctype html><html><head><link rel="hub" href="http://h/"><link rel="self" href="http://t/"></head><body><link rel="hub" href="http://evil/"></body></html>`
)

func found(self, selfFrom, hubsFrom string, hubs ...string) TopicLinks {
	return TopicLinks{Self: self, SelfFrom: selfFrom, Hubs: hubs, HubsFrom: hubsFrom}
}

func TestDiscoverTopic(t *testing.T) {
	t.Parallel()
	const header = `<http://hh/>; rel="hub", <http://ht/>; rel="self"`
	inHeader, inFeed, inPage := found("http://ht/", FromHeader, FromHeader, "http://hh/"), found("http://t/", FromFeed, FromFeed, "http://h/"), found("http://t/", FromHTML, FromHTML, "http://h/")
	nothing := found(page, FromURL, "")
	for name, tc := range map[string]struct {
		header []string
		typ    string
		body   string
		want   TopicLinks
	}{
		"header, no body (S-10)":         {[]string{header}, "", "", inHeader},
		"header before body (S-03)":      {[]string{header}, "application/atom+xml", atomFeed, inHeader},
		"two headers, two hubs":          {[]string{`<http://a/>; rel=hub`, `<http://b/>; rel="x HUB", <http://a/>; rel=hub, <http://ht/>; rel=self, <http://hu/>; rel=self`}, "", "", found("http://ht/", FromHeader, FromHeader, "http://a/", "http://b/")},
		"hub without self, body has it":  {[]string{`<http://hh/>; rel=hub`}, "text/xml", atomFeed, found("http://t/", FromFeed, FromHeader, "http://hh/")},
		"hub without self, page has it":  {[]string{`<http://hh/>; rel=hub`}, "text/html", htmlPage, found("http://t/", FromHTML, FromHeader, "http://hh/")},
		"hub without self anywhere":      {[]string{`<http://hh/>; rel=hub`}, "application/xml", "<urlset/>", found(page, FromURL, FromHeader, "http://hh/")},
		"self without hub, body has it":  {[]string{`<http://ht/>; rel=self`}, "text/xml", atomFeed, found("http://ht/", FromHeader, FromFeed, "http://h/")},
		"header about something else":    {[]string{`<http://hh/>; rel=hub; anchor="http://o/"`}, "text/xml", atomFeed, inFeed},
		"header of another scheme":       {[]string{`<javascript:x>; rel=hub, <mailto:a@b>; rel=self, <http:///x>; rel=hub`}, "text/xml", atomFeed, inFeed},
		"secrets in a URL":               {[]string{`<http://u:p@h/>; rel=hub, <http://u@t/>; rel=self`}, "text/xml", atomFeed, inFeed},
		"relative":                       {[]string{`</hub>; rel=hub, <?a=1>; rel=self`}, "", "", found(page+"?a=1", FromHeader, FromHeader, "http://source.example/hub")},
		"nothing at all":                 {nil, "", "", nothing},
		"atom":                           {nil, "application/atom+xml", atomFeed, inFeed},
		"rss":                            {nil, "application/rss+xml", rssFeed, inFeed},
		"rss 1.0":                        {nil, "application/rdf+xml", rdfFeed, inFeed},
		"rdf that is no feed":            {nil, "application/rdf+xml", strings.Replace(rdfFeed, "22-rdf", "23-rdf", 1), nothing},
		"html":                           {nil, "text/html; charset=utf-8", htmlPage, inPage},
		"atom as html":                   {nil, "text/html", atomFeed, inFeed},
		"rss as text":                    {nil, "text/plain", rssFeed, inFeed},
		"html as xml":                    {nil, "application/xml", htmlPage, inPage},
		"html as nothing":                {nil, "", "\ufeff\n<!-- <feed> -->\n" + htmlPage, inPage},
		"html without doctype":           {nil, "", strings.TrimPrefix(htmlPage, "<!doctype html>"), inPage},
		"html without anything":          {nil, "", `<link rel=hub href=http://h/><link rel=self href=http://t/>`, inPage},
		"xhtml":                          {nil, "application/xhtml+xml", `<?xml version="1.0"?><!DOCTYPE html PUBLIC "x" "y"><html xmlns="http://www.w3.org/1999/xhtml"><head><link rel="hub" href="http://h/"/><link rel="self" href="http://t/"/></head></html>`, inPage},
		"any prefix":                     {nil, "", `<f:feed xmlns:f="http://www.w3.org/2005/Atom"><f:link rel="hub" href="http://h/"/><f:link rel="self" href="http://t/"/></f:feed>`, inFeed},
		"namespace on the link":          {nil, "", `<rss><channel><link xmlns="http://www.w3.org/2005/Atom" rel="hub" href="http://h/"/><link xmlns="http://www.w3.org/2005/Atom" rel="self" href="http://t/"/></channel></rss>`, inFeed},
		"another namespace":              {nil, "", `<feed xmlns="http://www.w3.org/2005/Atom" xmlns:o="http://o/"><o:link rel="hub" href="http://h/"/></feed>`, nothing},
		"no namespace at all":            {nil, "", `<feed><link rel="hub" href="http://h/"/></feed>`, found(page, FromURL, FromFeed, "http://h/")},
		"deeper":                         {nil, "", `<feed xmlns="http://www.w3.org/2005/Atom"><author><link rel="hub" href="http://h/"/></author></feed>`, nothing},
		"beside the channel":             {nil, "", `<rss xmlns:a="http://www.w3.org/2005/Atom"><a:link rel="hub" href="http://h/"/><x><channel><a:link rel="hub" href="http://h/"/></channel></x></rss>`, nothing},
		"second root":                    {nil, "", `<rss/><feed xmlns="http://www.w3.org/2005/Atom"/>`, nothing},
		"links after the entries":        {nil, "", `<feed xmlns="http://www.w3.org/2005/Atom"><entry/><link rel="hub" href="http://h/"/><entry/><link rel="self" href="http://t/"/></feed>`, inFeed},
		"several tokens":                 {nil, "", `<feed xmlns="http://www.w3.org/2005/Atom"><link rel="Self HUB" href="http://t/"/></feed>`, found("http://t/", FromFeed, FromFeed, "http://t/")},
		"feed links resolve":             {nil, "", `<feed xmlns="http://www.w3.org/2005/Atom" xml:base="/b/"><link rel="hub" href="h"/><link xml:base="c/" rel="self" href="?t"/></feed>`, found("http://source.example/b/c/?t", FromFeed, FromFeed, "http://source.example/b/h")},
		"rss links resolve":              {nil, "", `<rss xmlns:a="http://www.w3.org/2005/Atom"><channel xml:base="http://o/x/"><a:link rel="hub" href="../h"/></channel></rss>`, found(page, FromURL, FromFeed, "http://o/h")},
		"entities in a target":           {nil, "", `<feed xmlns="http://www.w3.org/2005/Atom"><title>a&nbsp;b</title><link rel="hub" href="http://h/?a=1&amp;b=&#50;"/></feed>`, found(page, FromURL, FromFeed, "http://h/?a=1&b=2")},
		"declared entities are not read": {nil, "", `<!DOCTYPE feed [<!ENTITY a "aaaa"><!ENTITY hub "http://evil/">]><feed xmlns="http://www.w3.org/2005/Atom"><link rel="hub" href="&hub;"/></feed>`, found(page, FromURL, FromFeed, "http://source.example/dir/&hub;")},
		"a doctype is stepped over":      {nil, "", `<!DOCTYPE rss [<!ENTITY a "b">]>` + rssFeed, inFeed},
		"latin 1":                        {nil, "", `<?xml version="1.0" encoding="ISO-8859-1"?><feed xmlns="http://www.w3.org/2005/Atom"><title>` + strings.Repeat("\xe9", 9999) + `</title><link rel="hub" href="http://h/"/><link rel="self" href="http://t/` + "\xe9" + `"/></feed>`, found("http://t/é", FromFeed, FromFeed, "http://h/")},
		"broken after the links":         {nil, "", strings.Replace(atomFeed, "<title>x</title>", "", 1)[:260] + "<<<", inFeed},
		"broken before the links":        {nil, "", `<feed xmlns="http://www.w3.org/2005/Atom"><a></b><link rel="hub" href="http://h/"/></feed>`, nothing},
		"unclosed entry":                 {nil, "", `<feed xmlns="http://www.w3.org/2005/Atom"><entry></feed><link rel="hub" href="http://h/"/>`, nothing},
		"text":                           {nil, "text/html", `plain <link rel="hub" href="http://h/">`, nothing},
		"json":                           {nil, "application/json", `{"hubs": []}`, nothing},
		"other xml as html":              {nil, "text/html", `<urlset><link rel="hub" href="http://h/"/></urlset>`, nothing},
		"long comment, by type":          {nil, "application/atom+xml", "<!--" + strings.Repeat("x", 2*sniffed) + "-->" + atomFeed, inFeed},
		"long comment, page":             {nil, "text/html", "<!--" + strings.Repeat("x", 2*sniffed) + "-->" + htmlPage, inPage},
		"long comment, neither":          {nil, "text/plain", "<!--" + strings.Repeat("x", 2*sniffed) + "-->" + htmlPage, nothing},
		"many hubs":                      {[]string{strings.Repeat("<http://a/>; rel=hub, <?>; rel=hub,", 1) + manyHubs(100)}, "", "", TopicLinks{Self: page, SelfFrom: FromURL, HubsFrom: FromHeader}},
	} {
		final := mustURL(page + "#part")
		got, err := DiscoverTopic(tc.header, tc.typ, iotest.OneByteReader(strings.NewReader(tc.body)), final)
		if name == "many hubs" {
			if len(got.Hubs) != MaxHubs {
				t.Errorf("%d hubs", len(got.Hubs))
			}
			got.Hubs = nil
		}
		if d := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, d)
		}
	}
}

// The feeds that a page links to are told, in order, unless the headers say all.
func TestDiscoverTopicFeeds(t *testing.T) {
	t.Parallel()
	const head = `<link rel="ALTERNATE" type="Application/Atom+XML; charset=utf-8" href="a"><link rel="alternate" type="application/rss+xml" href="/r">` +
		`<link rel="alternate stylesheet" type="text/css" href="c"><link rel="alternate" hreflang="de" href="de"><link rel="alternate" type="application/feed+json" href="j">` +
		`<link rel="alternate" type="application/rdf+xml" href="feed:x"><link rel="alternate" type="application/rss+xml" href="/r">`
	page1 := strings.Replace(htmlPage, "<head>", "<head>"+head, 1)
	want := []string{"http://source.example/dir/a", "http://source.example/r"}
	for name, tc := range map[string]struct {
		header, body string
		want         []string
	}{
		"page":       {"", page1, want},
		"header too": {`<f>; rel=alternate; type="application/atom+xml", <http://h/>; rel=hub`, page1, append([]string{"http://source.example/dir/f"}, want...)},
		"not needed": {`<http://h/>; rel=hub, <http://t/>; rel=self`, page1, nil},
		"of others":  {`<f>; rel=alternate; type="application/atom+xml"; anchor="/x"`, htmlPage, nil},
		"no page":    {`<f>; rel=alternate; type="application/atom+xml"`, atomFeed, nil},
		"in a body":  {"", strings.Replace(htmlPage, "<body>", "<body>"+head, 1), nil},
	} {
		got, err := DiscoverTopic([]string{tc.header}, "", strings.NewReader(tc.body), mustURL(page))
		if d := cmp.Diff(tc.want, got.Feeds, cmpopts.EquateEmpty()); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, d)
		}
	}
	many := strings.Replace(manyHubs(100), "rel=hub", `rel=alternate; type="application/rss+xml"`, -1)
	if got := FeedTargets(ParseLinks([]string{many}, nil)); len(got) != maxFeeds {
		t.Errorf("%d feeds", len(got))
	}
}

func manyHubs(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("<http://h/" + strings.Repeat("x", i) + ">; rel=hub,")
	}
	return b.String()
}

func TestDiscoverTopicWithoutMuch(t *testing.T) {
	t.Parallel()
	got, err := DiscoverTopic(nil, "", nil, nil)
	if d := cmp.Diff(TopicLinks{}, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	got, err = DiscoverTopic([]string{`<http://h/>; rel=hub, </x>; rel=self`}, "", nil, nil)
	if d := cmp.Diff(found("", "", FromHeader, "http://h/"), got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
}

// Where the headers say all, the body is not touched; a body that cannot be read takes nothing from what was found.
func TestDiscoverTopicAndReadErrors(t *testing.T) {
	t.Parallel()
	cut := errors.New("cut")
	final := mustURL(page)
	if _, err := DiscoverTopic([]string{`<http://h/>; rel="hub self"`}, "", iotest.ErrReader(cut), final); err != nil {
		t.Error(err)
	}
	for name, start := range map[string]string{"at once": "", "feed": atomFeed[:150], "page": htmlPage[:60]} {
		got, err := DiscoverTopic([]string{`<http://h/>; rel="hub"`}, "", io.MultiReader(strings.NewReader(start), iotest.ErrReader(cut)), final)
		if !errors.Is(err, cut) || len(got.Hubs) != 1 || got.Self == "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// source repeats text for ever behind head and counts what was read of it.
type source struct {
	head, text string
	read       int
}

func (s *source) Read(p []byte) (int, error) {
	n := copy(p, s.head)
	s.head = s.head[n:]
	if n == 0 {
		for n < len(p) {
			p[n] = s.text[s.read%len(s.text)]
			s.read++
			n++
		}
	}
	return n, nil
}

func TestDiscoverTopicIsBounded(t *testing.T) {
	t.Parallel()
	const atom = `<feed xmlns="http://www.w3.org/2005/Atom"><link rel="hub" href="http://h/"/>`
	for name, s := range map[string]*source{
		"depth":      {head: atom, text: "<a>"},
		"links":      {head: atom, text: `<link rel="x" href="http://h/"/>`},
		"entries":    {head: atom, text: `<entry>x</entry>`},
		"text":       {head: atom, text: "x"},
		"attributes": {head: atom + "<link ", text: ` a="b"`},
		"attribute":  {head: atom + `<link rel="`, text: "x"},
		"entities":   {head: `<!DOCTYPE feed [<!ENTITY a "&b;&b;&b;&b;"><!ENTITY b "&a;&a;&a;">]>` + atom, text: "&amp;"},
		"comment":    {head: atom + "<!--", text: "-"},
		"doctype":    {head: atom + "<!DOCTYPE", text: "<"},
		"page":       {head: `<html><head><link rel=hub href=http://h/>`, text: "<meta>"},
	} {
		began := time.Now()
		got, err := DiscoverTopic(nil, "", io.LimitReader(s, maxHead), mustURL(page))
		if err != nil || len(got.Hubs) != 1 || got.Self != page {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if s.read > maxHead+sniffed || time.Since(began) > 20*time.Second {
			t.Errorf("%s: %d bytes in %s", name, s.read, time.Since(began))
		}
	}
}

// A feed that has shown hub and self is not read on.
func TestDiscoverTopicStopsEarly(t *testing.T) {
	t.Parallel()
	s := &source{head: atomFeed[:strings.Index(atomFeed, "<entry>")], text: "<entry>x</entry>"}
	got, err := DiscoverTopic(nil, "", s, mustURL(page))
	if err != nil || got.SelfFrom != FromFeed || s.read > 16<<10 {
		t.Errorf("%+v after %d bytes, %v", got, s.read, err)
	}
}

func FuzzDiscoverTopic(f *testing.F) {
	for _, body := range []string{atomFeed, rssFeed, rdfFeed, htmlPage, `<link rel=alternate type=application/rss+xml href=/f>`, "", "<", "<!--", "<!DOCTYPE a [<!ENTITY b 'c'>]><rss><channel>&b;", `<?xml version="1.0" encoding="utf-16"?><feed>`, `<a:feed xmlns:a="http://www.w3.org/2005/Atom" xml:base="%"><a:link href="" rel="hub"/>`} {
		f.Add(`<http://h/>; rel=hub`, "text/xml", body)
		f.Add("", "text/html", body)
	}
	f.Fuzz(func(t *testing.T, header, contentType, body string) {
		fuzztest.Bound(t)
		got, err := DiscoverTopic([]string{header}, contentType, strings.NewReader(body), mustURL(page))
		if err != nil {
			t.Fatal(err)
		}
		if got.Self == "" || got.SelfFrom == "" || (len(got.Hubs) > 0) != (got.HubsFrom != "") || len(got.Hubs) > MaxHubs {
			t.Errorf("%+v", got)
		}
		for _, s := range slices.Concat(got.Hubs, got.Feeds, []string{got.Self}) {
			if u, err := url.Parse(s); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
				t.Errorf("%q", s)
			}
		}
	})
}
