package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"resyncd/cmd/internal/companion"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run is the program without its process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return companion.Run(ctx, help(), args, stdout, stderr, serve)
}

// The tests that run the program do so one after another: urfave/cli has state of its own.
func TestUsage(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(t.TempDir(), "records.xml")
	if err := os.WriteFile(broken, []byte("<feed xmlns=\"http://www.w3.org/2005/Atom\">\n<entry>\n</feed>\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args string
		code int
		want string
	}{
		"help":             {"--help", 0, "--change-list-size"},
		"faults in help":   {"--help", 0, "cutclose=P"},
		"nothing":          {"", 2, "--listen is missing"},
		"no stock":         {"--listen :0", 2, "neither --dir nor --resources nor --records"},
		"two stocks":       {"--listen :0 --dir " + dir + " --resources 3", 2, "want one of them"},
		"stray":            {"--listen :0 --dir " + dir + " more", 2, `argument "more": it takes flags only`},
		"flag after stray": {"--listen :0 more --dir " + dir, 2, "reads none after the first"},
		"unknown flag":     {"--listen :0 --nothing", 2, "-nothing"},
		"bad number":       {"--listen :0 --resources x", 2, "resources"},
		"hub":              {"--listen :0 --resources 1 --hub h/", 2, `hub "h/": want http`},
		"publish":          {"--listen :0 --resources 1 --publish traditional", 2, "--publish traditional: goes with --hub"},
		"way to publish":   {"--listen :0 --resources 1 --hub http://h/ --publish loud", 2, `publish "loud": want resourcesync`},
		"notify max":       {"--listen :0 --resources 1 --hub http://h/ --notify-max 0", 2, "--notify-max 0"},
		"token without":    {"--listen :0 --resources 1 --publisher-token-file f", 2, "--publisher-token-file: goes with --hub"},
		"no token":         {"--listen :0 --resources 1 --hub http://h/ --publisher-token-file " + dir + "/none", 2, "no such file"},
		"empty token":      {"--listen :0 --resources 1 --hub http://h/ --publisher-token-file " + os.DevNull, 2, "visible ASCII"},
		"notify fault":     {"--listen :0 --resources 1 --fault notify-drop=0", 2, "want a number from 1"},
		"records":          {"--listen 127.0.0.1:0 --resources 1 --records " + dir + "/none", 2, "no such file"},
		"broken records":   {"--listen 127.0.0.1:0 --records " + broken, 2, "line 3"},
		"empty records":    {"--listen :0 --resources 1 --records=", 2, "--records: want a file"},
		"feed entries":     {"--listen :0 --resources 1 --feed-entries 0", 2, "--feed-entries 0"},
		"feed fault":       {"--listen :0 --resources 1 --fault feed-rss=1", 2, "want on"},
		"list size":        {"--listen :0 --resources 1 --list-size 0", 2, "--list-size 0"},
		"dumps":            {"--listen :0 --resources 1 --dumps yes", 2, "want on or off"},
		"dump size":        {"--listen :0 --resources 1 --dumps on --dump-size 0", 2, "--dump-size 0"},
		"large packages":   {"--listen :0 --resources 1 --dumps on --dump-size 50001", 2, "want 1 to 50000"},
		"size of no dump":  {"--listen :0 --resources 1 --dump-size 3", 2, "goes with --dumps on"},
		"empty state":      {"--listen :0 --resources 1 --state=", 2, "--state: want a file"},
		"no state":         {"--listen 127.0.0.1:0 --resources 1 --state " + dir + "/none/state", 1, "write the state"},
		"broken state":     {"--listen 127.0.0.1:0 --resources 1 --state " + broken, 1, "line 1: damaged"},
		"state of records": {"--listen :0 --records " + broken + " --state s", 2, "goes with a folder"},
		"keep":             {"--listen :0 --resources 1 --keep-change-lists 0", 2, "--keep-change-lists 0"},
		"change lists":     {"--listen :0 --resources 1 --change-lists half", 2, "want open or closed"},
		"hash":             {"--listen :0 --resources 1 --hash md4", 2, "md4"},
		"spec":             {"--listen :0 --resources 1 --spec 2", 2, "want 1.0 or 1.1"},
		"fault":            {"--listen :0 --resources 1 --fault cut=2", 2, "probability"},
		"url":              {"--listen :0 --resources 1 --url nowhere", 2, "base URI"},
		"batch":            {"--listen :0 --resources 1 --batch yes", 2, `--batch "yes": want on or off`},
		"collections":      {"--listen :0 --resources 1 --collections=", 2, `--collections "": want on or off`},
		"patches":          {"--listen :0 --resources 1 --patches on", 2, "--patches on: goes with --dir"},
		"duplicate":        {"--listen :0 --resources 1 --duplicate copy", 2, `duplicate "copy": want http`},
		"log level":        {"--listen :0 --resources 1 --log-level loud", 2, "loud"},
		"seed of a folder": {"--listen :0 --seed 2 --dir " + dir, 2, "go with --resources"},
		"address":          {"--listen 300.1.1.1:0 --resources 1", 1, "listen"},
		"no folder":        {"--listen 127.0.0.1:0 --dir " + dir + "/none", 1, "open the folder"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, err bytes.Buffer
			code := run(context.Background(), append([]string{"rssource"}, strings.Fields(c.args)...), &out, &err)
			if all := out.String() + err.String(); code != c.code || !strings.Contains(all, c.want) {
				t.Errorf("exit code %d, want %d with %q:\n%s", code, c.code, c.want, all)
			}
		})
	}
}

