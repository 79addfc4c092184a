package config

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite golden files and config.example.yaml")

// same compares configurations; some of their values have only unexported fields.
var same = cmp.Options{
	cmpopts.EquateComparable(netip.Prefix{}), cmpopts.EquateEmpty(),
	cmp.Comparer(func(a, b Secret) bool { return a.Reveal() == b.Reveal() }),
	cmp.Comparer(func(a, b Schedule) bool { return a.String() == b.String() }),
}

func load(t *testing.T, text string, env ...string) *Config {
	t.Helper()
	cfg, err := Load(write(t, t.TempDir(), "resyncd.yaml", text, 0o600), env)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func write(t *testing.T, dir, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
	return path
}

func TestNothingGivenIsDefault(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\n", "# only a comment\n", "---\n", "{}\n", "sources:\ncallback:\n", "\ufeffsources: []\n", "store: sqlite\r\n"} {
		if diff := cmp.Diff(Default(), load(t, text), same); diff != "" {
			t.Errorf("%q (-default +loaded):\n%s", text, diff)
		}
	}
	cfg, err := Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), cfg, same); diff != "" {
		t.Errorf("no file (-default +loaded):\n%s", diff)
	}
}

// TestProblems holds every message to a golden: each archive has the file, the environment and what is wrong.
func TestProblems(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/errors/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no goldens: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			ar, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			part := func(name string) *txtar.File {
				for i := range ar.Files {
					if ar.Files[i].Name == name {
						return &ar.Files[i]
					}
				}
				return &txtar.File{}
			}
			cfg, r := decode("resyncd.yaml", part("resyncd.yaml").Data, strings.Split(string(part("env").Data), "\n"))
			got := ""
			if err := r.err(); err != nil {
				got = err.Error() + "\n"
			}
			for _, w := range cfg.Warnings {
				got += "warning: " + w + "\n"
			}
			want := part("want")
			if *update {
				want.Data = []byte(got)
				if err := os.WriteFile(path, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(want.Data), got); diff != "" {
				t.Errorf("(-want +got; -update rewrites):\n%s", diff)
			}
			if strings.Contains(got, "hunter2") {
				t.Error("a secret is shown")
			}
		})
	}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	const text = `
network: { idle_timeout: 10s, retry_for: 10s, allow: [10.0.0.0/8] }
defaults: { concurrency: 2, rate: 0.5 }
sources:
  - { name: a, url: "https://a.example/" }
  - { name: b, url: "https://b.example/", concurrency: 3 }
`
	cfg := load(t, text, "RESYNCD_NETWORK_RETRY_FOR=20s", "RESYNCD_NETWORK_ALLOW=127.0.0.0/8, ::1", "RESYNCD_DEFAULTS_CONCURRENCY=4",
		"RESYNCD_NETWORK_IDLE_TIMEOUT=", "RESYNCD_CONSOLE_LISTEN=off", "UNRELATED=x", "RESYNCD_TEST_REQUIRE=y")
	if got, want := cfg.Network.IdleTimeout, 10*time.Second; got != want {
		t.Errorf("an empty variable must count as not set: idle_timeout %v, want %v", got, want)
	}
	if got, want := cfg.Network.RetryFor, 20*time.Second; got != want {
		t.Errorf("variable over file: retry_for %v, want %v", got, want)
	}
	if got, want := cfg.Network.Allow, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}; !slices.Equal(got, want) {
		t.Errorf("allow %v, want %v", got, want)
	}
	if cfg.Console.Listen != "" {
		t.Errorf("console.listen %q, want it off", cfg.Console.Listen)
	}
	concurrency := func() [3]int {
		return [3]int{cfg.Defaults.Concurrency, cfg.Sources[0].Concurrency, cfg.Sources[1].Concurrency}
	}
	if got, want := concurrency(), [3]int{4, 4, 3}; got != want {
		t.Errorf("concurrency of defaults, a, b: %v, want %v", got, want)
	}
	if got := cfg.Sources[1].Rate; got != 0.5 {
		t.Errorf("rate of b: %v, want that of defaults", got)
	}
	cfg, err := Load(write(t, t.TempDir(), "resyncd.yaml", text, 0o600), []string{"RESYNCD_DEFAULTS_CONCURRENCY=4"},
		Flag{"concurrency", "defaults.concurrency", "9"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := concurrency(), [3]int{9, 9, 9}; got != want {
		t.Errorf("after the flag, concurrency of defaults, a, b: %v, want %v", got, want)
	}
	if len(cfg.Warnings) != 0 {
		t.Errorf("warnings: %q", cfg.Warnings)
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ path, text, want string }{
		{"network.retry_for", "soon", `--flag: network.retry_for: "soon" is not a duration: write a number with its unit, such as 30s, 15m or 168h`},
		{"defaults.delete", "burn", `--flag: defaults.delete: "burn" is not allowed; write one of trash, keep, now`},
		{"console.listen", "127.0.0.1:8090", `--flag: console.listen: is the address of the other listener too: hubs must not reach the console`},
	} {
		_, r := decode("f", []byte("sources: [{ name: a, url: 'https://a.example/' }]"), nil, Flag{"flag", tc.path, tc.text})
		if err := r.err(); err == nil || err.Error() != "invalid configuration:\n  "+tc.want {
			t.Errorf("%s %s: %v, want %s", tc.path, tc.text, err, tc.want)
		}
	}
}

// TestLongList: a list of the most items is read at once; each item that was held against copies of all before took seconds.
func TestLongList(t *testing.T) {
	t.Parallel()
	text := []byte("defaults:\n  collections:\n")
	for i := range maxItems {
		text = fmt.Appendf(text, "    - urn:%d\n", i)
	}
	file := write(t, t.TempDir(), "resyncd.yaml", string(text), 0o600)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if cfg, err := Load(file, nil); err != nil || len(cfg.Defaults.Collections) != maxItems {
		t.Fatal(err)
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 1<<30 { // others count too
		t.Errorf("%d bytes", after.TotalAlloc-before.TotalAlloc)
	}
}

func TestMirrorFollowsDataDir(t *testing.T) {
	t.Parallel()
	if got := load(t, "data_dir: /srv/r\n").Mirror; got != "/srv/r/mirror" {
		t.Errorf("mirror %q", got)
	}
	if got := load(t, "data_dir: /srv/r\nmirror: /m\n").Mirror; got != "/m" {
		t.Errorf("mirror %q", got)
	}
	if got := load(t, "", "RESYNCD_DATA_DIR=/d").Mirror; got != "/d/mirror" {
		t.Errorf("mirror %q", got)
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	find := func(flag string, env ...string) string {
		t.Helper()
		path, err := Find(flag, env)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	if got := find("", "RESYNCD_CONFIG="); got != "" && got != "/etc/resyncd/resyncd.yaml" {
		t.Errorf("nothing there: %q", got)
	}
	write(t, dir, "resyncd.yaml", "", 0o600)
	if got := find(""); got != "./resyncd.yaml" {
		t.Errorf("in the folder: %q", got)
	}
	if got := find("", "RESYNCD_CONFIG=e.yaml"); got != "e.yaml" {
		t.Errorf("by variable: %q", got)
	}
	if got := find("f.yaml", "RESYNCD_CONFIG=e.yaml"); got != "f.yaml" {
		t.Errorf("by flag: %q", got)
	}
	if got := Named("", nil); got != "" {
		t.Errorf("named by nobody: %q", got)
	}
	if _, err := Load("f.yaml", nil); err == nil || err.Error() != "read config f.yaml: no such file or directory" {
		t.Errorf("a named file that is missing: %v", err)
	}
	write(t, dir, "big.yaml", strings.Repeat("# x\n", maxFile/4+1), 0o600)
	if _, err := Load("big.yaml", nil); err == nil || !strings.Contains(err.Error(), "larger than 2MiB") {
		t.Errorf("a file beyond the limit: %v", err)
	}
}

func TestAdhocAndSource(t *testing.T) {
	t.Parallel()
	cfg := Default()
	cfg.Defaults.Concurrency = 5
	s, err := cfg.Adhoc("x", "http://127.0.0.1:8888/")
	if err != nil || s.Concurrency != 5 || s.Kind != KindAuto || s.URL != "http://127.0.0.1:8888/" {
		t.Errorf("%+v, %v", s, err)
	}
	for _, bad := range []string{"", "ftp://h/", "http://", "http:///x", "http://u:p@h/", "http://h/#x", "http://h:0/", "http://h:99999/", "http://h/\u202e", "h/x"} {
		if _, err := cfg.Adhoc("x", bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	cfg.Sources = []Source{s}
	if _, ok := cfg.Source("x"); !ok {
		t.Error("x is not found")
	}
	if _, ok := cfg.Source("X"); ok {
		t.Error("X is found")
	}
}

// TestKeys reads every default, limit and choice of the schema once, so that the loader need not doubt them.
func TestKeys(t *testing.T) {
	t.Parallel()
	cfg := Default()
	if _, r := decode("starter", []byte(Starter()), nil); r.err() != nil {
		t.Error(r.err())
	}
	variables := map[string]string{}
	limits := regexp.MustCompile(`write (\S+) to (\S+)$`)
	check := func(path string, k key) {
		if other, ok := variables[variableOf(path)]; ok {
			t.Errorf("%s and %s share a variable", path, other)
		}
		variables[variableOf(path)] = path
		if k.clear != nil {
			return
		}
		given := k.texts()[0]
		if err := k.set(given); err != nil && !strings.HasPrefix(path, "source.") {
			t.Errorf("%s: the default %s", path, err)
		}
		for _, wrong := range []string{"-1", "0", "0s", "9999999", "9999999h"} {
			if err := k.set(wrong); err != nil {
				m := limits.FindStringSubmatch(err.Error())
				if m == nil {
					continue
				}
				for _, limit := range m[1:] {
					if err := k.set(limit); err != nil {
						t.Errorf("%s: limit %s", path, err)
					}
				}
				if told := "(" + m[1] + " to " + m[2] + ")"; !strings.Contains(Starter(), told) {
					t.Errorf("%s: the starter does not tell %s", path, told)
				}
			}
		}
	}
	leaves("", cfg.keys(), check)
	leaves("source", new(Source).keys(), check)
	if len(variables) < 50 {
		t.Errorf("only %d keys seen", len(variables))
	}
}

func TestErrorIsBounded(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"sources:\n" + strings.Repeat("- {}\n", maxItems+1): "f:2: sources: has 10001 entries: at most 10000 are allowed",
		strings.Repeat("a: 1\n", maxItems+1):                "f:1: has 10001 keys: no more than 10000 are ever right",
		strings.Repeat("[", maxFile):                        "f:1: not readable as YAML: exceeded max depth of 10000",
	} {
		if _, r := decode("f", []byte(text), nil); r.err() == nil || r.err().Error() != "invalid configuration:\n  "+want {
			t.Errorf("%.20q: %v, want %s", text, r.err(), want)
		}
	}
	var text strings.Builder
	for range 5000 {
		text.WriteString("- x\n")
	}
	_, r := decode("f", []byte("sources:\n"+text.String()), nil)
	bad, ok := errors.AsType[*Error](r.err())
	if !ok || len(bad.Problems) != 5000 {
		t.Fatalf("%d problems", len(bad.Problems))
	}
	if n := strings.Count(bad.Error(), "\n"); n != shownProblems+1 {
		t.Errorf("%d lines", n)
	}
}
