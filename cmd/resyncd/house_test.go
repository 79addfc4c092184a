package main_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// topLevel is everything that may lie at the root (CONTRIBUTING.md 4).
var topLevel = []string{
	"cmd", "destination", "sync", "store", "callback", "go.mod", "go.sum", "config.example.yaml", "README.md", "LICENSE",
	".ci", ".github", ".gitignore", ".golangci.yml", ".goreleaser.yaml",
}

// tracked lists the files that belong to the project: what git knows or would take, or, outside a checkout, all.
func tracked(t *testing.T) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root(t)
	if out, err := cmd.Output(); err == nil && len(out) > 0 {
		files := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
		// A file that was removed and not yet committed is still listed.
		return slices.DeleteFunc(files, func(f string) bool {
			_, err := os.Lstat(filepath.Join(root(t), f))
			return err != nil
		})
	}
	var files []string
	err := filepath.WalkDir(root(t), func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == ".git" {
			return filepath.SkipDir
		}
		if !d.IsDir() {
			rel, err := filepath.Rel(root(t), name)
			if err != nil {
				return err
			}
			files = append(files, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root(t), file))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestTopLevel(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, file := range tracked(t) {
		top, _, _ := strings.Cut(file, "/")
		seen[top] = true
	}
	for _, top := range slices.Sorted(maps.Keys(seen)) {
		if !slices.Contains(topLevel, top) {
			t.Errorf("%s does not belong at the top level (CONTRIBUTING.md 4)", top)
		}
	}
	for _, top := range topLevel {
		if !seen[top] && top != "callback" { // its room is built with the daemon
			t.Errorf("%s is missing at the top level", top)
		}
	}
}

// TestPackageComments: every package opens with one sentence on what it knows and what it refuses to know.
func TestPackageComments(t *testing.T) {
	t.Parallel()
	vague := []string{"util", "utils", "common", "helpers", "misc", "base", "shared", "types"}
	for _, p := range house(t) {
		if len(p.GoFiles) == 0 { // tests of something that is not there
			t.Errorf("%s holds no code", p.ImportPath)
			continue
		}
		opening := "Package " + p.Name + " "
		if p.Name == "main" {
			opening = "Command " + filepath.Base(p.Dir) + " "
		}
		if !strings.HasPrefix(p.Doc, opening) || !strings.HasSuffix(p.Doc, ".") {
			t.Errorf("%s opens with %q; write one sentence that begins with %q", p.ImportPath, p.Doc, opening)
		}
		if slices.Contains(vague, p.Name) {
			t.Errorf("%s: a package of that name knows nothing in particular", p.ImportPath)
		}
		var commented []string
		for _, f := range p.GoFiles {
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, f), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if parsed.Doc != nil {
				commented = append(commented, f)
				if !regexp.MustCompile(`(?i)\b(knows?|refuses?)\b`).MatchString(parsed.Doc.Text()) {
					t.Errorf("%s: the comment does not say what the package knows and refuses to know", p.ImportPath)
				}
			}
		}
		if len(commented) > 1 {
			t.Errorf("%s is commented in %s; once is enough", p.ImportPath, strings.Join(commented, " and "))
		}
	}
}

// exported are the exported top-level names of the Go files in dir.
func exported(t *testing.T, dir string, files []string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	add := func(id *ast.Ident) {
		if id.IsExported() {
			names[id.Name] = true
		}
	}
	for _, f := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, f), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add(d.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						add(s.Name)
					case *ast.ValueSpec:
						for _, id := range s.Names {
							add(id)
						}
					}
				}
			}
		}
	}
	return names
}

// TestNoStandardSyncNames: a forgotten alias must fail to build, not build something else.
func TestNoStandardSyncNames(t *testing.T) {
	t.Parallel()
	lines := strings.Split(strings.TrimSpace(string(output(t, "go", "list", "-f", "{{.Dir}}{{range .GoFiles}}\n{{.}}{{end}}", "sync"))), "\n")
	standard := exported(t, lines[0], lines[1:])
	if !standard["Mutex"] {
		t.Fatalf("the standard sync is not readable: %v", standard)
	}
	for _, p := range house(t) {
		if p.below() != "sync" {
			continue
		}
		for name := range exported(t, p.Dir, p.production()) {
			if standard[name] {
				t.Errorf("sync exports %s, as the standard sync does", name)
			}
		}
	}
}

