package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "resyncd"

// mayImport is the import table of CONTRIBUTING.md section 4: who of ours may import whom of ours, by the path below the
// module. The longest prefix that fits a package rules it; packages under the same rule may import each other. "..." is
// everything.
var mayImport = map[string][]string{
	"store":             {},
	"store/sqlite":      {"store"},
	"store/postgres":    {"store"},
	"store/storetest":   {"store"},
	"store/blob":        {},
	"destination":       {"destination/backoff", "destination/safe", "destination/rsdoc", "destination/websub", "destination/feed", "destination/fetch", "store"},
	"destination/rsdoc": {}, "destination/websub": {"destination/feed"}, "destination/feed": {}, "destination/gate": {}, "destination/backoff": {}, "destination/safe": {}, "destination/rspack": {},
	"destination/fetch": {"destination/backoff"},
	"destination/peer":  {"destination/backoff", "destination/safe", "destination/rsdoc", "destination/websub", "destination/feed", "destination/fetch", "destination/gate", "store", "store/blob"},
	// The hub's database is a back end on another: the state of a Destination does not know the hub.
	"destination/peer/hub/hubdb": {"destination/peer/hub/hubstate", "store", "store/sqlite/dbfile", "store/sqlite/column"},
	"callback":                   {"destination/rsdoc", "destination/websub", "destination/gate", "destination/safe", "store"},
	"sync":                       {"destination", "destination/backoff", "destination/safe", "destination/rsdoc", "destination/feed", "destination/fetch", "store", "store/blob", "sync/inspect", "sync/report", "sync/spill", "sync/transfer", "sync/merge", "sync/coverage", "sync/keymap", "sync/window", "sync/parsed", "sync/plan", "sync/pull"},
	// Pure leaves of the engine: values in, values out.
	"sync/merge": {"store"}, "sync/coverage": {"store"}, "sync/keymap": {"store"}, "sync/window": {"store"},
	// Entries become wants here, whoever read them: no document is read, no state opened.
	"sync/plan": {"destination/feed", "store", "sync/keymap", "sync/merge", "sync/parsed", "sync/report", "sync/spill", "sync/transfer", "sync/window"},
	// Documents and notifications become wants and coverage; when, others decide.
	"sync/pull": {"destination", "destination/rsdoc", "destination/rspack", "destination/feed", "destination/fetch", "store", "store/blob", "sync/coverage", "sync/merge", "sync/parsed", "sync/plan", "sync/spill", "sync/transfer", "sync/window"},
	// It is told wants and knows no documents.
	"sync/transfer": {"destination/fetch", "destination/rsdoc", "destination/rspack", "destination/safe", "store", "store/blob", "sync/merge", "sync/parsed", "sync/spill"},
	// What comes from a Source, in the terms of the state: it knows documents and the rules, but no state and no network.
	"sync/parsed": {"destination/rsdoc", "store", "sync/merge", "sync/coverage"},
	// It keeps whatever it is given.
	"sync/spill": {},
	// What is told of the state is only read: nothing here may reach a mirror, the network or the engine.
	"sync/report": {"destination/feed", "store", "sync/merge", "sync/coverage"},
	// The auditor must not share what it checks: no merge, no planner.
	"sync/inspect": {"destination", "destination/backoff", "destination/rsdoc", "destination/feed", "destination/fetch", "store", "store/blob", "sync/spill"},
	"cmd":          {"..."},
	// Rooms of cmd/resyncd that need less than all.
	"cmd/resyncd/internal/config":  {"destination", "destination/safe"}, // to read globs as the walk does
	"cmd/resyncd/internal/logging": {"destination/safe"},
	"cmd/resyncd/internal/term":    {"cmd/resyncd/internal/logging", "store", "sync", "sync/report"},
	"cmd/resyncd/internal/control": {
		"cmd/resyncd/internal/exit", "cmd/resyncd/internal/logging", "cmd/resyncd/internal/mirror", "cmd/resyncd/internal/term",
		"store", "sync",
	},
	"cmd/resyncd/internal/health": {
		"cmd/resyncd/internal/config", "cmd/resyncd/internal/console",
		"destination/fetch", "destination/rsdoc", "destination/safe", "store", "store/blob", "sync", "sync/report", "sync/transfer",
	},
	"cmd/resyncd/internal/mirror": {
		"cmd/resyncd/internal/config", "cmd/resyncd/internal/exit",
		"destination", "destination/fetch", "store", "store/sqlite", "store/blob", "store/blob/dir", "sync", "sync/report",
	},
	"cmd/resyncd/internal/console": {
		"cmd/resyncd/internal/logging", "cmd/resyncd/internal/term",
		"destination/gate", "store", "sync/coverage", "sync/report",
	},
	"cmd/resyncd/internal/exit": {"cmd/resyncd/internal/config", "store", "store/blob", "sync", "sync/report"},
}

