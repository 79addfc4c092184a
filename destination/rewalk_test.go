package destination

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/rsdoc"
)

// A second walk with nothing new asks once for each document it must look at, and reads nothing.
func TestWalkAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]page{
		"/index": xml(indexOf(listMD + part("/a", `at="2026-01-01T00:00:00Z"`) + part("/b", ""))),
		"/a":     list("/1"), "/b": list("/2"), "/lone": list("/3"),
	})
	r := testReader(t, nil)
	known := map[string]Meta{}
	remember := func(p *Part) bool { known[p.URL] = Meta{}; return true }
	root := Ref{URL: s.URL + "/index"}
	v := &keeping{log: log{enter: remember}, known: known}
	tour, err := r.Walk(t.Context(), root, rsdoc.KindResourceList, v)
	if err != nil || !tour.Complete || tour.Root == nil || tour.Root.NotModified || len(tour.Root.Entries) != 2 {
		t.Fatalf("%+v, %v", tour, err)
	}
	s.requests()
	var entered []string
	v = &keeping{log: log{enter: func(p *Part) bool {
		entered = append(entered, fmt.Sprintf("%s below %s, index unchanged %v", pathOf(p.URL), pathOf(p.Parent), p.NotModified))
		p.ETag = known[p.URL].ETag
		return true
	}}, known: known}
	tour, err = r.Walk(t.Context(), root, rsdoc.KindResourceList, v)
	if err != nil || !tour.Complete || tour.Lists != 2 || !tour.Root.NotModified || tour.Root.Head.Kind != rsdoc.KindResourceList {
		t.Errorf("%+v, %v", tour, err)
	}
	if got, want := s.requests(), "/index 304, /a 304, /b 304"; got != want {
		t.Errorf("requests %q, want %q", got, want)
	}
	if diff := cmp.Diff([]string{"/a below /index, index unchanged true", "/b below /index, index unchanged true"}, entered); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"unchanged /a", "unchanged /b"}, v.lines); diff != "" {
		t.Error(diff)
	}
	tour, err = r.Walk(t.Context(), root, rsdoc.KindResourceList, &log{enter: func(*Part) bool { return false }})
	if err != nil || !tour.Complete || s.requests() != "/index 304" {
		t.Errorf("skipping: %+v, %v", tour, err)
	}
	// Past caches nothing is conditional but what the visitor makes so.
	if _, err = r.Uncached().Walk(t.Context(), root, rsdoc.KindResourceList, &log{}); err != nil {
		t.Error(err)
	}
	if got, want := s.requests(), "/index 200, /a 200, /b 200, /index 304"; got != want {
		t.Errorf("uncached requests %q, want %q", got, want)
	}
	// A lone list: the visitor's validators.
	v = &keeping{known: known}
	if _, err = r.Walk(t.Context(), Ref{URL: s.URL + "/lone"}, rsdoc.KindResourceList, v); err != nil {
		t.Fatal(err)
	}
	l := &log{enter: func(p *Part) bool { p.ETag = known[p.URL].ETag; return true }}
	tour, err = r.Walk(t.Context(), Ref{URL: s.URL + "/lone"}, rsdoc.KindResourceList, l)
	if err != nil || !tour.Complete || tour.Root != nil || s.requests() != "/lone 200, /lone 304" {
		t.Errorf("lone list: %+v, %v", tour, err)
	}
}

// keeping is a log that keeps the validators of the lists it read.
type keeping struct {
	log
	known map[string]Meta
}

func (k *keeping) List(ctx context.Context, p *Part, l *List) error {
	err := k.log.List(ctx, p, l)
	if err == nil && l.Head != nil {
		k.known[p.URL] = p.Meta
	}
	return err
}

// Shapes change: an index becomes a list and an index again.
func TestWalkChangingShape(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]page{"/": xml(indexOf(listMD + part("/a", ""))), "/a": list("/1")})
	r := testReader(t, nil)
	index := s.pages["/"]
	for i, step := range []struct {
		page page
		want []string
	}{
		{index, []string{"begin /a resourcelist", "entry /1", "end /a"}},
		{list("/2"), []string{"begin / resourcelist", "entry /2", "end /"}},
		{list("/2"), []string{"begin / resourcelist", "entry /2", "end /"}},
		{index, []string{"begin /a resourcelist", "entry /1", "end /a"}},
	} {
		s.set("/", step.page)
		entered := 0
		v := &log{enter: func(*Part) bool { entered++; return true }}
		tour, err := r.Walk(t.Context(), Ref{URL: s.URL + "/"}, rsdoc.KindResourceList, v)
		if err != nil || !tour.Complete || entered == 0 {
			t.Errorf("step %d: %+v, entered %d, %v", i, tour, entered, err)
		}
		if diff := cmp.Diff(step.want, v.lines); diff != "" {
			t.Errorf("step %d: %s", i, diff)
		}
	}
}

// What was an index and is a list now is no longer asked for with the validators of the index.
func TestWalkForgetsIndexValidators(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]page{"/": xml(indexOf(listMD))})
	r := testReader(t, nil)
	if _, err := r.Walk(t.Context(), Ref{URL: s.URL + "/"}, rsdoc.KindResourceList, &log{}); err != nil {
		t.Fatal(err)
	}
	s.set("/", list("/1"))
	var validators []string
	s.on(func(w http.ResponseWriter, r *http.Request) bool {
		validators = append(validators, r.Header.Get("If-None-Match"))
		if len(validators) > 1 {
			return false
		}
		body := strings.ReplaceAll(s.pages["/"].body, "SITE", s.URL)
		_, _ = w.Write([]byte(body[:len(body)-5]))
		return true
	})
	tour, err := r.Walk(t.Context(), Ref{URL: s.URL + "/"}, rsdoc.KindResourceList, &log{})
	if err != nil || !tour.Complete || len(validators) != 2 || validators[0] == "" || validators[1] != "" {
		t.Errorf("%+v, %v, validators %q", tour, err, validators)
	}
}
