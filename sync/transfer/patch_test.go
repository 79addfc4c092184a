package transfer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"resyncd/destination/fuzztest"
	"resyncd/destination/rsdoc"
	"resyncd/destination/rspack"
	"resyncd/destination/safe"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/parsed"
)

const (
	older     = `{"b":1,"a":"<x>"}`
	newer     = `{"a":"<x>","b":2.50,"c":[1,3]}`
	goodPatch = `[{"op":"replace","path":"/b","value":2.50},{"op":"add","path":"/c","value":[1, 3]}]`
)

// panics is a patch at which the module does.
const panics = `[{"op":"test","path":""}]`

// holds puts a resource's bytes into the mirror.
func (c *carried) holds(r *store.Resource, body string) {
	c.t.Helper()
	stage, err := c.s.Mirror.NewStage(c.t.Context())
	if err == nil {
		_, err = stage.Write([]byte(body))
	}
	if err != nil {
		c.t.Fatal(err)
	}
	if errs, err := c.s.Mirror.Place(c.t.Context(), []blob.Placement{{Stage: stage, Key: r.Key}}); errs[0] != nil || err != nil {
		c.t.Fatal(errs, err)
	}
	b := newBody(&buffer{}, "")
	_, _ = b.Write([]byte(body))
	r.Have = store.Have{State: store.HavePresent, SHA256: b.sum(), Length: b.n, Checked: sha(body)}
}

// TestPatch: a patch is applied to a copy that is known to be right, and taken only if its result is proven; else it costs a GET.
func TestPatch(t *testing.T) {
	t.Parallel()
	type given struct {
		c    *carried
		r    *store.Resource
		w    *store.Want
		link *parsed.Link
	}
	for name, tc := range map[string]struct {
		change func(g given)
		patch  string
		via    via
		asked  string
	}{
		"right":             {nil, "", viaPatch, "/p"},
		"by its old name":   {func(g given) { g.link.Type = "application/json-patch; charset=utf-8" }, "", viaPatch, "/p"},
		"its length":        {func(g given) { g.link.Length = int64(len(goodPatch)) }, "", viaPatch, "/p"},
		"its digest":        {func(g given) { g.link.Hash = md5of(goodPatch) }, "", viaPatch, "/p"},
		"a wrong length":    {func(g given) { g.link.Length = 5 }, "", viaSource, "/p /a"},
		"a wrong digest":    {func(g given) { g.link.Hash = sha("x") }, "", viaSource, "/p /a"},
		"off":               {func(g given) { g.c.s.Means.Patches = false }, "", viaSource, "/a"},
		"no digest":         {func(g given) { g.w.Digests = "" }, "", viaSource, "/a"},
		"another type":      {func(g given) { g.link.Type = "application/xml-patch+xml" }, "", viaSource, "/a"},
		"no copy":           {func(g given) { g.r.Have = store.Have{} }, "", viaSource, "/a"},
		"a copy unchecked":  {func(g given) { g.r.Have.Checked = "" }, "", viaSource, "/a"},
		"a copy in doubt":   {func(g given) { g.c.s.Doubt(1) }, "", viaSource, "/a"},
		"a spoilt copy":     {func(g given) { h := g.r.Have; g.c.holds(g.r, `{"b":2}`); g.r.Have = h }, "", viaSource, "/a"},
		"an older copy":     {func(g given) { g.c.holds(g.r, `{"b":1,"a":0}`) }, "", viaSource, "/p /a"},
		"a copy too large":  {func(g given) { g.r.Have.Length = patchMost + 1 }, "", viaSource, "/a"},
		"no patch there":    {func(g given) { g.link.Href += "x" }, "", viaSource, "/px /a"},
		"beyond the scope":  {func(g given) { g.link.Href = "http://far.example/p" }, "", viaSource, "/a"},
		"no JSON":           {nil, "hello", viaSource, "/p /a"},
		"no operations":     {nil, "[]", viaSource, "/p /a"},
		"does not apply":    {nil, `[{"op":"remove","path":"/z"}]`, viaSource, "/p /a"},
		"another result":    {nil, `[{"op":"replace","path":"/b","value":3}]`, viaSource, "/p /a"},
		"a test that fails": {nil, `[{"op":"test","path":"/b","value":7},` + goodPatch[1:], viaSource, "/p /a"},
		"a panic":           {nil, panics, viaSource, "/p /a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.patch == "" {
				tc.patch = goodPatch
			}
			c := carrying(t, map[string]string{"/a": newer, "/p": tc.patch})
			c.s.Means.Patches = true
			c.s.Rule = func(int64) func(string) string {
				return func(uri string) string {
					if strings.HasPrefix(uri, c.srv.URL) {
						return ""
					}
					return "beyond"
				}
			}
			r := c.row(1, "/a", newer)
			c.holds(r, older)
			link := parsed.Link{Rel: rsdoc.RelPatch, Href: c.srv.URL + "/p", Type: "application/json-patch+json"}
			if tc.change != nil {
				tc.change(given{c, r, &r.Wants[0], &link})
			}
			r.Wants[0].Links = parsed.JoinLinks([]parsed.Link{{Rel: "up", Href: "x"}, link})
			o, got := c.work(r)
			if asked := c.asked(); o.verdict != verdictFetched || got != newer || o.via != tc.via || asked != tc.asked {
				t.Errorf("%v via %v: %q, asked for %q, %v", o.verdict, o.via, got, asked, o.failure)
			}
		})
	}
}

