package source

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const xmlHead = `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
        xmlns:rs="http://www.openarchives.org/rs/terms/">
`

// TestGoldenDocuments holds what a hub and its subscribers read to the letter.
func TestGoldenDocuments(t *testing.T) {
	t.Parallel()
	clock := newScripted()
	k := &script{}
	s := scriptedSource(t, Options{Now: clock.now, ChangeListSize: 3, ListEvery: time.Second}, k)
	clock.forward(time.Second)
	mustPut(t, s, "a&b.txt", "1")
	mustPut(t, s, "c", "")
	s.Delete("c") // the third change closes the Change List
	get(t, s, "/"+resourceList)
	tell := func(c *channel) (out []string) {
		for c.waiting() > 0 {
			b := c.take()
			if err := c.publish(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			posts := k.on(s.at(c.name))
			out = append(out, string(posts[len(posts)-1].body))
		}
		return out
	}
	up := `  <rs:ln rel="up" href="http://source.example/.resourcesync/capabilitylist.xml"/>` + "\n"
	sum := func(body string) string { return fmt.Sprintf("sha-256:%x", sumOf(body)) }
	want := []string{xmlHead + up + `  <rs:md capability="change-notification" from="2026-05-01T02:00:00Z" until="2026-05-01T02:00:01.000006Z"/>
  <url>
    <loc>http://source.example/a%26b.txt</loc>
    <lastmod>2026-05-01T02:00:01Z</lastmod>
    <rs:md change="created" datetime="2026-05-01T02:00:01Z" hash="` + sum("1") + `" length="1" type="text/plain"/>
  </url>
  <url>
    <loc>http://source.example/c</loc>
    <lastmod>2026-05-01T02:00:01Z</lastmod>
    <rs:md change="created" datetime="2026-05-01T02:00:01.000001Z" hash="` + sum("") + `" length="0" type="application/octet-stream"/>
  </url>
  <url>
    <loc>http://source.example/c</loc>
    <rs:md change="deleted" datetime="2026-05-01T02:00:01.000002Z"/>
  </url>
</urlset>
`}
	if diff := cmp.Diff(want, tell(s.changes)); diff != "" {
		t.Errorf("change notifications (-want +got):\n%s", diff)
	}
	description := `  <rs:ln rel="up" href="http://source.example/.well-known/resourcesync"/>` + "\n"
	md := `  <rs:md capability="framework-notification"/>` + "\n"
	list := "http://source.example/.resourcesync/changelist/"
	want = []string{
		xmlHead + description + md + `  <url>
    <loc>http://source.example/.resourcesync/capabilitylist.xml</loc>
    <rs:md capability="capabilitylist" change="updated" datetime="2026-05-01T02:00:00Z"/>
  </url>
</urlset>
`,
		xmlHead + up + md + `  <url>
    <loc>` + list + `20260501T020000.000000Z.xml</loc>
    <rs:md capability="changelist" change="updated" datetime="2026-05-01T02:00:01.000003Z"/>
    <rs:ln rel="index" href="http://source.example/.resourcesync/changelist.xml"/>
  </url>
  <url>
    <loc>` + list + `20260501T020001.000003Z.xml</loc>
    <rs:md capability="changelist" change="created" datetime="2026-05-01T02:00:01.000003Z"/>
    <rs:ln rel="index" href="http://source.example/.resourcesync/changelist.xml"/>
  </url>
</urlset>
`,
		xmlHead + description + md + `  <url>
    <loc>http://source.example/.resourcesync/capabilitylist.xml</loc>
    <rs:md capability="capabilitylist" change="updated" datetime="2026-05-01T02:00:01.000003Z"/>
  </url>
</urlset>
`,
		xmlHead + up + md + `  <url>
    <loc>http://source.example/.resourcesync/resourcelist.xml</loc>
    <rs:md capability="resourcelist" change="created" datetime="2026-05-01T02:00:01.000005Z"/>
  </url>
</urlset>
`,
	}
	if diff := cmp.Diff(want, tell(s.framework)); diff != "" {
		t.Errorf("framework notifications (-want +got):\n%s", diff)
	}
	capabilities := xmlHead + description + `  <rs:md capability="capabilitylist"/>
  <url>
    <loc>http://source.example/.resourcesync/resourcelist.xml</loc>
    <rs:md capability="resourcelist"/>
  </url>
  <url>
    <loc>http://source.example/.resourcesync/changelist.xml</loc>
    <rs:md capability="changelist"/>
  </url>
  <url>
    <loc>http://source.example/.resourcesync/topic/change</loc>
    <rs:md capability="change-notification"/>
    <rs:ln rel="hub" href="http://hub.example/websub"/>
  </url>
  <url>
    <loc>http://source.example/.resourcesync/topic/framework</loc>
    <rs:md capability="framework-notification"/>
    <rs:ln rel="hub" href="http://hub.example/websub"/>
  </url>
</urlset>
`
	if diff := cmp.Diff(capabilities, string(get(t, s, "/"+capabilityList))); diff != "" {
		t.Errorf("Capability List (-want +got):\n%s", diff)
	}
}

// TestTopic asks a topic over a connection, before and after it has something to say (R-04, S-10).
func TestTopic(t *testing.T) {
	t.Parallel()
	s := scriptedSource(t, Options{}, &script{})
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	ask := func(method, tag string) (*http.Response, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/"+changeTopic, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("If-None-Match", tag)
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(body)
	}
	links := `<http://hub.example/websub>; rel="hub", <http://source.example/.resourcesync/topic/change>; rel="self", ` +
		`<http://source.example/.resourcesync/capabilitylist.xml>; rel="resourcesync"`
	last := "-"
	for _, state := range []string{"empty", "first", "second"} {
		length := "0"
		var want []byte
		if state != "empty" {
			mustPut(t, s, "a", state)
			b := s.changes.take()
			var err error
			if want, err = s.changes.show(b); err != nil {
				t.Fatal(err)
			}
			length = fmt.Sprint(len(want))
		}
		for _, method := range []string{"GET", "HEAD"} {
			resp, body := ask(method, last)
			h := resp.Header
			if resp.StatusCode != 200 || h.Get("Content-Length") != length || h.Get("Content-Type") != "application/xml" ||
				h.Get("Link") != links || h.Get("Content-Encoding") != "" {
				t.Errorf("%s, %s: %s %v", state, method, resp.Status, h)
			}
			if method == "GET" && body != string(want) {
				t.Errorf("%s: %q, want %q", state, body, want)
			}
		}
		resp, _ := ask("GET", "")
		last = resp.Header.Get("ETag")
		if resp, body := ask("GET", last); last == "" || resp.StatusCode != 304 || body != "" || resp.Header.Get("Link") != links {
			t.Errorf("%s, asked again: %s, %q, %v", state, resp.Status, body, resp.Header)
		}
	}
	if resp, _ := ask("POST", ""); resp.StatusCode != 405 {
		t.Errorf("POST: %s", resp.Status)
	}
}