// backEnds are chosen in cmd and nowhere else, so that another can take their place.
var backEnds = []string{"store/sqlite", "store/postgres", "store/blob/dir", "store/blob/s3", "sync/queue/riverqueue", "destination/peer/hub/hubdb"}

// manyImporters are modules that more than one package of the engine may import. Programs may import any.
var manyImporters = []string{"golang.org/x"}

// testModules must not reach a program.
var testModules = []string{
	"github.com/google/go-cmp", "github.com/rogpeppe/go-internal", "go.uber.org/goleak", "pgregory.net/rapid", "github.com/johannesboyne/gofakes3", "testing",
	"github.com/chromedp/chromedp", "github.com/chromedp/cdproto",
}

// banned are packages of the standard library that have a better place in this house.
var banned = map[string]string{"log": "an injected log/slog", "math/rand": "math/rand/v2", "io/ioutil": "io and os"}

// pkg is what we need of `go list -json`.
type pkg struct {
	ImportPath, Name, Dir, Doc                                   string
	GoFiles, IgnoredGoFiles, CgoFiles, TestGoFiles, XTestGoFiles []string
}

// below is the package's path below the module, "sync/queue".
func (p pkg) below() string { return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/") }

// forTests reports whether the package exists for tests only: storetest, blobtest.
func (p pkg) forTests() bool { return strings.HasSuffix(p.below(), "test") }

// imp is one import statement.
type imp struct{ file, name, path string }

// imports reads the import statements of files, also of those that another system or build tag would take.
func (p pkg) imports(t *testing.T, files ...string) []imp {
	t.Helper()
	var out []imp
	for _, file := range files {
		name := filepath.Join(p.Dir, file)
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			i := imp{file: path.Join(p.below(), file)}
			if i.path, err = strconv.Unquote(spec.Path.Value); err != nil {
				t.Fatal(err)
			}
			if spec.Name != nil {
				i.name = spec.Name.Name
			}
			out = append(out, i)
		}
	}
	return out
}

// production lists the files that end in a program on some system.
func (p pkg) production() []string {
	files := slices.Concat(p.GoFiles, p.CgoFiles)
	for _, f := range p.IgnoredGoFiles {
		if !strings.HasSuffix(f, "_test.go") {
			files = append(files, f)
		}
	}
	return files
}

func (p pkg) tests() []string {
	files := slices.Concat(p.TestGoFiles, p.XTestGoFiles)
	for _, f := range p.IgnoredGoFiles {
		if strings.HasSuffix(f, "_test.go") {
			files = append(files, f)
		}
	}
	return files
}

// root is the folder of go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// output runs a command at the root and returns its standard output.
func output(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, exit.Stderr)
		}
		t.Fatal(err)
	}
	return out
}

// house lists every package of ours.
func house(t *testing.T) []pkg {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(output(t, "go", "list", "-json=ImportPath,Name,Dir,Doc,GoFiles,IgnoredGoFiles,CgoFiles,TestGoFiles,XTestGoFiles", "./...")))
	var all []pkg
	for {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 5 {
		t.Fatalf("go list names only %d packages", len(all))
	}
	return all
}

// within reports whether p is dir or lies below it.
func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// ruler is the longest prefix of p in the import table.
func ruler(p string) (string, bool) {
	best, found := "", false
	for prefix := range mayImport {
		if within(p, prefix) && len(prefix) >= len(best) {
			best, found = prefix, true
		}
	}
	return best, found
}

