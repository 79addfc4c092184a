package source

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/rsdoc"
)

// askBatch posts a body to the endpoint.
func askBatch(s *Source, method, mediaType, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, "/"+batchEndpoint, strings.NewReader(body))
	if mediaType != "" {
		r.Header.Set("Content-Type", mediaType)
	}
	s.Handler().ServeHTTP(w, r)
	return w
}

func asJSON(t failer, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return string(b)
}

// unzip reads an answer whole, and checks lengths and CRCs.
func unzip(t failer, answer []byte) map[string]string {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(answer), int64(len(answer)))
	if err != nil {
		t.Fatalf("a ZIP: %v", err)
	}
	files := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		b, err := io.ReadAll(r)
		if _, twice := files[f.Name]; err != nil || twice {
			t.Fatalf("%s: %v, twice %t", f.Name, err, twice)
		}
		files[f.Name] = string(b)
	}
	return files
}

func manifestOf(t failer, answer []byte) []byte { return []byte(unzip(t, answer)["manifest.xml"]) }

// unpackBatch reads an answer: the manifest, and the bytes of its entries by URI. What the manifest says must be true.
func unpackBatch(t failer, answer []byte) (rsdoc.Head, map[string]string) {
	t.Helper()
	files := unzip(t, answer)
	manifest := []byte(files["manifest.xml"])
	checkXML(t, manifest)
	head, entries := read(t, manifest)
	if head.Kind != rsdoc.KindResourceDumpManifest || !head.At.Known() {
		t.Errorf("manifest: %s", manifest)
	}
	if up := head.Links; len(up) != 1 || up[0].Rel != rsdoc.RelUp || up[0].Href != testBase+"/"+capabilityList {
		t.Errorf("links of the manifest: %v", up)
	}
	got := map[string]string{}
	for _, e := range entries {
		body, there := files[strings.TrimPrefix(e.Path, "/")]
		if !there || int64(len(body)) != e.Length || sumOf(body) != sha256Of(t, e) || !e.LastMod.Known() || e.Type == "" {
			t.Errorf("the manifest says %+v, the package %q (%t)", e, body, there)
		}
		got[e.Loc] = body
	}
	return head, got
}

func TestBatchRequests(t *testing.T) {
	t.Parallel()
	s := newSource(t, Options{Batch: true})
	mustPut(t, s, "a", "1")
	many := slices.Repeat([]string{s.URI("a")}, maxBatch+1)
	long := []string{strings.Repeat("x", maxBatchBytes)}
	for _, c := range []struct {
		what, method, mediaType, body string
		status                        int
	}{
		{"one", "POST", "application/json", asJSON(t, many[:1]), 200},
		{"with charset", "POST", "Application/JSON; charset=utf-8", asJSON(t, many[:1]), 200},
		{"the most", "POST", "application/json", asJSON(t, many[1:]), 200},
		{"none", "POST", "application/json", "[]", 200},
		{"too many", "POST", "application/json", asJSON(t, many), 413},
		{"too long", "POST", "application/json", asJSON(t, long), 413},
		{"cut", "POST", "application/json", `["`, 400},
		{"no array", "POST", "application/json", `{"a":1}`, 400},
		{"null", "POST", "application/json", `null`, 400},
		{"no strings", "POST", "application/json", `[1]`, 400},
		{"two", "POST", "application/json", `[][]`, 400},
		{"empty", "POST", "application/json", "", 400},
		{"other type", "POST", "text/plain", "[]", 415},
		{"no type", "POST", "", "[]", 415},
		{"get", "GET", "", "", 405},
		{"head", "HEAD", "", "", 405},
		{"put", "PUT", "application/json", "[]", 405},
	} {
		w := askBatch(s, c.method, c.mediaType, c.body)
		if w.Code != c.status || c.status == 405 && w.Header().Get("Allow") != "POST" ||
			(w.Code == 200) != (w.Header().Get("Content-Type") == "application/zip") ||
			(w.Code == 200) != (w.Header().Get("Connection") == "") {
			t.Errorf("%s: %d %v, want %d", c.what, w.Code, w.Header(), c.status)
		}
	}
	off := newSource(t, Options{})
	if w := askBatch(off, "POST", "application/json", "[]"); w.Code != 405 {
		t.Errorf("off: %d", w.Code)
	}
	if w := askBatch(off, "GET", "", ""); w.Code != 404 {
		t.Errorf("off: %d", w.Code)
	}
}