// TestLibcOfSqlite: sqlite is tested with the libc that its go.mod names, and no other (dependencies.md 3.1).
func TestLibcOfSqlite(t *testing.T) {
	t.Parallel()
	const libc = "modernc.org/libc"
	fields := strings.Fields(string(output(t, "go", "list", "-m", "-f", "{{.Version}} {{.GoMod}}", libc, "modernc.org/sqlite")))
	if len(fields) != 4 {
		t.Fatalf("go list says %q", fields)
	}
	gomod, err := os.ReadFile(fields[3])
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^\s*(?:require )?` + regexp.QuoteMeta(libc) + ` (\S+)`).FindSubmatch(gomod)
	if m == nil || string(m[1]) != fields[0] {
		t.Errorf("%s is at %s, but sqlite names %s; update sqlite only, then run go mod tidy", libc, fields[0], m)
	}
}

// calls reports where a file uses those names of the package at pkgPath that are bad.
func calls(t *testing.T, file, pkgPath string, bad func(name string) bool, report func(name, at string)) {
	t.Helper()
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, filepath.Join(root(t), file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	local := ""
	for _, spec := range parsed.Imports {
		if strings.Trim(spec.Path.Value, `"`) == pkgPath {
			local = filepath.Base(pkgPath)
			if spec.Name != nil {
				local = spec.Name.Name
			}
		}
	}
	if local == "" {
		return
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == local && bad(sel.Sel.Name) {
				report(sel.Sel.Name, fmt.Sprintf("%s:%d", file, fset.Position(sel.Pos()).Line))
			}
		}
		return true
	})
}

func goFiles(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(tracked(t), func(f string) bool {
		return !strings.HasSuffix(f, ".go") || strings.Contains(f, "/testdata/")
	})
}

func TestNoSleepInTests(t *testing.T) {
	t.Parallel()
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") {
			calls(t, file, "time", func(name string) bool { return name == "Sleep" }, func(_, at string) {
				t.Errorf("%s sleeps; wait for a signal (in a testing/synctest bubble, <-time.After lets the clock run)", at)
			})
		}
	}
}

// TestOneDoorOut: destination/fetch is the only package that dials (CONTRIBUTING.md 3.5).
func TestOneDoorOut(t *testing.T) {
	t.Parallel()
	inHTTP := []string{"Get", "Post", "PostForm", "Head", "Client", "DefaultClient", "Transport", "DefaultTransport", "NewRequest", "NewRequestWithContext"}
	inNet := func(name string) bool {
		return strings.HasPrefix(name, "Dial") || strings.HasPrefix(name, "Lookup") || name == "Resolver"
	}
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "destination/fetch/") {
			continue
		}
		report := func(name, at string) { t.Errorf("%s uses %s; destination/fetch is the only door out", at, name) }
		calls(t, file, "net", inNet, report)
		calls(t, file, "net/http", func(name string) bool { return slices.Contains(inHTTP, name) }, report)
	}
}

func TestFileLength(t *testing.T) {
	t.Parallel()
	const most = 600
	for _, file := range goFiles(t) {
		if n := bytes.Count(read(t, file), []byte("\n")); n > most {
			t.Errorf("%s has %d lines; split it by what it knows (at most %d)", file, n, most)
		}
	}
}

// TestNoTraceOfThisMachine: nothing tracked may name a folder or a registry of the machine on which it was written.
func TestNoTraceOfThisMachine(t *testing.T) {
	t.Parallel()
	folders := regexp.MustCompile(`(^|[\s"'=:(` + "`" + `])/(work|farm|root|tmp/bash_jobs[.]?[0-9]*)/`)
	var hosts []string
	for _, value := range strings.Fields(string(output(t, "go", "env", "GOPROXY", "GOSUMDB", "GONOSUMDB"))) {
		for part := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ',' || r == '|' }) {
			if u, err := url.Parse(part); err == nil && u.Hostname() != "" && u.Hostname() != "proxy.golang.org" && u.Hostname() != "sum.golang.org" {
				hosts = append(hosts, u.Host)
			}
		}
	}
	for _, file := range tracked(t) {
		info, err := os.Lstat(filepath.Join(root(t), file))
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		for i, line := range bytes.Split(read(t, file), []byte("\n")) {
			if folders.Match(line) {
				t.Errorf("%s:%d names a folder of one machine", file, i+1)
			}
			for _, host := range hosts {
				if bytes.Contains(line, []byte(host)) {
					t.Errorf("%s:%d names %s", file, i+1, host)
				}
			}
		}
	}
}

// pageModule has the table of dependencies.
const pageModule = ".github/dependencies.md"

// TestDependencyTable: each direct module stands in the table of dependencies, with its reason.
func TestDependencyTable(t *testing.T) {
	t.Parallel()
	direct, _ := requirements(t)
	page := string(read(t, pageModule))
	_, table, _ := strings.Cut(page, "\n## 1. ")
	table, _, _ = strings.Cut(table, "\n## ")
	for _, mod := range direct {
		row := regexp.MustCompile(`(?m)^\|[^\n]*(^|[^\w./-])` + regexp.QuoteMeta(mod) + `([^\w./-][^\n]*)?\|`)
		if !row.MatchString(table) {
			t.Errorf("%s has no row for %s in its table of dependencies", pageModule, mod)
		}
	}
}

// TestOneRecover: a panic is recovered from in one place, so that none is swallowed without its stack.
func TestOneRecover(t *testing.T) {
	t.Parallel()
	for name, files := range measured(t) {
		for _, f := range files {
			if name != "destination/safe" && bytes.Contains(f.data, []byte("recover()")) {
				t.Errorf("%s recovers from a panic: use destination/safe", f.name)
			}
		}
	}
}
