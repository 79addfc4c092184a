package transfer

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"resyncd/destination/fetch"
	"resyncd/store"
	"resyncd/sync/parsed"
)

// TestDuplicates: they are tried in their order, as the means say, and their bytes are taken only if a digest proves them.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	const right = "the bytes"
	serves := map[string]string{"/right": right, "/wrong": "no bytes!", "/long": right + right, "/also": right}
	type link = parsed.Link
	for name, tc := range map[string]struct {
		means, path string // of the resource itself
		links       []link
		change      func(*carried, *store.Resource)
		via         via
		asked       string
	}{
		"not needed":        {"fallback", "/right", []link{{Href: "/also"}}, nil, viaSource, "/right"},
		"preferred":         {"prefer", "/right", []link{{Href: "/also"}}, nil, viaDuplicate, "/also"},
		"off":               {"off", "/none", []link{{Href: "/also"}}, nil, viaNothing, "/none"},
		"not set":           {"", "/none", []link{{Href: "/also"}}, nil, viaNothing, "/none"},
		"gone":              {"fallback", "/none", []link{{Href: "/also"}}, nil, viaDuplicate, "/none /also"},
		"a wrong body":      {"fallback", "/wrong", []link{{Href: "/also"}}, nil, viaDuplicate, "/wrong /also"},
		"a long body":       {"fallback", "/long", []link{{Href: "/also"}}, nil, viaDuplicate, "/long /also"},
		"preferred, wrong":  {"prefer", "/right", []link{{Href: "/wrong"}}, nil, viaSource, "/wrong /right"},
		"preferred, long":   {"prefer", "/right", []link{{Href: "/long"}}, nil, viaSource, "/long /right"},
		"preferred, none":   {"prefer", "/none", []link{{Href: "/wrong"}}, nil, viaNothing, "/wrong /none"},
		"in order":          {"prefer", "/none", []link{{Href: "/also"}, {Href: "/wrong", Pri: 2}, {Href: "/long", Pri: 1}}, nil, viaDuplicate, "/long /wrong /also"},
		"at most a few":     {"prefer", "/right", []link{{Href: "/1"}, {Href: "/2"}, {Href: "/3"}, {Href: "/also"}}, nil, viaSource, "/1 /2 /3 /right"},
		"none twice":        {"prefer", "/none", []link{{Href: "/1"}, {Href: "/2"}}, nil, viaNothing, "/1 /2 /none"},
		"of another scheme": {"prefer", "/right", []link{{Href: "gsiftp://lib.example/a", Pri: 1}, {Href: "ftp:/also"}}, nil, viaSource, "/right"},
		"itself":            {"fallback", "/none", []link{{Href: "/none"}}, nil, viaNothing, "/none"},
		"another relation":  {"fallback", "/none", []link{{Href: "/also", Rel: "alternate"}}, nil, viaNothing, "/none"},
		"no digest": {"prefer", "/right", []link{{Href: "/also"}}, func(_ *carried, r *store.Resource) {
			r.Wants[0].Digests = ""
		}, viaSource, "/right"},
		"the Source decides": {"fallback", "/none", []link{{Href: "/also"}}, func(_ *carried, r *store.Resource) {
			r.Wants[0].State, r.Wants[0].Digests, r.Wants[0].Length = store.WantAsk, "", -1
		}, viaNothing, "/none"},
		"beyond the scope": {"fallback", "/right", []link{{Href: "/also"}}, func(c *carried, _ *store.Resource) {
			c.s.Rule = func(int64) func(string) string { return func(string) string { return "beyond" } }
		}, viaNothing, ""},
		"only the duplicate is beyond": {"prefer", "/right", []link{{Href: "/also"}}, func(c *carried, r *store.Resource) {
			c.s.Rule = func(int64) func(string) string {
				return func(uri string) string { return strings.TrimPrefix(uri, r.URI) }
			}
		}, viaDuplicate, "/also"},
		"in capitals": {"fallback", "/none", []link{{Rel: "Duplicate", Href: "/also"}}, nil, viaDuplicate, "/none /also"},
		"too large": {"fallback", "/none", []link{{Href: "/also"}}, func(c *carried, _ *store.Resource) {
			c.s.Means.MaxResource = 4
		}, viaNothing, "/none /also"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := carrying(t, serves)
			c.s.Means.Duplicates = tc.means
			r := c.row(1, tc.path, right)
			for i := range tc.links {
				l := &tc.links[i]
				if l.Rel == "" {
					l.Rel = "duplicate"
				}
				if l.Href[0] == '/' {
					l.Href = c.srv.URL + l.Href
				}
			}
			r.Wants[0].Links = parsed.JoinLinks(tc.links)
			if tc.change != nil {
				tc.change(c, r)
			}
			o, got := c.work(r)
			if asked := c.asked(); asked != tc.asked {
				t.Errorf("asked for %q, not for %q", asked, tc.asked)
			}
			if tc.via == viaNothing {
				if o.there() {
					t.Errorf("%v via %v: %q", o.verdict, o.via, got)
				}
			} else if o.verdict != verdictFetched || got != right || o.via != tc.via {
				t.Errorf("%v via %v: %q, %v", o.verdict, o.via, got, o.failure)
			}
			if own := o.have.ETag != "" || o.have.LastModified != ""; own != (o.via == viaSource) {
				t.Errorf("via %v learnt %+v", o.via, o.have)
			}
			if name == "preferred, none" && o.failure.class != fetch.Gone.String() {
				t.Errorf("failed by %v, which is not the Source's own answer", o.failure)
			}
		})
	}
}

