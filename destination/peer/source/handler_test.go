package source

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"resyncd/destination/rsdoc"
)

func TestResourceRequests(t *testing.T) {
	t.Parallel()
	clock := newScripted()
	s := newSource(t, Options{Now: clock.now})
	mustPut(t, s, "a.html", "0123456789")
	uri := s.URI("a.html")
	if got := ask(s, "GET", uri).Header.Get("Last-Modified"); got != "" {
		t.Errorf("Last-Modified %s within the second of the change", got)
	}
	clock.forward(time.Second)
	first := ask(s, "GET", uri)
	tag, modified := first.Header.Get("ETag"), first.Header.Get("Last-Modified")
	if tag != fmt.Sprintf(`"%x"`, sumOf("0123456789")) || modified != "Fri, 01 May 2026 02:00:00 GMT" {
		t.Errorf("ETag %s, Last-Modified %s", tag, modified)
	}
	if got, want := first.Header.Get("Link"), `<http://source.example/.resourcesync/capabilitylist.xml>; rel="resourcesync"`; got != want {
		t.Errorf("Link %s, want %s", got, want)
	}
	for _, c := range []struct {
		what, method string
		headers      []string
		status       int
		body         string
	}{
		{"whole", "GET", nil, 200, "0123456789"},
		{"head", "HEAD", nil, 200, ""},
		{"same tag", "GET", []string{"If-None-Match", tag}, 304, ""},
		{"one of the tags", "GET", []string{"If-None-Match", `"x", W/` + tag}, 304, ""},
		{"other tag", "GET", []string{"If-None-Match", `"x"`}, 200, "0123456789"},
		{"same time", "GET", []string{"If-Modified-Since", modified}, 304, ""},
		{"later time", "GET", []string{"If-Modified-Since", "Fri, 01 May 2026 03:00:00 GMT"}, 200, "0123456789"},
		{"tag before time", "GET", []string{"If-None-Match", `"x"`, "If-Modified-Since", modified}, 200, "0123456789"},
		{"range", "GET", []string{"Range", "bytes=2-4"}, 206, "234"},
		{"range of this", "GET", []string{"Range", "bytes=8-", "If-Range", tag}, 206, "89"},
		{"range of another", "GET", []string{"Range", "bytes=8-", "If-Range", `"x"`}, 200, "0123456789"},
		{"range beyond", "GET", []string{"Range", "bytes=10-"}, 416, "invalid range: failed to overlap\n"},
		{"post", "POST", nil, 405, "only GET and HEAD are answered here\n"},
	} {
		resp := ask(s, c.method, uri, c.headers...)
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != c.status || string(body) != c.body {
			t.Errorf("%s: %d %q, want %d %q", c.what, resp.StatusCode, body, c.status, c.body)
		}
	}
	s.Delete("a.html")
	if resp := ask(s, "GET", uri); resp.StatusCode != 410 {
		t.Errorf("deleted: %s", resp.Status)
	}
	if s.Delete("a.html") || s.Delete("never") {
		t.Error("deleted twice")
	}
}

func TestDocumentRequests(t *testing.T) {
	t.Parallel()
	clock := newScripted()
	s := newSource(t, Options{Now: clock.now, ChangeListSize: 3})
	mustPut(t, s, "a", "1")
	get(t, s, "/"+resourceList) // taken now, and so a minute old below
	clock.forward(time.Minute)
	uris := []string{"/", "/robots.txt", "/" + wellKnown, "/" + capabilityList, "/" + resourceList, "/" + changeListIndex,
		"/" + changeListPart + s.journal.open().name}
	tags := map[string]string{}
	for _, uri := range uris {
		plain := ask(s, "GET", uri)
		body, _ := io.ReadAll(plain.Body)
		if plain.StatusCode != 200 || len(body) == 0 || plain.Header.Get("Vary") != "Accept-Encoding" {
			t.Fatalf("%s: %s, %d bytes", uri, plain.Status, len(body))
		}
		tag := plain.Header.Get("ETag")
		if tag == "" || tags[tag] != "" {
			t.Errorf("%s: ETag %q, as %q", uri, tag, tags[tag])
		}
		tags[tag] = uri
		zipped := ask(s, "GET", uri, "Accept-Encoding", "br, gzip;q=0.5")
		z, err := gzip.NewReader(zipped.Body)
		if err != nil {
			t.Fatalf("%s: %v", uri, err)
		}
		inflated, err := io.ReadAll(z)
		if err != nil || string(inflated) != string(body) || zipped.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: zipped it is another (%v)", uri, err)
		}
		if zipped.Header.Get("ETag") == tag {
			t.Errorf("%s: one ETag for two codings", uri)
		}
		for _, h := range [][]string{
			{"If-None-Match", tag}, {"If-None-Match", zipped.Header.Get("ETag")}, {"If-None-Match", "*"},
			{"If-None-Match", tag, "Accept-Encoding", "gzip"}, {"If-Modified-Since", plain.Header.Get("Last-Modified")},
		} {
			if resp := ask(s, "GET", uri, h...); resp.StatusCode != 304 || resp.Header.Get("ETag") == "" {
				t.Errorf("%s with %v: %s", uri, h, resp.Status)
			}
		}
		if head := ask(s, "HEAD", uri); head.StatusCode != 200 || head.Header.Get("ETag") != tag {
			t.Errorf("HEAD %s: %s", uri, head.Status)
		}
		if resp := ask(s, "GET", uri, "Accept-Encoding", "gzip;q=0"); resp.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: zipped although refused", uri)
		}
	}
	// A change makes the Resource List and the open Change List new, and nothing else.
	mustPut(t, s, "b", "1")
	for tag, uri := range tags {
		want := 304
		if uri == "/"+resourceList || strings.HasPrefix(uri, "/"+changeListPart) {
			want = 200
		}
		if resp := ask(s, "GET", uri, "If-None-Match", tag); resp.StatusCode != want {
			t.Errorf("%s after a change: %s, want %d", uri, resp.Status, want)
		}
	}
}

