package config

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/fuzztest"
)

const examplePath = "../../../../config.example.yaml"

// TestExampleFileIsCurrent: the starter, which is embedded, stands in the root too, for those who read the repository.
func TestExampleFileIsCurrent(t *testing.T) {
	t.Parallel()
	if *update {
		if err := os.WriteFile(examplePath, []byte(Starter()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(examplePath)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(data), Starter()); diff != "" {
		t.Errorf("config.example.yaml is stale; go test ./cmd/resyncd/internal/config -update (-file +starter.yaml):\n%s", diff)
	}
	cfg, err := Load(examplePath, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), cfg, same); diff != "" {
		t.Errorf("config.example.yaml differs from the defaults (-default +file):\n%s", diff)
	}
}

// TestExampleSource takes the sample Sources at their word: without the comment signs they load, and the first is all
// defaults.
func TestExampleSource(t *testing.T) {
	t.Parallel()
	head, sample, ok := strings.Cut(Starter(), "sources: []\n")
	if !ok {
		t.Fatal("no list of Sources")
	}
	_, sample, _ = strings.Cut(sample, "# sources:\n")
	text := head + "sources:\n" + strings.ReplaceAll("\n"+sample, "\n# ", "\n")
	cfg := load(t, text)
	want, err := Default().Adhoc("example", "https://example.org/")
	if err != nil {
		t.Fatal(err)
	}
	news, clinics := want, want
	news.Name, news.URL, news.Kind, news.Follow = "news", "https://blog.example.org/", KindFeed, []string{"enclosure"}
	news.Scope = []string{"https://media.example.org/"}
	clinics.Name, clinics.URL, clinics.Kind, clinics.Records = "clinics", "https://records.example.org/feeds/delta", KindFeed, "resource-finder"
	if diff := cmp.Diff([]Source{want, news, clinics}, cfg.Sources, same); diff != "" {
		t.Errorf("(-want +sample):\n%s", diff)
	}
}

// TestExampleHoldsEveryKey finds each key as a line of the file, and the choices it takes in a comment.
func TestExampleHoldsEveryKey(t *testing.T) {
	t.Parallel()
	text := Starter()
	check := func(path string, k key) {
		if !regexp.MustCompile(`(?m)^[# -]*` + k.name + `:`).MatchString(text) {
			t.Errorf("%s is missing", path)
		}
		// What a key takes is told by its error; the comment must name the same.
		err := k.set("?")
		if err == nil {
			return
		}
		if _, words, ok := strings.Cut(err.Error(), "write one of "); ok {
			if words = "(" + strings.ReplaceAll(words, ", ", " | ") + ")"; !strings.Contains(text, words) {
				t.Errorf("%s: the file does not say %s", path, words)
			}
		}
	}
	leaves("", Default().keys(), check)
	leaves("sources", new(Source).keys(), check)
	for i, line := range strings.Split(text, "\n") {
		if len([]rune(line)) > 120 || strings.TrimRight(line, " ") != line {
			t.Errorf("line %d is long or ends in blanks: %q", i+1, line)
		}
	}
}

const full = `
data_dir: /srv/resyncd
network: { allow: [10.0.0.0/8, "fd00::/8"], contact: "a: b # c" }
console: { listen: "" }
defaults: { rate: 2.5, max_resource: 4GiB, delete_guard: 12.5%, schedule: "5 4 * * 1-5", trash: 0s, metadata: only, collections: ["urn:x"] }
sources:
  - name: a
    url: https://a.example/?x=1
    sets: [https://a.example/capabilitylist.xml]
    scope: [https://cdn.example/a/]
    include: ["**"]
    exclude: ["**.tmp", "**:#'"]
    hub: https://hub.example/
    durability: none
    dumps: always
    max_dump: 20GiB
    duplicates: off
    patches: off
    collections: ["urn:isbn:1", "https://a.example/c?x=1"]
    metadata: without
    batch: https://a.example/batch?x=1
    batch_size: 7
    auth: { basic_user: "off", basic_password: hunter2 }
  - { name: feed, url: "https://f.example/feed", kind: feed, records: resource-finder, follow: [alternate, enclosure] }
  - { name: "007", url: "http://127.0.0.1:8888/", concurrency: 1, auth: { bearer: hunter2, header: { X-A: "1" } } }
`

// TestPrintLoadsAgain holds print to its word: valid, complete, and the same configuration but for the secrets.
func TestPrintLoadsAgain(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", full} {
		cfg := load(t, text)
		var out bytes.Buffer
		if err := cfg.Print(&out); err != nil {
			t.Fatal(err)
		}
		again := load(t, out.String())
		for i := range cfg.Sources {
			src := &cfg.Sources[i]
			for _, u := range []*string{&src.URL, &src.Hub, &src.Topic, &src.Batch} {
				hideQuery(u)
			}
			for _, list := range [][]string{src.Sets, src.Scope, src.Collections} {
				for j := range list {
					hideQuery(&list[j])
				}
			}
			a := &src.Auth
			for _, s := range []*Secret{&a.Bearer, &a.BasicPassword} {
				if s.IsSet() {
					*s = NewSecret(hidden)
				}
			}
			for name := range a.Header {
				a.Header[name] = NewSecret(hidden)
			}
		}
		if diff := cmp.Diff(cfg, again, same); diff != "" {
			t.Errorf("(-printed +loaded again):\n%s\n%s", diff, out.String())
		}
		leaves("", cfg.keys(), func(path string, k key) {
			if k.name != "password" && k.name != "token" && !strings.Contains(out.String(), k.name+":") {
				t.Errorf("%s is not printed", path)
			}
		})
	}
}