// TestBatch asks for everything that there is and much that there is not.
func TestBatch(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := newSource(t, Options{
		Batch: true, Collections: true, Hashes: []rsdoc.Algorithm{rsdoc.SHA256, rsdoc.MD5},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if !strings.Contains(log.String(), testBase+"/.resourcesync/batch") {
		t.Errorf("the log does not name the endpoint: %s", &log)
	}
	want := map[string]string{}
	for i, name := range []string{"a.json", "manifest.xml", "dir/a b&<c>", "\xff/\x01", "empty", "large"} {
		body := strings.Repeat(fmt.Sprintln(name), i*i*1000)
		mustPut(t, s, name, body)
		want[s.URI(name)] = body
	}
	mustPut(t, s, "gone", "1")
	s.Delete("gone")
	mustPut(t, s, "not-asked-for", "1")
	mustPut(t, s, "empty", "")
	want[s.URI("empty")] = ""
	uris := slices.Collect(maps.Keys(want))
	uris = append(uris, uris[0], s.URI("gone"), s.URI("never"), "", testBase, s.at(""), s.Description(), s.at(batchEndpoint),
		"http://other.example/a.json", testBase+"/dir%2Fa%20b%26%3Cc%3E", testBase+"/a%2Ejson", testBase+"/%zz")
	before := s.Now()
	w := askBatch(s, "POST", "application/json", asJSON(t, uris))
	head, got := unpackBatch(t, w.Body.Bytes())
	if diff := cmp.Diff(want, got); diff != "" || w.Code != 200 {
		t.Errorf("%d (-want +got):\n%s", w.Code, diff)
	}
	if head.At <= before || head.At > s.Now() {
		t.Errorf("at %v, asked at %v", head.At, before)
	}
	_, got = unpackBatch(t, askBatch(s, "POST", "application/json", asJSON(t, []string{s.URI("gone")})).Body.Bytes())
	if len(got) != 0 {
		t.Errorf("a batch of nothing: %v", got)
	}
}

func TestBatchOfMadeUpResources(t *testing.T) {
	t.Parallel()
	s := newSource(t, Options{Batch: true, Synthetic: &Synthetic{Resources: 20, Seed: 3}})
	s.backend.(*generator).step(30)
	_, want := listed(t, s)
	_, got := unpackBatch(t, askBatch(s, "POST", "application/json", asJSON(t, slices.Collect(maps.Keys(want)))).Body.Bytes())
	if len(got) != len(want) {
		t.Fatalf("%d of %d resources", len(got), len(want))
	}
	for uri, body := range got {
		if sha256.Sum256([]byte(body)) != want[uri] {
			t.Errorf("%s is not what is listed", uri)
		}
	}
}

// pretended is a body that is exact, or says so.
type pretended struct {
	io.ReadSeeker
	opened func()
}

func (p pretended) open(*record) (body, error) {
	if p.opened != nil {
		p.opened()
	}
	return body{ReadSeeker: p.ReadSeeker, exact: true}, nil
}

type unreadable struct{ io.ReadSeeker }

func (unreadable) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestBatchOfChangingFiles: what changed since it was hashed is left out.
func TestBatchOfChangingFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"calm", "changed", "removed"} {
		write(t, dir, name, "first of "+name)
	}
	s := newFolder(t, dir, Options{Batch: true})
	_, all := listed(t, s)
	ask := asJSON(t, slices.Collect(maps.Keys(all)))
	write(t, dir, "changed", "something longer than it was")
	if err := os.Remove(filepath.Join(dir, "removed")); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{s.URI("calm"): "first of calm"}
	_, got := unpackBatch(t, askBatch(s, "POST", "application/json", ask).Body.Bytes())
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("before it is seen (-want +got):\n%s", diff)
	}
	scan(t, s)
	want[s.URI("changed")] = "something longer than it was"
	_, got = unpackBatch(t, askBatch(s, "POST", "application/json", ask).Body.Bytes())
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("once it is published (-want +got):\n%s", diff)
	}
}