func allowed(from, to string) bool {
	rule, ok := ruler(from)
	if !ok {
		return false
	}
	if slices.ContainsFunc(backEnds, func(b string) bool { return within(to, b) && !within(from, b) }) {
		return slices.Contains(mayImport[rule], to) || within(from, "cmd") && slices.Contains(mayImport[rule], "...")
	}
	toRule, ok := ruler(to)
	return ok && (toRule == rule || slices.Contains(mayImport[rule], to) || slices.Contains(mayImport[rule], "...") && !within(to, "cmd/rssource") && !within(to, "cmd/rshub"))
}

func TestImportTable(t *testing.T) {
	t.Parallel()
	for _, p := range house(t) {
		from := p.below()
		if _, ok := ruler(from); !ok {
			t.Errorf("%s stands nowhere in the import table (CONTRIBUTING.md 4)", p.ImportPath)
			continue
		}
		for _, i := range p.imports(t, p.production()...) {
			to, ours := strings.CutPrefix(i.path, module+"/")
			if ours && !allowed(from, to) {
				t.Errorf("%s imports %s, which the import table does not allow (CONTRIBUTING.md 4)", i.file, to)
			}
			if ours && strings.HasSuffix(to, "test") && !p.forTests() {
				t.Errorf("%s imports %s, which is for tests", i.file, to)
			}
		}
		// Tests may use whatever lies below them or serves as load, but no face of the program.
		for _, i := range p.imports(t, p.tests()...) {
			if to, ours := strings.CutPrefix(i.path, module+"/"); ours && within(to, "cmd") && !within(from, "cmd") {
				t.Errorf("%s imports %s", i.file, to)
			}
		}
	}
}

// TestAllowed tests the table's reading, with what CONTRIBUTING.md says in words.
func TestAllowed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		from, to string
		want     bool
	}{
		{"sync", "callback", false}, {"callback", "sync", false},
		{"sync", "store", true}, {"sync", "store/blob", true}, {"sync", "store/sqlite", false}, {"sync", "store/blob/dir", false},
		{"sync", "sync/inspect", true}, {"sync/inspect", "sync", false}, {"sync/inspect", "store", true}, {"sync/inspect", "store/sqlite", false},
		{"sync", "sync/merge", true}, {"sync/merge", "sync/coverage", false}, {"sync/merge", "sync", false}, {"sync/keymap", "destination", false},
		{"sync", "sync/report", true}, {"sync/report", "sync", false}, {"sync/report", "store/blob", false}, {"sync/inspect", "sync/report", false}, {"sync/spill", "store", false}, {"sync/parsed", "destination/fetch", false}, {"sync/parsed", "sync", false},
		{"sync", "sync/pull", true}, {"sync/pull", "sync/plan", true}, {"sync/plan", "sync/pull", false}, {"sync/plan", "destination", false}, {"sync/transfer", "sync/plan", false},
		{"sync", "sync/transfer", true}, {"sync/transfer", "sync", false}, {"sync/transfer", "destination", false}, {"sync/inspect", "sync/transfer", false},
		{"sync/inspect", "sync/merge", false}, {"sync", "sync/queue", true}, {"sync", "sync/queue/riverqueue", false}, {"sync", "destination/websub", false}, {"sync", "destination/peer/source", false},
		{"destination/rsdoc", "destination", false}, {"destination/rsdoc", "destination/feed", false}, {"destination/rspack", "store", false}, {"sync/transfer", "destination/rspack", true}, {"sync/plan", "destination/rspack", false}, {"destination", "destination/rsdoc", true},
		{"destination", "store/blob", false}, {"destination", "destination/peer/source", false}, {"destination/peer/hub", "destination", false},
		{"destination/peer/source", "destination/peer/hub", true}, {"destination/fetch", "store", false},
		{"destination/peer/hub", "destination/peer/hub/hubstate", true}, {"destination/peer/hub", "destination/peer/hub/hubdb", false},
		{"destination/peer/hub/hubdb", "store/sqlite/dbfile", true}, {"destination/peer/hub/hubdb", "store/sqlite", false},
		{"destination/peer/hub/hubdb", "destination/peer/hub", false},
		{"store/sqlite", "destination/peer/hub/hubstate", false}, {"destination/peer/hub", "store/sqlite", false},
		{"store", "store/blob", false}, {"store/sqlite", "store", true}, {"store/blob", "store", false}, {"store/blob/dir", "store/blob", true},
		{"cmd/resyncd", "store/sqlite", true}, {"cmd/rssource", "destination/peer/source", true}, {"cmd/resyncd", "sync/queue/riverqueue", true},
		{"cmd/resyncd/internal/logging", "store", false},
		{"cmd/resyncd/internal/exit", "cmd/resyncd/internal/console", false},
		{"cmd/resyncd/internal/term", "cmd/resyncd/internal/exit", false},
		{"cmd/resyncd/internal/mirror", "cmd/resyncd/internal/term", false},
		{"cmd/resyncd/internal/mirror", "store/sqlite", true}, {"cmd/resyncd/internal/control", "store/sqlite", false},
		{"cmd/resyncd/internal/health", "cmd/resyncd/internal/mirror", false},
		{"cmd/resyncd/internal/console", "cmd/resyncd/internal/daemon", false},
		{"cmd/resyncd/internal/control", "cmd/resyncd/internal/daemon", false},
		{"cmd/resyncd/internal/daemon", "store/sqlite", true},
		{"cmd/resyncd/internal/daemon", "cmd/resyncd/internal/console", true}, {"cmd/resyncd", "cmd/resyncd/internal/config", true}, {"sync", "cmd/resyncd/internal/config", false},
		{"elsewhere", "store", false},
	} {
		if got := allowed(tc.from, tc.to); got != tc.want {
			t.Errorf("%s -> %s: %v", tc.from, tc.to, got)
		}
	}
}