func hideQuery(u *string) {
	if path, query, ok := strings.Cut(*u, "?"); ok && query != "" {
		*u = path + "?" + hidden
	}
}

// FuzzLoad holds the loader to three things: no panic, an answer that names lines which exist, and that what it
// accepts is printed so that it is accepted again.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(Starter()))
	f.Add([]byte(full))
	for _, text := range []string{"a: &a [*a]\n", "---\n---\n", "<<: {}\n", "sources: [1, null, {}, []]\n", "? [x]\n: y\n", "defaults: !x {}\n", "\t", "x: \x00",
		"callback: { max_body: 99999999999TiB, listen: [::] }\n", "sources: [{ auth: { header: { A: 1, a: 2, A_file: b } } }]\n", "store: !!binary aGk=\n", "? \n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzztest.Bound(t)
		cfg, r := decode("f", data, nil)
		if r.err() != nil {
			for _, p := range r.problems {
				if p.line < 1 || strings.ContainsAny(p.What, "\n\x1b") {
					t.Errorf("problem %q at line %d", p, p.line)
				}
			}
			return
		}
		var out bytes.Buffer
		if err := cfg.Print(&out); err != nil {
			t.Fatal(err)
		}
		if _, r := decode("print", out.Bytes(), nil); r.err() != nil {
			t.Errorf("%v\nprinted from %q:\n%s", r.err(), data, out.String())
		}
	})
}

// FuzzEnvironment holds the variables to the same.
func FuzzEnvironment(f *testing.F) {
	f.Add("RESYNCD_NETWORK_ALLOW", "10.0.0.0/8,::1")
	f.Add("RESYNCD_DEFAULTS_SCHEDULE", "TZ=UTC")
	f.Add("RESYNCD_DEFAULTS_RATE", "NaN")
	f.Add("RESYNCD_CALLBACK_PORT_80_TCP", "tcp://10.0.0.1:80")
	f.Fuzz(func(t *testing.T, name, value string) {
		fuzztest.Bound(t)
		cfg, r := decode("", nil, []string{name + "=" + value})
		if r.err() == nil {
			if err := cfg.Print(new(bytes.Buffer)); err != nil {
				t.Fatal(err)
			}
		}
	})
}