// TestLives starts the program, takes its word for where it is, and stops it.
func TestLives(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a b"), []byte("body"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sub", "c.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	records := filepath.Join(t.TempDir(), "records.xml")
	if err := os.WriteFile(records, []byte(`<feed xmlns="http://www.w3.org/2005/Atom" xmlns:report="http://schemas.google.com/report/2010"
xmlns:gs="http://schemas.google.com/spreadsheets/2006"><entry><report:subject>example.org/1</report:subject>
<report:observed>2010-06-29T15:27:39Z</report:observed><report:content type="{http://schemas.google.com/report/2010}row">
<report:row><gs:field name="title">A</gs:field></report:row></report:content></entry></feed>`), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, args := range map[string][]string{
		"folder":    {"--dir", dir, "--publish", "off", "--hub", ""},
		"made-up":   {"--resources", "5", "--rate", "100", "--hash", "md5,sha-256", "--change-lists", "closed", "--spec", "1.0"},
		"dumps":     {"--resources", "5", "--dumps", "on", "--dump-size", "2", "--state", filepath.Join(t.TempDir(), "state")},
		"with base": {"--resources", "0", "--url", "http://127.0.0.1:1/data/"},
		"related": {"--dir", dir, "--batch", "on", "--patches", "on", "--collections", "on",
			"--duplicate", "http://127.0.0.1:1/copy"},
		"records": {"--records", records, "--feed-entries", "2"},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		out, in := io.Pipe()
		done := make(chan int)
		go func() {
			args := append([]string{"rssource", "--listen", "127.0.0.1:0", "--log-level", "error"}, args...)
			done <- run(ctx, args, in, os.Stderr)
		}()
		lines := bufio.NewScanner(out)
		lines.Scan()
		base := lines.Text()
		lines.Scan()
		description := lines.Text()
		if description != base+".well-known/resourcesync" {
			t.Errorf("%s: %q, %q", what, base, description)
		}
		ask := func(url, want string) {
			resp, err := http.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || !bytes.Contains(body, []byte(want)) {
				t.Errorf("%s: %s, %v", what, body, err)
			}
		}
		if what != "with base" {
			ask(description, base+".resourcesync/capabilitylist.xml")
			ask(base, base+".resourcesync/feed/changes.atom")
		}
		if what == "dumps" {
			ask(base+".resourcesync/resourcedump.xml", "-00003.zip</loc>")
			ask(base+".resourcesync/changedump.xml", `capability="changedump" from=`)
		}
		if what == "related" {
			ask(base+".resourcesync/resourcelist.xml", `<rs:ln rel="duplicate" href="http://127.0.0.1:1/copy/a%20b" pri="1"/>`)
			ask(base+".resourcesync/resourcelist.xml", `<rs:ln rel="collection" href="`+base+`sub/"/>`)
			resp, err := http.Post(base+".resourcesync/batch", "application/json", strings.NewReader(`["`+base+`a%20b"]`))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			z, bad := zip.NewReader(bytes.NewReader(body), int64(len(body)))
			if err != nil || bad != nil || len(z.File) != 2 || resp.Header.Get("Content-Type") != "application/zip" {
				t.Errorf("batch: %s, %v, %v, %q", resp.Status, err, bad, body)
			}
		}
		if what == "records" {
			ask(base+"feeds/delta", "<report:subject>example.org/1</report:subject>")
		}
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if code := <-done; code != 0 {
			t.Errorf("%s: exit code %d", what, code)
		}
	}
}

// TestTellsHub starts the program with a hub and a token, in both ways.
func TestTellsHub(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for publish, want := range map[string]string{"resourcesync": "application/xml", "traditional": "application/x-www-form-urlencoded"} {
		posts := make(chan http.Header, 1000)
		hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			posts <- r.Header
		}))
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan int)
		go func() {
			done <- run(ctx, []string{"rssource", "--listen", "127.0.0.1:0", "--resources", "5", "--rate", "100",
				"--hub", hub.URL, "--publish", publish, "--publisher-token-file", token}, io.Discard, os.Stderr)
		}()
		for range 3 {
			h := <-posts
			if got := h.Get("Content-Type"); got != want && (got != "application/atom+xml" || publish == "traditional") ||
				h.Get("Authorization") != "Bearer s3cret" {
				t.Errorf("%s: %v", publish, h)
			}
		}
		cancel()
		if code := <-done; code != 0 {
			t.Errorf("%s: exit code %d", publish, code)
		}
		hub.Close()
	}
}