// TestPatchInPackage: a patch may be a member itself; a whole member is taken before it.
func TestPatchInPackage(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		whole, patch string
		via          via
		warns        string
	}{
		"only a patch":    {"", goodPatch, viaPatch, ""},
		"a wrong patch":   {"", "[]", viaSource, "members=1"},
		"both":            {newer, "[]", viaPackage, ""},
		"a wrong member":  {older, goodPatch, viaPatch, "members=1"},
		"both are wrong":  {older, "[]", viaSource, "members=2"},
		"a patch, no ZIP": {"", "", viaSource, "members=1"},
	} {
		c := carrying(t, map[string]string{"/a": newer, "/p": goodPatch})
		c.s.Means.Patches = true
		r := c.row(1, "/a", newer)
		c.holds(r, older)
		members := map[string]string{"p": tc.patch, "a": tc.whole}
		p, _ := c.packaged(members, func(b []byte) {
			if tc.patch == "" {
				clear(b[:bytes.Index(b, []byte("PK\x01\x02"))])
			}
		})
		offer := c.offer(p, "p", newer)
		offer.Patch = offer.Member
		if offer.Member = (c.offer(p, "a", "").Member); tc.whole == "" {
			offer.Member = rspack.Member{}
		}
		offer.Length = -1
		c.s.Offer(1, offer)
		p.Seal()
		o, got := c.work(r)
		c.s.end(r)
		if o.verdict != verdictFetched || got != newer || o.via != tc.via || (c.asked() == "/a") != (tc.via == viaSource) {
			t.Errorf("%s: %v via %v: %q, %v", name, o.verdict, o.via, got, o.failure)
		}
		if told := c.log.String(); !isDone(p) || !strings.Contains(told, tc.warns) || tc.warns == "" && told != "" {
			t.Errorf("%s: told %s", name, told)
		}
	}
}

// TestPatchesTakeTurns: one is applied at a time, and one that waits for its turn can be broken off.
func TestPatchesTakeTurns(t *testing.T) {
	t.Parallel()
	c := carrying(t, map[string]string{"/a": newer})
	c.s.Means.Patches = true
	r := c.row(1, "/a", newer)
	c.holds(r, older)
	p, _ := c.packaged(map[string]string{"p": goodPatch})
	offer := c.offer(p, "p", newer)
	offer.Patch, offer.Member = offer.Member, rspack.Member{}
	c.s.Offer(1, offer)
	c.patching <- struct{}{}
	a := new(attempts).begin(t.Context(), r, false)
	a.cancel(errAside)
	if o := c.Reconciler.work(t.Context(), a); !o.aside || c.asked() != "" {
		t.Errorf("%v via %v beside another patch, %v", o.verdict, o.via, o.failure)
	}
	<-c.patching
	if o, got := c.work(r); o.via != viaPatch || got != newer || len(c.patching) > 0 {
		t.Errorf("%v via %v: %q, %v", o.verdict, o.via, got, o.failure)
	}
}

// TestPatchForm: the result is compact with sorted keys, its numbers as they were written.
func TestPatchForm(t *testing.T) {
	t.Parallel()
	for _, tc := range [][3]string{
		{" {\"z\" : 1.0e2, \"a\":{\"c\":1,\"b\":[ ]}}\n", `[]`, `{"a":{"b":[],"c":1},"z":1.0e2}`},
		{`{"a":1}`, `[{"op":"add","path":"/k~1&<","value":12345678901234567890}]`, `{"a":1,"k/&<":12345678901234567890}`},
		{` [1,2]`, `[{"op":"add","path":"/-","value":{"b":null,"a":0}}]`, `[1,2,{"a":0,"b":null}]`},
		{`{"a":1}`, `[{"op":"replace","path":"","value":[3]}]`, `[3]`},
		{`{"a":"x"}`, `[{"op":"copy","from":"/a","path":"/b"},{"op":"move","from":"/a","path":"/c"}]`, `{"b":"x","c":"x"}`},
		{`{"a":"é\u00e9"}`, `[{"op":"test","path":"/a","value":"éé"}]`, `{"a":"éé"}`},
	} {
		if got, err := applyPatch([]byte(tc[0]), []byte(tc[1])); err != nil || string(got) != tc[2] {
			t.Errorf("%s with %s: %s, %v, want %s", tc[0], tc[1], got, err, tc[2])
		}
	}
}

// TestPatchPanics: it stands for any bug in what reads a patch.
func TestPatchPanics(t *testing.T) {
	t.Parallel()
	err := safe.Do(func() error {
		_, err := applyPatch([]byte(older), []byte(panics))
		return err
	})
	if _, ok := errors.AsType[*safe.PanicError](err); !ok {
		t.Errorf("no panic: %v; TestPatch needs another one", err)
	}
}

