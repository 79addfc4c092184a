package source

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/rsdoc"
)

// related writes the links of entries, as "uri rel href", with the pri where there is one.
func related(entries []rsdoc.Entry) (out []string) {
	for _, e := range entries {
		line := strings.TrimPrefix(e.Loc, testBase)
		for _, l := range e.Links {
			line += " " + l.Rel + " " + l.Href
			if l.Pri < 999_999 {
				line += fmt.Sprint(" ", l.Pri)
			}
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// TestRelatedResources: links are the same in Resource Lists, Change Lists, notifications and manifests.
func TestRelatedResources(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		options Options
		want    []string // of a, x y/b&c and x y/z/d; then of the deleted x y/gone and gone
	}{
		{Options{}, []string{"/a", "/x%20y/b%26c", "/x%20y/z/d", "/gone", "/x%20y/gone"}},
		{Options{Duplicate: "https://cdn.example/copy/"}, []string{
			"/a duplicate https://cdn.example/copy/a 1", "/x%20y/b%26c duplicate https://cdn.example/copy/x%20y/b%26c 1",
			"/x%20y/z/d duplicate https://cdn.example/copy/x%20y/z/d 1", "/gone", "/x%20y/gone",
		}},
		{Options{Collections: true}, []string{
			"/a", "/x%20y/b%26c collection http://source.example/x%20y/", "/x%20y/z/d collection http://source.example/x%20y/",
			"/gone", "/x%20y/gone collection http://source.example/x%20y/",
		}},
		{Options{Duplicate: "http://127.0.0.1:1", Collections: true, Spec: "1.0"}, []string{
			"/a duplicate http://127.0.0.1:1/a 1",
			"/x%20y/b%26c duplicate http://127.0.0.1:1/x%20y/b%26c 1 collection http://source.example/x%20y/",
			"/x%20y/z/d duplicate http://127.0.0.1:1/x%20y/z/d 1 collection http://source.example/x%20y/",
			"/gone", "/x%20y/gone collection http://source.example/x%20y/",
		}},
	} {
		c.options.Batch, c.options.Dumps = true, true
		s := scriptedSource(t, c.options, &script{})
		defer s.Close()
		var uris []string
		for _, name := range []string{"a", "x y/b&c", "x y/z/d"} {
			mustPut(t, s, name, "1")
			uris = append(uris, s.URI(name))
		}
		check := func(what string, document []byte, want []string) {
			t.Helper()
			checkXML(t, document)
			_, entries := read(t, document)
			want = slices.Sorted(slices.Values(want))
			if diff := cmp.Diff(want, related(entries)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		check("Resource List", get(t, s, testBase+"/"+resourceList), c.want[:3])
		for _, name := range []string{"gone", "x y/gone"} {
			s.publish(&record{name: name})
		}
		check("Change List", get(t, s, testBase+"/"+changeListPart+s.journal.open().name), c.want)
		b := s.changes.take()
		body, err := s.changes.notification(b)
		if err != nil {
			t.Fatal(err)
		}
		check("notification", body, c.want)
		if len(body) > b.size+1000 {
			t.Errorf("a notification of %d bytes was thought to have %d", len(body), b.size)
		}
		dump := testBase + "/" + resourceDump
		_, packages := read(t, get(t, s, dump))
		check("manifest of a dump", manifestOf(t, get(t, s, packages[0].Loc)), c.want[:3])
		answer := askBatch(s, "POST", "application/json", asJSON(t, uris)).Body.Bytes()
		check("manifest of a batch", manifestOf(t, answer), c.want[:3])
	}
}

func TestMadeUpResourcesAreRelated(t *testing.T) {
	t.Parallel()
	s := newSource(t, Options{Synthetic: &Synthetic{Resources: 2}, Duplicate: "http://b.example", Collections: true})
	_, entries := read(t, get(t, s, testBase+"/"+resourceList))
	want := []string{
		"/res/000001 duplicate http://b.example/res/000001 1 collection http://source.example/res/",
		"/res/000002 duplicate http://b.example/res/000002 1 collection http://source.example/res/",
	}
	if diff := cmp.Diff(want, related(entries)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDuplicatesAreThere: a second Source of the same folder has what the links lead to.
func TestDuplicatesAreThere(t *testing.T) {
	t.Parallel()
	const mirror = "http://mirror.example"
	dir := t.TempDir()
	for _, name := range []string{"a", "sub/b c%d", "é/#?&"} {
		write(t, dir, name, "body of "+name)
	}
	one, two := newFolder(t, dir, Options{Duplicate: mirror}), newFolder(t, dir, Options{Base: mirror})
	_, entries := read(t, get(t, one, testBase+"/"+resourceList))
	for _, e := range entries {
		if len(e.Links) != 1 {
			t.Fatalf("%+v", e)
		}
		body := get(t, two, strings.TrimPrefix(e.Links[0].Href, mirror))
		if sumOf(string(body)) != sha256Of(t, e) || !bytes.Equal(body, get(t, one, e.Loc)) {
			t.Errorf("%s is not %s", e.Links[0].Href, e.Loc)
		}
	}
	if len(entries) != 3 {
		t.Errorf("%d entries", len(entries))
	}
}

func TestRelatedOptions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		options Options
		want    string
	}{
		{Options{Duplicate: "nowhere"}, `duplicate "nowhere": want http`},
		{Options{Duplicate: "ftp://a.example"}, `duplicate "ftp://a.example": want http`},
		{Options{Duplicate: "http://a.example/?q"}, "without query"},
		{Options{Duplicate: "http://u:p@a.example/"}, "without user"},
		{Options{Patches: true, Synthetic: &Synthetic{}}, "made-up resources are text"},
	} {
		if err := c.options.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.options, err, c.want)
		}
	}
}