// TestBatchOfUnsteadyBodies: what changes or breaks off while it is copied is not in the manifest.
func TestBatchOfUnsteadyBodies(t *testing.T) {
	t.Parallel()
	s := newSource(t, Options{Batch: true})
	for name, pretends := range map[string]io.ReadSeeker{
		"calm": nil, "changed": strings.NewReader("FIRST of changed"), "cut": unreadable{strings.NewReader("")},
	} {
		mustPut(t, s, name, "first of "+name)
		if rec := s.catalog.find(name); pretends != nil {
			rec.content = pretended{ReadSeeker: pretends}
		}
	}
	ask := asJSON(t, []string{s.URI("changed"), s.URI("cut"), s.URI("calm")})
	_, got := unpackBatch(t, askBatch(s, "POST", "application/json", ask).Body.Bytes())
	if diff := cmp.Diff(map[string]string{s.URI("calm"): "first of calm"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestBatchStreams: a body is on its way before the next one is opened, and a reader that is gone ends the work.
func TestBatchStreams(t *testing.T) {
	t.Parallel()
	s := newSource(t, Options{Batch: true, Synthetic: &Synthetic{Resources: 3, Size: 1 << 19}})
	w := httptest.NewRecorder()
	all := s.catalog.all
	sent := make([]int, len(all))
	for i, rec := range all {
		rec.content = pretended{s.options.Synthetic.Content(i+1, 0), func() { sent[i] = w.Body.Len() }}
	}
	var uris []string
	for _, rec := range all {
		uris = append(uris, s.URI(rec.name))
	}
	s.Handler().ServeHTTP(w, postBatch(asJSON(t, uris)))
	if _, got := unpackBatch(t, w.Body.Bytes()); len(got) != 3 {
		t.Errorf("%d members", len(got))
	}
	for i := 1; i < len(sent); i++ {
		if sent[i]-sent[i-1] < 1<<17 { // half of it at best, as it is text
			t.Errorf("before the opening of number %d: %d bytes sent", i, sent)
		}
	}
	opened := 0
	for i, rec := range s.catalog.all {
		rec.content = pretended{s.options.Synthetic.Content(i+1, 0), func() { opened++ }}
	}
	defer func() {
		if got := recover(); got != http.ErrAbortHandler || opened > 2 { //nolint:errorlint // it is compared by net/http
			t.Errorf("%d of 3 opened for a reader that is gone, panic %v", opened, got)
		}
	}()
	s.Handler().ServeHTTP(&leaver{ResponseRecorder: httptest.NewRecorder()}, postBatch(asJSON(t, uris)))
}

func postBatch(body string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), "POST", "/"+batchEndpoint, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

// leaver is a reader that goes after some bytes.
type leaver struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (l *leaver) SetReadDeadline(at time.Time) error {
	l.deadline = at
	return nil
}

func (l *leaver) Write(b []byte) (int, error) {
	if l.Body.Len() > 100_000 {
		return 0, io.ErrClosedPipe
	}
	return l.ResponseRecorder.Write(b)
}

// TestBatchMayTakeLong: the deadline for the request does not hold for the answer.
func TestBatchMayTakeLong(t *testing.T) {
	t.Parallel()
	s := newSource(t, Options{Batch: true})
	w := &leaver{ResponseRecorder: httptest.NewRecorder()}
	s.Handler().ServeHTTP(w, postBatch("["))
	if w.deadline.IsZero() {
		t.Error("a request may take for ever")
	}
	s.Handler().ServeHTTP(w, postBatch("[]"))
	if !w.deadline.IsZero() {
		t.Errorf("the answer must be read by %v", w.deadline)
	}
}

// TestBatchBeforeRestart: no change is published at or before the instant of a package that somebody has.
func TestBatchBeforeRestart(t *testing.T) {
	t.Parallel()
	clock := newScripted()
	o := Options{
		Batch: true, State: filepath.Join(t.TempDir(), "state"), Synthetic: &Synthetic{Resources: 1, Size: 1}, Now: clock.now,
	}
	s := newSource(t, o)
	clock.forward(time.Hour)
	_, at := s.published(nil)
	s.state.file.Close() // as kill -9 does
	clock.forward(-time.Hour)
	again := newSource(t, o)
	defer again.Close()
	if again.begin <= at {
		t.Errorf("a batch of %v, and changes from %v on", at, again.begin)
	}
}