func TestWaysIn(t *testing.T) {
	t.Parallel()
	s := newSource(t, Options{Base: testBase + "/"})
	page := string(get(t, s, "/"))
	if want := `<link rel="resourcesync" href="http://source.example/.resourcesync/capabilitylist.xml">`; !strings.Contains(page, want) {
		t.Errorf("the page has no %s:\n%s", want, page)
	}
	if robots := string(get(t, s, "/robots.txt")); !strings.Contains(robots, "\nSitemap: http://source.example/.resourcesync/resourcelist.xml\n") {
		t.Errorf("robots.txt:\n%s", robots)
	}
	mustPut(t, s, "robots.txt", "mine")
	if robots := string(get(t, s, "/robots.txt")); robots != "mine" {
		t.Errorf("robots.txt of the publisher: %s", robots)
	}
	for _, name := range []string{"", "/a", "a//b", "a/", "..", "a/../b", "a\x00", wellKnown, documents, documents + "/x"} {
		if err := s.Put(name, nil); err == nil {
			t.Errorf("Put(%q) was accepted", name)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for what, o := range map[string]Options{
		"no base": {}, "relative": {Base: "/x"}, "ftp": {Base: "ftp://a/"}, "query": {Base: "http://a/?b"}, "user": {Base: "http://u:p@a/"},
		"two stocks": {Base: testBase, Dir: "/", Synthetic: &Synthetic{}}, "list size": {Base: testBase, ListSize: -1},
		"spec": {Base: testBase, Spec: "2.0"}, "rate": {Base: testBase, Synthetic: &Synthetic{Rate: -1}},
		"hash": {Base: testBase, Hashes: []rsdoc.Algorithm{99}}, "scan": {Base: testBase, ScanEvery: -1},
	} {
		if _, err := New(context.Background(), o); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

// TestServe stops orderly and lets a connection be used again after a long pause.
func TestServe(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newSource(t, Options{Base: "http://" + listener.Addr().String()})
	mustPut(t, s, "a", "1")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, listener) }()
	if got := overWire(t, s.URI("a"), 200); string(got) != "1" {
		t.Errorf("%q", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve: %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := s.Serve(context.Background(), listener); err == nil {
		t.Error("Serve on a closed listener: no error")
	}
}

// TestChangesAreToldAfterwards fetches each change at the moment it is told.
func TestChangesAreToldAfterwards(t *testing.T) {
	t.Parallel()
	var told []Change
	s := newSource(t, Options{OnChange: func(c Change) { told = append(told, c) }})
	mustPut(t, s, "a", "1")
	mustPut(t, s, "a", "2")
	s.Delete("a")
	want := []Change{
		{URI: s.URI("a"), Change: rsdoc.ChangeCreated, SHA256: sumOf("1"), Length: 1},
		{URI: s.URI("a"), Change: rsdoc.ChangeUpdated, SHA256: sumOf("2"), Length: 1},
		{URI: s.URI("a"), Change: rsdoc.ChangeDeleted},
	}
	for i := range told {
		if i > 0 && told[i].Datetime <= told[i-1].Datetime {
			t.Errorf("%v after %v", told[i].Datetime, told[i-1].Datetime)
		}
		want[i].Datetime = told[i].Datetime
		if told[i] != want[i] {
			t.Errorf("told %+v, want %+v", told[i], want[i])
		}
	}
	if len(told) != 3 || s.Now() != told[2].Datetime {
		t.Errorf("told %d changes, now %v", len(told), s.Now())
	}
}
