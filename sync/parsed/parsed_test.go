package parsed

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/rsdoc"
	"resyncd/store"
)

const hello = "sha-256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

// changes is a document of a capability with these entries.
func changes(capability, entries string) []byte {
	return []byte(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
 xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:md capability="` + capability + `"
 from="2026-01-02T03:00:00Z" until="2026-01-02T04:00:00Z"/>` + entries + `</urlset>`)
}

// entry is one of them.
func entry(name, change string) string {
	return fmt.Sprintf(`<url><loc>http://lib.example/%s</loc>
<rs:md change="%s" datetime="2026-01-02T03:30:00Z" hash="%s" length="5" type="text/plain"/>
<rs:ln rel="alternate" href="http://lib.example/%s.old" pri="2"/></url>`, name, change, hello, name)
}

// TestNotice: what is read to its end proves its interval, what is not read to its end proves nothing, and what is no
// list of changes is not usable.
func TestNotice(t *testing.T) {
	t.Parallel()
	whole := changes("changelist", entry("a", "updated")+entry("b", "deleted"))
	for name, tc := range map[string]struct {
		body           []byte
		n              int
		usable, proves bool
	}{
		"whole":               {whole, 2, true, true},
		"cut":                 {whole[:len(whole)-20], 1, true, false},
		"nothing":             {[]byte("hello"), 0, false, false},
		"a list of resources": {changes("resourcelist", ""), 0, false, true},
	} {
		var got []Change
		n, err := ReadNotice(tc.body, rsdoc.KindChangeNotification, func(e *rsdoc.Entry) error {
			got = append(got, Selection{}.ChangeOf(e))
			return nil
		})
		_, proves := n.Interval()
		usable := n.Usable() && (n.Err == nil || n.N > 0) // of what was not read at all the root is not known
		if err != nil || len(got) < tc.n || n.Err == nil != proves || usable != tc.usable || proves != tc.proves {
			t.Errorf("%s: %+v, %+v, %v", name, n, got, err)
		}
	}
	failed := errors.New("enough")
	failing := func(*rsdoc.Entry) error { return failed }
	if _, err := ReadNotice(whole, rsdoc.KindChangeNotification, failing); !errors.Is(err, failed) {
		t.Error(err)
	}
}

// TestChange: an entry keeps its URI, its state and what it says of the bytes.
func TestChange(t *testing.T) {
	t.Parallel()
	var got []Change
	body := changes("changelist", entry("a", "updated")+entry("b", "deleted"))
	_, err := ReadNotice(body, rsdoc.KindChangeNotification, func(e *rsdoc.Entry) error {
		if a := Announced(e); a.URI != e.Loc || a.Digests != hello || !a.Datetime.Known() {
			t.Errorf("%+v", a)
		}
		got = append(got, Selection{}.ChangeOf(e))
		return nil
	})
	if err != nil || len(got) != 2 || got[0].Cand.State != store.WantPresent || got[1].Cand.State != store.WantAbsent {
		t.Fatalf("%+v, %v", got, err)
	}
	c := got[0]
	known := c.Stamp.Datetime.Known()
	if c.URI != "http://lib.example/a" || c.Fault || !known || c.Cand.Length != 5 || c.Cand.Type != "text/plain" {
		t.Errorf("%+v", c)
	}
	if d, ok := Strongest(c.Cand.Digests + " md5:00"); !ok || d.String() != hello {
		t.Errorf("%q: %v, %t", c.Cand.Digests, d, ok)
	}
	if _, ok := Strongest(""); ok {
		t.Error("a digest of nothing")
	}
	want := []Link{{Rel: "alternate", Href: "http://lib.example/a.old", Pri: 2}}
	if links := ParseLinks(c.Cand.Links); !slices.Equal(links, want) {
		t.Errorf("%+v", links)
	}
}

// TestLinks: a row keeps so many links, and reads what it does not know as none.
func TestLinks(t *testing.T) {
	t.Parallel()
	many := make([]rsdoc.Link, MaxLinks+5)
	for i := range many {
		many[i] = rsdoc.NewLink("x", strings.Repeat("y", i))
	}
	kept := ParseLinks(linkString(many))
	if len(kept) != MaxLinks || kept[1] != (Link{Rel: "x", Href: "y"}) {
		t.Errorf("%+v", kept)
	}
	if JoinLinks(nil) != "" || ParseLinks("") != nil || ParseLinks("{") != nil {
		t.Error("nothing is something")
	}
}

// TestRowLinks holds what a row keeps of each kind of link to a golden, and that rows of earlier versions read on.
func TestRowLinks(t *testing.T) {
	t.Parallel()
	body := changes("changelist", `<url><loc>http://lib.example/a</loc><rs:md change="updated" datetime="2026-01-02T03:30:00Z"/>
<rs:ln rel="collection" href="urn:books"/>
<rs:ln rel="duplicate" pri="1" href="http://cdn.example/a" modified="2026-01-02T05:00:00+02:00" hash="`+hello+`" length="5" path="/x"/>
<rs:ln rel="describedby" href="http://lib.example/a.dc" type="application/xml" profile=" http://purl.org/dc/ " modified="soon"/>
<rs:ln rel="http://www.openarchives.org/rs/terms/patch" href="http://lib.example/a.patch" type="application/json-patch"
 hash="md5:5d41402abc4b2a76b9719d911017c592 `+hello+`" length="73" path="/p/a.patch"/>
<rs:ln rel="via" href="http://lib.example/via" length="9"/></url>`)
	want := `[{"rel":"collection","href":"urn:books"},` +
		`{"rel":"duplicate","href":"http://cdn.example/a","pri":1,"modified":"2026-01-02T03:00:00Z"},` +
		`{"rel":"describedby","href":"http://lib.example/a.dc","type":"application/xml","profile":"http://purl.org/dc/"},` +
		`{"rel":"http://www.openarchives.org/rs/terms/patch","href":"http://lib.example/a.patch","type":"application/json-patch",` +
		`"hash":"` + hello + ` md5:5d41402abc4b2a76b9719d911017c592","length":73,"path":"/p/a.patch"},` +
		`{"rel":"via","href":"http://lib.example/via"}]`
	_, err := ReadNotice(body, rsdoc.KindChangeNotification, func(e *rsdoc.Entry) error {
		c := Selection{}.ChangeOf(e)
		if diff := cmp.Diff(want, c.Cand.Links); diff != "" {
			t.Errorf("(-want +kept):\n%s", diff)
		}
		if JoinLinks(ParseLinks(want)) != want {
			t.Error("links do not read back")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	old := ParseLinks(`[{"rel":"duplicate","href":"http://cdn.example/a","pri":1,"type":"text/plain"}]`)
	if len(old) != 1 || old[0] != (Link{Rel: "duplicate", Href: "http://cdn.example/a", Pri: 1, Type: "text/plain"}) {
		t.Errorf("%+v", old)
	}
}

// TestSelection: all choices by the links of an entry, of which a deletion needs none.
func TestSelection(t *testing.T) {
	t.Parallel()
	links := map[string][]rsdoc.Link{
		"plain": nil,
		"books": {rsdoc.NewLink("Collection", "urn:books")},
		"maps":  {rsdoc.NewLink("up", "urn:books"), rsdoc.NewLink("collection", "urn:maps")},
		"meta":  {rsdoc.NewLink("describes", "http://lib.example/a"), rsdoc.NewLink("collection", "urn:books")},
	}
	for name, tc := range map[string]struct {
		s    Selection
		kept string
	}{
		"everything":    {Selection{}, "books maps meta plain"},
		"with":          {Selection{Metadata: "with"}, "books maps meta plain"},
		"one":           {Selection{Collections: []string{"urn:books"}}, "books meta"},
		"two":           {Selection{Collections: []string{"urn:maps", "urn:books"}}, "books maps meta"},
		"none such":     {Selection{Collections: []string{"urn:book"}}, ""},
		"only metadata": {Selection{Metadata: "only"}, "meta"},
		"no metadata":   {Selection{Metadata: "without"}, "books maps plain"},
		"both":          {Selection{Metadata: "without", Collections: []string{"urn:books"}}, "books"},
	} {
		var kept []string
		for what, l := range links {
			e := &rsdoc.Entry{Loc: "http://lib.example/" + what, Change: rsdoc.ChangeUpdated, Links: l}
			c := tc.s.ChangeOf(e)
			if !c.Cand.Left {
				kept = append(kept, what)
			}
			if c.Cand.Left != (c.Cand.State == store.WantAbsent) || c.Stamp.Deleted || tc.s.ContentOf(e).Left != c.Cand.Left {
				t.Errorf("%s, %s: %+v", name, what, c)
			}
			if e.Change = rsdoc.ChangeDeleted; tc.s.ChangeOf(e).Cand.Left || tc.s.ChangeOf(e).Cand.State != store.WantAbsent {
				t.Errorf("%s: the deletion of %s does not count", name, what)
			}
		}
		if slices.Sort(kept); strings.Join(kept, " ") != tc.kept {
			t.Errorf("%s: %q, want %q", name, kept, tc.kept)
		}
	}
	if (Selection{Metadata: "with"}).Digest() != "" || (Selection{}).Digest() != "" {
		t.Error("everything has a digest: existing mirrors would take a baseline")
	}
	a, b := Selection{Collections: []string{"urn:a", "urn:b"}}, Selection{Collections: []string{"urn:b", "urn:a"}, Metadata: "with"}
	c := Selection{Collections: []string{"urn:a", "urn:b"}, Metadata: "only"}
	if a.Digest() != b.Digest() || a.Digest() == "" || a.Digest() == c.Digest() || a.Collections[0] != "urn:a" || b.Collections[0] != "urn:b" {
		t.Errorf("%s %s %s", a.Digest(), b.Digest(), c.Digest())
	}
}

// TestLasting: a Last-Modified of this very moment makes no request conditional, nor does the ETag beside it.
func TestLasting(t *testing.T) {
	t.Parallel()
	const date = "Sun, 06 Nov 1994 08:49:37 GMT"
	at, ok := HTTPTime(date)
	if !ok {
		t.Fatal(date)
	}
	for _, tc := range []struct {
		modified string
		answered store.Micros
		lasts    bool
	}{
		{date, at + WeakFor, true}, {date, at + WeakFor - 1, false}, {date, store.NoTime, false},
		{"", at, true}, {"soon", at, true},
	} {
		etag, modified := Lasting(`"1"`, tc.modified, tc.answered)
		if lasts := etag != ""; lasts != tc.lasts || lasts && modified != tc.modified {
			t.Errorf("%+v: %q, %q", tc, etag, modified)
		}
	}
}
