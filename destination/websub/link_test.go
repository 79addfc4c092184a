package websub

import (
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"resyncd/destination/fuzztest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mustURL(s string) *url.URL {
	u, err := url.Parse(s)
	if err != nil {
		panic(err)
	}
	return u
}

const page = "http://source.example/dir/page"

func link(target string, rels ...string) Link { return Link{Target: target, Rels: rels} }

func (l Link) with(params ...string) Link {
	l.Params = make(map[string]string)
	for i := 0; i+1 < len(params); i += 2 {
		l.Params[params[i]] = params[i+1]
	}
	return l
}

func (l Link) about(anchor string) Link { l.Anchor = anchor; return l }

func TestParseLinks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		values []string
		want   []Link
	}{
		// RFC 8288, section 3.5 and others
		"rfc: previous": {
			[]string{`<http://example.com/TheBook/chapter2>; rel="previous"; title="previous chapter"`},
			[]Link{link("http://example.com/TheBook/chapter2", "previous").with("title", "previous chapter")},
		},
		"rfc: extension relation": {
			[]string{`</>; rel="http://example.net/foo"`}, []Link{link("http://source.example/", "http://example.net/foo")},
		},
		"rfc: anchor": {
			[]string{`</terms>; rel="copyright"; anchor="#foo"`},
			[]Link{link("http://source.example/terms", "copyright").about(page + "#foo")},
		},
		"rfc: title* and two links": {
			[]string{`</TheBook/chapter2>; rel="previous"; title*=UTF-8'de'letztes%20Kapitel, </TheBook/chapter4>; rel="next"; title*=UTF-8'de'n%c3%a4chstes%20Kapitel`},
			[]Link{
				link("http://source.example/TheBook/chapter2", "previous").with("title*", "UTF-8'de'letztes%20Kapitel"),
				link("http://source.example/TheBook/chapter4", "next").with("title*", "UTF-8'de'n%c3%a4chstes%20Kapitel"),
			},
		},
		"rfc: two relations, one an extension": {
			[]string{`<http://example.org/>; rel="start http://example.net/relation/other"`},
			[]Link{link("http://example.org/", "start", "http://example.net/relation/other")},
		},
		"rfc: one field or two": {
			[]string{`<https://example.org/>; rel="start"`, `<https://example.org/index>; rel="index"`},
			[]Link{link("https://example.org/", "start"), link("https://example.org/index", "index")},
		},
		// S-09
		"combined":                    {[]string{`<https://hub.example/>; rel="hub", <http://t/>; rel="self"`}, []Link{link("https://hub.example/", "hub"), link("http://t/", "self")}},
		"unquoted":                    {[]string{`<http://h/>; rel=hub,<http://t/>;rel=self`}, []Link{link("http://h/", "hub"), link("http://t/", "self")}},
		"several tokens":              {[]string{`<http://h/>; rel="self  hub self"`}, []Link{link("http://h/", "self", "hub")}},
		"letter case":                 {[]string{`<http://H/X>; REL="HUB"; Type="A/B"`}, []Link{link("http://H/X", "hub").with("type", "A/B")}},
		"order of parameters":         {[]string{`<http://h/>; type="x;y,z"; foo; rel=hub; media=all`}, []Link{link("http://h/", "hub").with("type", "x;y,z", "foo", "", "media", "all")}},
		"commas in the target":        {[]string{`<https://hub.example/?a=1,2;b=3>; rel="hub"`}, []Link{link("https://hub.example/?a=1,2;b=3", "hub")}},
		"no semicolon":                {[]string{`<http://h/> rel="hub", <http://t/>rel=self`}, []Link{link("http://h/", "hub"), link("http://t/", "self")}},
		"blanks":                      {[]string{"  <  http://h/ \t> ;  rel = \"hub\" ; ; "}, []Link{link("http://h/", "hub")}},
		"empty elements":              {[]string{` , ,; <http://h/>; rel=hub, , `}, []Link{link("http://h/", "hub")}},
		"two hubs":                    {[]string{`<http://a/>; rel=hub, <http://b/>; rel=hub`}, []Link{link("http://a/", "hub"), link("http://b/", "hub")}},
		"a second rel is ignored":     {[]string{`<http://a/>; rel=self; rel=hub`}, []Link{link("http://a/", "self")}},
		"a first empty rel too":       {[]string{`<http://a/>; rel=""; rel=hub`}, nil},
		"single quotes":               {[]string{`<http://h/>; rel='hub self'; x=y`}, []Link{link("http://h/", "hub", "self").with("x", "y")}},
		"escapes":                     {[]string{`<http://h/>; title="a \"b\", <c>\\"; rel=hub`}, []Link{link("http://h/", "hub").with("title", `a "b", <c>\`)}},
		"relative":                    {[]string{`<../up?x=1>; rel=up, <>; rel=self, <//o/x>; rel=hub`}, []Link{link("http://source.example/up?x=1", "up"), link(page, "self"), link("http://o/x", "hub")}},
		"absolute is kept as written": {[]string{`<HTTP://Source.example:80/a/../%41|b>; rel=self`}, []Link{link("HTTP://Source.example:80/a/../%41|b", "self")}},
		"anchor of the page itself":   {[]string{`<http://h/>; rel=hub; anchor="page"`, `<http://i/>; anchor="http://source.example/dir/page"; rel=hub`}, []Link{link("http://h/", "hub"), link("http://i/", "hub")}},
		"anchor elsewhere":            {[]string{`<http://h/>; rel=hub; anchor="http://other.example/"`}, []Link{link("http://h/", "hub").about("http://other.example/")}},
		"anchor unreadable":           {[]string{`<http://h/>; rel=hub; anchor="http://[/"`}, nil},
		"no rel":                      {[]string{`<http://h/>; title=x, <http://i/>`}, nil},
		"not a link, then one":        {[]string{`http://h/; rel=hub, <http://t/>; rel=self`}, []Link{link("http://t/", "self")}},
		"target without end":          {[]string{`<http://h/; rel=hub`}, nil},
		"quote without end":           {[]string{`<http://h/>; rel=hub; title="abc, <http://t/>; rel=self`}, []Link{link("http://h/", "hub").with("title", "abc, <http://t/>; rel=self")}},
		"no URI, then one":            {[]string{"<http://[x/>; rel=hub, <http://a\x00b/>; rel=hub, <http://t/>; rel=hub"}, []Link{link("http://t/", "hub")}},
		"nothing":                     {[]string{"", ";", "=", "<", "<>", `"`, "<>;=;rel"}, nil},
	} {
		got := ParseLinks(tc.values, mustURL(page))
		if d := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestParseLinksWithoutBase(t *testing.T) {
	t.Parallel()
	got := ParseLinks([]string{`</x>; rel=self, <http://h/>; rel=hub, <http://i/>; rel=hub; anchor="http://j/"`}, nil)
	want := []Link{link("http://h/", "hub"), link("http://i/", "hub").about("http://j/")}
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	links := ParseLinks([]string{`<http://a/>; rel=hub, <http://b/>; rel="x hub", <http://a/>; rel=hub, <http://c/>; rel=hub; anchor="#x", <http://d/>; rel=self`}, mustURL(page))
	if d := cmp.Diff([]string{"http://a/", "http://b/"}, Targets(links, "hub")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestLinksAreBounded(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("<http://h/>; rel=hub,", 100_000)
	if n := len(ParseLinks([]string{many, many}, nil)); n != maxLinks {
		t.Errorf("%d links", n)
	}
	wide := "<http://h/>; rel=\"" + strings.Repeat("a1 b2 ", 10_000) + "\"" + strings.Repeat("; p=v", 10_000)
	if l := ParseLinks([]string{wide}, nil); len(l) != 1 || len(l[0].Rels) > maxRels || len(l[0].Params) > maxParams {
		t.Errorf("%d", len(l))
	}
	if l := ParseLinks([]string{"<http://h/" + strings.Repeat("x", maxURI) + ">; rel=hub"}, nil); len(l) != 0 {
		t.Error("a huge target is kept")
	}
}

func FuzzParseLinks(f *testing.F) {
	for _, s := range []string{
		`<http://h/?a=1,2>; rel="hub self"; title="a\"b", </x>;rel=up;anchor="#y"`, `<`, `<>`, `"`, `<a>;b='`, `<a>;rel=\`, "<\xff>;rel=\xff",
		`<http://h/> rel=hub`, `,;=`, `<a>;rel="`, `<a>;="x";rel=b`,
	} {
		f.Add(s)
	}
	base := mustURL(page)
	f.Fuzz(func(t *testing.T, value string) {
		fuzztest.Bound(t)
		for _, l := range ParseLinks([]string{value}, base) {
			u, err := url.Parse(l.Target)
			if err != nil || !u.IsAbs() || len(l.Rels) == 0 {
				t.Errorf("%q: %+v", value, l)
			}
		}
	})
}

func TestHTMLLinks(t *testing.T) {
	t.Parallel()
	hub, up := link("http://h/", "hub"), link("http://source.example/dir/x", "resourcesync")
	for name, tc := range map[string]struct {
		html string
		want []Link
	}{
		"plain":        {`<!doctype html><html><head><title>a <link rel=hub href=b></title><link rel=hub href="http://h/"><LINK REL="ResourceSync" HREF=x></head>`, []Link{hub, up}},
		"xhtml":        {"\ufeff<?xml version='1.0'?>\n<html xmlns='http://www.w3.org/1999/xhtml'>\n<head>\n<link rel='resourcesync' href='x' type='t'/>\n</head><body/></html>", []Link{up.with("type", "t")}},
		"no head tags": {`<title>x</title><meta charset=utf-8><link rel=hub href=http://h/><p>`, []Link{hub}},
		"body":         {`<head></head><body><link rel=hub href=http://h/>`, nil},
		"after head":   {`<head><title>x</title></head><link rel=hub href=http://h/>`, nil},
		"body implied": {`<head><p><link rel=hub href=http://h/></head>`, nil},
		"by text":      {`<head>hello <link rel=hub href=http://h/></head>`, nil},
		"by an entity": {`<head>&#x20; <link rel=hub href=http://h/></head>`, nil},
		"in a script":  {`<head><script>"<link rel=hub href=http://no/>"</script><style><link></style><link rel=hub href=http://h/></head>`, []Link{hub}},
		"in a comment": {`<head><!-- <link rel=hub href=http://no/> --><link rel=hub href=http://h/></head>`, []Link{hub}},
		"in noscript":  {`<head><noscript><link rel=hub href=http://no/></noscript><link rel=hub href=http://h/></head>`, []Link{hub}},
		"in template":  {`<head><template><template></template><p>x<link rel=hub href=http://no/></head><body></template><link rel=hub href=http://h/></head>`, []Link{hub}},
		"base":         {`<head><link rel=a href=y><base href="//b.example/c/"><base href=http://no/><link rel=b href="../z"></head>`, []Link{link("http://b.example/c/y", "a"), link("http://b.example/z", "b")}},
		"odd base":     {`<head><base href="http://[/"><link rel=resourcesync href=x>`, []Link{up}},
		"no href":      {`<head><link rel=hub><link rel=hub href=" "><link href=x><link rel=hub href=http://h/ href=http://no/ anchor="#z">`, []Link{hub}},
		"entities":     {`<head><link rel=hub href="http://h/?a=1&amp;b=2">`, []Link{link("http://h/?a=1&b=2", "hub")}},
		"nothing":      {``, nil},
		"torn":         {`<head><link rel=hub href=http://h/><link rel=hub hr`, []Link{hub}},
		"plain text":   {`just text <link rel=hub href=http://h/>`, nil},
	} {
		got, err := HTMLLinks(iotest.OneByteReader(strings.NewReader(tc.html)), mustURL(page))
		if d := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, d)
		}
	}
}

// endless is a head that never ends.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = "<link rel=x>"[(e.read+i)%12]
	}
	e.read += len(p)
	return len(p), nil
}

func TestHTMLLinksIsBounded(t *testing.T) {
	t.Parallel()
	e := &endless{}
	if _, err := HTMLLinks(e, nil); err != nil || e.read > 2*maxHead {
		t.Errorf("%v after %d bytes", err, e.read)
	}
	huge := io.MultiReader(strings.NewReader(`<link rel=hub href=http://h/><meta x="`), strings.NewReader(strings.Repeat("y", 1<<20)))
	if l, err := HTMLLinks(huge, nil); err != nil || len(l) != 1 {
		t.Errorf("a huge token: %v, %v", l, err)
	}
	styled := `<head><style>` + strings.Repeat("x{}", 100<<10) + `</style><script>` + strings.Repeat("y", 100<<10) + `</script><link rel=hub href=http://h/></head>`
	if l, err := HTMLLinks(strings.NewReader(styled), nil); err != nil || len(l) != 1 {
		t.Errorf("behind much style: %v, %v", l, err)
	}
	cut := errors.New("cut")
	l, err := HTMLLinks(io.MultiReader(strings.NewReader(`<link rel=hub href=http://h/>`), iotest.ErrReader(cut)), nil)
	if !errors.Is(err, cut) || len(l) != 1 {
		t.Errorf("%v, %v", l, err)
	}
}

func FuzzHTMLLinks(f *testing.F) {
	for _, s := range []string{`<head><link rel=a href=b><base href=c></head>`, `<template><link`, "<\x00", `<title><link>`, `<link rel rel href href=x>`} {
		f.Add(s)
	}
	base := mustURL(page)
	f.Fuzz(func(t *testing.T, page string) {
		fuzztest.Bound(t)
		links, err := HTMLLinks(strings.NewReader(page), base)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range links {
			if u, err := url.Parse(l.Target); err != nil || !u.IsAbs() || len(l.Rels) == 0 || l.Anchor != "" {
				t.Errorf("%q: %+v", page, l)
			}
		}
	})
}
