package source

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"resyncd/destination/rsdoc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// failer is what *testing.T and *rapid.T have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

const testBase = "http://source.example"

// scripted is a clock that stands still until it is told to move.
type scripted struct{ at time.Time }

func newScripted() *scripted { return &scripted{time.Date(2026, 5, 1, 2, 0, 0, 0, time.UTC)} }

func (c *scripted) now() time.Time          { return c.at }
func (c *scripted) forward(d time.Duration) { c.at = c.at.Add(d) }

func newSource(t failer, o Options) *Source {
	t.Helper()
	o.Base = cmp.Or(o.Base, testBase)
	s, err := New(context.Background(), o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return s
}

// ask is one request without a network; headers come in pairs.
func ask(s *Source, method, uri string, headers ...string) *http.Response {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, strings.TrimPrefix(uri, testBase), nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	s.Handler().ServeHTTP(w, r)
	return w.Result()
}

func get(t failer, s *Source, uri string) []byte {
	t.Helper()
	resp := ask(s, "GET", uri)
	b, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK || err != nil {
		t.Fatalf("GET %s: %s, %v", uri, resp.Status, err)
	}
	return b
}

func mustPut(t failer, s *Source, name, body string) {
	t.Helper()
	if err := s.Put(name, []byte(body)); err != nil {
		t.Fatalf("%v", err)
	}
}

// read reads a document with our own reader.
func read(t failer, body []byte) (rsdoc.Head, []rsdoc.Entry) {
	t.Helper()
	base, _ := url.Parse(testBase)
	r, err := rsdoc.OpenBytes(body, rsdoc.Options{Base: base})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	var entries []rsdoc.Entry
	for {
		e, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("read: %v\n%s", err, body)
		}
		c := *e
		c.Digests, c.Links = slices.Clone(e.Digests), slices.Clone(e.Links)
		for i, l := range c.Links {
			c.Links[i].Digests = slices.Clone(l.Digests)
		}
		entries = append(entries, c)
	}
	if n, first := r.Skipped(); n > 0 {
		t.Fatalf("%d entries skipped: %v", n, first)
	}
	head, err := r.Head()
	if err != nil {
		t.Fatalf("head: %v", err)
	}
	return *head, entries
}

// checkXML has encoding/xml agree that a document is XML, in the right namespaces and with at most one rs:md in each entry.
func checkXML(t failer, body []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(body))
	var stack []string
	mds := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, body)
		}
		switch token := token.(type) {
		case xml.StartElement:
			want := rsdoc.NamespaceSitemap
			if token.Name.Local == "md" || token.Name.Local == "ln" {
				want = rsdoc.NamespaceRS
			}
			if token.Name.Space != want {
				t.Fatalf("element %v in a wrong namespace", token.Name)
			}
			if len(stack) == 1 && want == rsdoc.NamespaceSitemap {
				mds = 0
			}
			if token.Name.Local == "md" {
				if mds++; mds > 1 {
					t.Fatalf("two rs:md in one element")
				}
			}
			stack = append(stack, token.Name.Local)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		}
	}
}

// changeLists reads every Change List that the Source publishes, oldest first, through index or alone.
func changeLists(t failer, s *Source) (heads []rsdoc.Head, entries [][]rsdoc.Entry) {
	t.Helper()
	_, capabilities := read(t, get(t, s, testBase+"/"+capabilityList))
	for _, c := range capabilities {
		if c.Capability != rsdoc.KindChangeList {
			continue
		}
		head, list := read(t, get(t, s, c.Loc))
		if head.Shape == rsdoc.List {
			return []rsdoc.Head{head}, [][]rsdoc.Entry{list}
		}
		for _, part := range list {
			head, list := read(t, get(t, s, part.Loc))
			heads, entries = append(heads, head), append(entries, list)
		}
	}
	return heads, entries
}

// listed reads the whole Resource List: URI and SHA-256.
func listed(t failer, s *Source) (at rsdoc.Micros, set map[string][32]byte) {
	t.Helper()
	head, entries := read(t, get(t, s, testBase+"/"+resourceList))
	set = map[string][32]byte{}
	add := func(entries []rsdoc.Entry) {
		for _, e := range entries {
			if _, twice := set[e.Loc]; twice {
				t.Fatalf("%s is listed twice", e.Loc)
			}
			set[e.Loc] = sha256Of(t, e)
		}
	}
	if head.Shape == rsdoc.List {
		add(entries)
		return head.At, set
	}
	for _, part := range entries {
		partHead, list := read(t, get(t, s, part.Loc))
		if partHead.At != head.At {
			t.Fatalf("a part is of %v, the index of %v", partHead.At, head.At)
		}
		add(list)
	}
	return head.At, set
}

func sha256Of(t failer, e rsdoc.Entry) (sum [32]byte) {
	t.Helper()
	for _, d := range e.Digests {
		if d.Alg == rsdoc.SHA256 {
			copy(sum[:], d.Sum[:])
			return sum
		}
	}
	t.Fatalf("%s has no SHA-256", e.Loc)
	return sum
}

func sumOf(body string) [32]byte { return sha256.Sum256([]byte(body)) }
