package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"resyncd/destination/rsdoc"
)

// dumpVisitor notes a walk over a dump. inside are the manifests in packages, by path.
type dumpVisitor struct {
	t      *testing.T
	s      *site
	enter  func(p *Part) bool
	inside map[string]string
	got    []string
	failed []string
}

func (v *dumpVisitor) note(format string, a ...any) {
	v.got = append(v.got, strings.ReplaceAll(fmt.Sprintf(format, a...), v.s.URL, ""))
}

func (v *dumpVisitor) Enter(_ context.Context, p *Part) (bool, error) {
	return v.enter == nil || v.enter(p), nil
}

func (v *dumpVisitor) List(_ context.Context, p *Part, l *List) error {
	if l.Head == nil {
		v.note("%s unchanged", p.URL)
		return nil
	}
	n := 0
	err := l.Each(func(*rsdoc.Entry) error { n++; return nil })
	v.note("%s of %s: %d", p.URL, p.Package.URL, n)
	return err
}

func (v *dumpVisitor) Failed(_ context.Context, p *Part, err error) error {
	v.failed = append(v.failed, strings.ReplaceAll(p.URL, v.s.URL, ""))
	return nil
}

func (v *dumpVisitor) Manifest(_ context.Context, p *Part) (io.ReadCloser, error, error) {
	text, ok := v.inside[strings.TrimPrefix(p.URL, v.s.URL)]
	switch {
	case !ok:
		return nil, errors.New("no such package"), nil
	case text == "":
		p.NotModified = true
		return nil, nil, nil
	}
	return io.NopCloser(strings.NewReader(text)), nil, nil
}

// TestWalkDump: a dump is an index of its manifests, each read by its `contents` or inside its package.
func TestWalkDump(t *testing.T) {
	t.Parallel()
	manifest := func(n int) string {
		return urlset(rootMD(`capability="resourcedump-manifest" at="2025-05-01T00:00:00Z"`) +
			strings.Repeat(entry("/r", `path="/r"`), n))
	}
	dump := func(entries ...string) string {
		return urlset(rootMD(`capability="resourcedump" at="2025-05-01T00:00:00Z"`) + strings.Join(entries, ""))
	}
	one := func(path, contents string) string {
		e := entry(path, `type="application/zip"`)
		if contents != "" {
			e = strings.Replace(e, "</url>", `<rs:ln rel="contents" href="`+contents+`"/></url>`, 1)
		}
		return e
	}
	both := dump(one("/p.zip", "/p.xml"), one("/q.zip", ""))
	for _, tc := range []struct {
		name     string
		pages    map[string]page
		inside   map[string]string
		enter    func(p *Part) bool
		got      []string
		failed   []string
		complete bool
	}{
		{name: "contents and inside", pages: map[string]page{"/d.xml": xml(both), "/p.xml": xml(manifest(2))},
			inside: map[string]string{"/q.zip": manifest(3)},
			got:    []string{"/p.xml of /p.zip: 2", "/q.zip of /q.zip: 3"}, complete: true},
		{name: "no contents", pages: map[string]page{"/d.xml": xml(both)},
			inside: map[string]string{"/p.zip": manifest(1), "/q.zip": manifest(3)},
			got:    []string{"/p.zip of /p.zip: 1", "/q.zip of /q.zip: 3"}, complete: true},
		{name: "contents are a page", pages: map[string]page{"/d.xml": xml(both), "/p.xml": xml("<html/>")},
			inside: map[string]string{"/p.zip": manifest(1), "/q.zip": ""},
			got:    []string{"/p.zip of /p.zip: 1", "/q.zip unchanged"}, complete: true},
		{name: "inside first", pages: map[string]page{"/d.xml": xml(both), "/p.xml": xml(manifest(2))},
			inside: map[string]string{"/p.zip": manifest(1), "/q.zip": manifest(3)},
			enter:  func(p *Part) bool { p.URL = p.Package.URL; return true },
			got:    []string{"/p.zip of /p.zip: 1", "/q.zip of /q.zip: 3"}, complete: true},
		{name: "inside first, and broken", pages: map[string]page{"/d.xml": xml(both), "/p.xml": xml(manifest(2))},
			inside: map[string]string{"/p.zip": "<html/>", "/q.zip": manifest(3)},
			enter:  func(p *Part) bool { p.URL = p.Package.URL; return true },
			got:    []string{"/p.xml of /p.zip: 2", "/q.zip of /q.zip: 3"}, complete: true},
		{name: "neither", pages: map[string]page{"/d.xml": xml(both)}, inside: map[string]string{"/q.zip": manifest(3)},
			got: []string{"/q.zip of /q.zip: 3"}, failed: []string{"/p.zip"}},
		{name: "another kind inside", pages: map[string]page{"/d.xml": xml(dump(one("/q.zip", "")))},
			inside: map[string]string{"/q.zip": urlset(rootMD(`capability="changedump-manifest"`))}, failed: []string{"/q.zip"}},
		{name: "an index inside", pages: map[string]page{"/d.xml": xml(dump(one("/q.zip", "")))},
			inside: map[string]string{"/q.zip": indexOf(rootMD(`capability="resourcedump-manifest"`))}, failed: []string{"/q.zip"}},
		{name: "cut inside", pages: map[string]page{"/d.xml": xml(dump(one("/q.zip", "")))},
			inside: map[string]string{"/q.zip": strings.TrimSuffix(manifest(2), "</urlset>")}, failed: []string{"/q.zip"},
			got: []string{"/q.zip of /q.zip: 2"}},
		{name: "no packages", pages: map[string]page{"/d.xml": xml(dump())}, complete: true},
		{name: "an index of dumps", pages: map[string]page{
			"/d.xml": xml(indexOf(rootMD(`capability="resourcedump" at="2025-05-01T00:00:00Z"`) + part("/a.xml", "") + part("/b.xml", ""))),
			"/a.xml": xml(dump(one("/p.zip", ""))), "/b.xml": xml(dump(one("/q.zip", "")))},
			inside: map[string]string{"/p.zip": manifest(1), "/q.zip": manifest(3)},
			got:    []string{"/p.zip of /p.zip: 1", "/q.zip of /q.zip: 3"}, complete: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, tc.pages)
			v := &dumpVisitor{t: t, s: s, inside: tc.inside}
			if tc.enter != nil {
				v.enter = func(p *Part) bool { return p.Package == nil || tc.enter(p) }
			}
			tour, err := testReader(t, nil).Walk(t.Context(), Ref{URL: s.URL + "/d.xml"}, rsdoc.KindResourceDump, v)
			if err != nil || tour.Complete != tc.complete || !slices.Equal(v.got, tc.got) || !slices.Equal(v.failed, tc.failed) {
				t.Errorf("%v, %+v\ngot %q\nfailed %q", err, tour, v.got, v.failed)
			}
		})
	}
}