// TestDuplicateIsAStranger: what is for the Source only does not go to the host of a duplicate, nor does that of a resource at an
// address that may not be dialled.
func TestDuplicateIsAStranger(t *testing.T) {
	t.Parallel()
	c := carrying(t, nil)
	told := make(chan string, 1)
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told <- r.Header.Get("Authorization")
		_, _ = w.Write([]byte("x"))
	}))
	defer far.Close()
	at, err := url.Parse(far.URL)
	if err != nil {
		t.Fatal(err)
	}
	c.s.Means.Duplicates = "fallback"
	r := c.row(1, "/a", "x")
	r.Wants[0].Links = parsed.JoinLinks([]parsed.Link{{Rel: "duplicate", Href: far.URL + "/b"}})
	c.s.Means.Policy.Auth, c.s.Means.Policy.AuthOrigin = &fetch.Auth{Bearer: "secret"}, c.srv.URL
	if o, _ := c.work(r); o.verdict != verdictFailed || len(told) > 0 {
		t.Errorf("an address of this machine was dialled: %v", o.verdict)
	}
	c.s.Means.Policy.Trusted = append(c.s.Means.Policy.Trusted, at.Host)
	if o, got := c.work(r); o.via != viaDuplicate || got != "x" {
		t.Fatalf("%v via %v, %v", o.verdict, o.via, o.failure)
	}
	if auth := <-told; auth != "" {
		t.Errorf("it was sent %q", auth)
	}
}

// TestHangingDuplicate: a resource that was set aside because its preferred duplicate hangs is asked for where the Source has it.
func TestHangingDuplicate(t *testing.T) {
	t.Parallel()
	c := carrying(t, map[string]string{"/a": "x", "/b": "x"})
	c.s.Means.Duplicates = "prefer"
	r := c.row(1, "/a", "x")
	r.Wants[0].Links = parsed.JoinLinks([]parsed.Link{{Rel: "duplicate", Href: c.srv.URL + "/b"}})
	var as attempts
	a := as.begin(t.Context(), r, false)
	a.cancel(errAside)
	if o := c.Reconciler.work(t.Context(), a); !o.aside || o.verdict != verdictFailed {
		t.Errorf("%v, aside %v: %v", o.verdict, o.aside, o.failure)
	}
	if o := c.Reconciler.work(t.Context(), as.begin(t.Context(), r, true)); o.via != viaSource {
		t.Errorf("%v via %v, %v", o.verdict, o.via, o.failure)
	}
	if asked := c.asked(); asked != "/a" {
		t.Errorf("asked for %q", asked)
	}
}