// deep is a JSON text that nests so deep.
func deep(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }

// TestPatchIsBounded: what would take the stack, the memory or a core for long is refused.
func TestPatchIsBounded(t *testing.T) {
	t.Parallel()
	doubled := `{"a":[` + strings.Repeat(`{"op":"copy","from":"/a","path":"/a/x"},`, 50)
	var nests, doubles []string
	for range 20_000 { // each puts all that there is below a new chain
		nests = append(nests, `{"op":"add","path":"/b","value":`+deep(90)+`},{"op":"move","from":"/a","path":"/b`+strings.Repeat("/a", 90)+
			`"},{"op":"move","from":"/b","path":"/a"}`)
	}
	for i := range 60 {
		doubles = append(doubles, fmt.Sprintf(`{"op":"copy","from":"/a","path":"/a/%d"}`, i))
	}
	for name, tc := range map[string][2]string{
		"nested by moves":   {deep(10), "[" + strings.Join(nests, ",") + "]"},
		"a deep document":   {deep(100_000), `[]`},
		"a deep patch":      {deep(10), `[{"op":"add","path":"/a","value":` + deep(100_000) + `}]`},
		"a long path":       {deep(9_000), `[{"op":"remove","path":"` + strings.Repeat("/a", 9_000) + `"}]`},
		"doubled by copies": {`{"a":{"x":"` + strings.Repeat("x", 1000) + `"}}`, "[" + strings.Join(doubles, ",") + "]"},
		"many values":       {"[" + strings.Repeat("0,", patchParts) + "0]", `[]`},
		"many operations":   {`{"a":"` + strings.Repeat("x", 1<<20) + `"}`, "[" + strings.Repeat(`{"op":"test","path":"/a","value":1},`, 10_000) + `{"op":"test","path":"/a","value":1}]`},
		"a far index":       {`[]`, `[{"op":"add","path":"/99999999","value":1}]`},
		"no such thing":     {doubled, doubled},
	} {
		began := time.Now()
		if got, err := applyPatch([]byte(tc[0]), []byte(tc[1])); err == nil {
			t.Errorf("%s: %d bytes", name, len(got))
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s took %s", name, took)
		}
	}
}

// FuzzPatch: whatever a Source sends, the result is bounded and in its one form, and a panic costs the patch only.
func FuzzPatch(f *testing.F) {
	f.Add(older, goodPatch)
	f.Add(`[1,[2]]`, `[{"op":"move","from":"/1/0","path":"/0"},{"op":"copy","from":"","path":"/-"}]`)
	f.Add(`{"":{"":1}}`, `[{"op":"copy","from":"/","path":"//x"},{"op":"test","path":"","value":null}]`)
	f.Add(`"x"`, `[{"op":"replace","path":"","value":null}]`)
	f.Add(deep(50), `[{"op":"add","path":"/a/a","value":`+deep(50)+`}]`)
	f.Fuzz(func(t *testing.T, doc, patch string) {
		fuzztest.Bound(t)
		var got []byte
		if safe.Do(func() (err error) {
			got, err = applyPatch([]byte(doc), []byte(patch))
			return err
		}) != nil {
			return
		}
		if most := 8 * (len(doc) + len(patch) + patchRoom); len(got) > most {
			t.Errorf("%d bytes", len(got))
		}
		if again, err := applyPatch(got, []byte("[]")); err == nil && !bytes.Equal(got, again) || !json.Valid(got) {
			t.Errorf("%s is not in its form, but %s, %v", got, again, err)
		}
	})
}

// FuzzShape: values and depth are those that a decoder meets.
func FuzzShape(f *testing.F) {
	f.Add(older)
	f.Add(`["\\\"",{"a":[{},"]"]}]`)
	f.Add(`"[[["`)
	f.Fuzz(func(t *testing.T, text string) {
		fuzztest.Bound(t)
		var v any
		if json.Unmarshal([]byte(text), &v) != nil {
			return
		}
		var values, depth func(v any) int
		values = func(v any) (n int) {
			switch x := v.(type) {
			case []any:
				for _, e := range x {
					n += values(e)
				}
				return n + 1
			case map[string]any:
				for _, e := range x {
					n += values(e)
				}
				return n + 1
			}
			return 1
		}
		depth = func(v any) (n int) {
			switch x := v.(type) {
			case []any:
				for _, e := range x {
					n = max(n, depth(e))
				}
				return n + 1
			case map[string]any:
				for _, e := range x {
					n = max(n, depth(e))
				}
				return n + 1
			}
			return 0
		}
		// A repeated key is one value less. The first value of a list needs no comma, an empty one has none.
		parts, deepest := shape([]byte(text))
		if 2*parts+1 < values(v) || deepest < depth(v) {
			t.Errorf("%q: %d values, %d deep, counted %d and %d", text, values(v), depth(v), parts, deepest)
		}
	})
}