func TestOneImporterPerModule(t *testing.T) {
	t.Parallel()
	direct, all := requirements(t)
	importers := map[string][]string{}
	used := map[string]bool{}
	for _, p := range house(t) {
		for _, i := range slices.Concat(p.imports(t, p.production()...), p.imports(t, p.tests()...)) {
			mod := moduleOf(i.path, all)
			used[mod] = true
			if strings.HasSuffix(i.file, "_test.go") || p.forTests() {
				continue
			}
			// A main may silence the standard logger, which net/http writes to.
			if why, ok := banned[i.path]; ok && !(i.path == "log" && filepath.Base(i.file) == "main.go") {
				t.Errorf("%s imports %s; use %s", i.file, i.path, why)
			}
			if slices.Contains(testModules, mod) || i.path == "testing" {
				t.Errorf("%s imports %s, which is for tests", i.file, i.path)
			}
			if mod != "" && !within(p.below(), "cmd") && !slices.Contains(importers[mod], p.below()) {
				importers[mod] = append(importers[mod], p.below())
			}
		}
	}
	for mod, by := range importers {
		if len(by) > 1 && !slices.ContainsFunc(manyImporters, func(m string) bool { return within(mod, m) }) {
			t.Errorf("%s is imported by %s; one package of the engine is enough (CONTRIBUTING.md 4)", mod, strings.Join(by, " and "))
		}
	}
	for _, mod := range direct {
		if !used[mod] {
			t.Errorf("nothing imports %s, which go.mod requires", mod)
		}
	}
}

// requirements reads go.mod: the direct modules, and all.
func requirements(t *testing.T) (direct, all []string) {
	t.Helper()
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(output(t, "go", "mod", "edit", "-json"), &mod); err != nil {
		t.Fatal(err)
	}
	for _, r := range mod.Require {
		all = append(all, r.Path)
		if !r.Indirect {
			direct = append(direct, r.Path)
		}
	}
	return direct, all
}

// moduleOf is the module that provides an import path, "" for the standard library and for ours.
func moduleOf(importPath string, modules []string) string {
	best := ""
	for _, m := range modules {
		if within(importPath, m) && len(m) > len(best) {
			best = m
		}
	}
	return best
}

// TestEngineAlias: outside, our sync goes by the name syncengine, so that it is never taken for the standard one.
func TestEngineAlias(t *testing.T) {
	t.Parallel()
	for _, p := range house(t) {
		for _, i := range p.imports(t, slices.Concat(p.production(), p.tests())...) {
			if i.path == module+"/sync" && i.name != "syncengine" && p.below() != "sync" {
				t.Errorf("%s imports sync as %q, not as syncengine", i.file, i.name)
			}
		}
	}
}
