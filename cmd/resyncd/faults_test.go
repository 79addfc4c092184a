package main_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/version"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const catalogue = "cmd/resyncd/testdata/faults.md"

// faults is how many there are; threats is how many things each actor may try.
const faults = 94

var threats = []int{8, 7, 9, 2, 2, 4, 1, 5, 1}

// TestFaultCatalogue holds the catalogue of faults and threats to its word: none is missing, out of place or there twice,
// each names automated tests or a reason why there is none, and every test that is named is in the tree.
func TestFaultCatalogue(t *testing.T) {
	t.Parallel()
	var want []string
	for n := range faults {
		want = append(want, fmt.Sprintf("F%d", n+1))
	}
	for actor, tries := range threats {
		for n := range tries {
			want = append(want, fmt.Sprintf("T%d.%d", actor+1, n+1))
		}
	}
	declared := declaredTests(t)
	named, reasons, untested := map[string]bool{}, 0, 0
	var got []string
	for i, line := range strings.Split(string(read(t, catalogue)), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 2 || !regexp.MustCompile(`^ [FT]\d`).MatchString(cells[1]) {
			if regexp.MustCompile(`[FT]\d+[. ]*\|`).MatchString(line) {
				t.Errorf("line %d looks like a row and is none: %s", i+1, line)
			}
			continue
		}
		if len(cells) != 6 || strings.TrimSpace(cells[2]) == "" {
			t.Errorf("line %d is no row of four cells: %s", i+1, line)
			continue
		}
		number, tests, reason := strings.TrimSpace(cells[1]), cells[3], strings.TrimSpace(cells[4])
		got = append(got, number)
		refs := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(tests, -1)
		if rest := strings.Trim(regexp.MustCompile("`[^`]+`").ReplaceAllString(tests, ""), ", "); rest != "" {
			t.Errorf("%s: %q among the tests names none", number, rest)
		}
		for _, ref := range refs {
			named[ref[1]] = true
			if wrong := declared.lacks(ref[1]); wrong != "" {
				t.Errorf("%s: %s", number, wrong)
			}
		}
		if len(refs) == 0 && reason == "" {
			t.Errorf("%s has neither a test nor a reason", number)
		}
		if reason != "" {
			reasons++
		}
		if len(refs) == 0 {
			untested++
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the numbers are\n%v, want\n%v", got, want)
	}
	t.Logf("%d faults and things that are tried: %d tests are named, %d rows have none, %d say what is not tested or not there",
		len(got), len(named), untested, reasons)
}

// testNames are the test functions of the tree by package folder and name, each with what may be a name of its cases.
type testNames map[string]map[string]bool

// lacks says what is wrong with the name of a test, such as sync/queue.TestTimetable or sync.TestFetchFaults/F47_404.
func (n testNames) lacks(name string) string {
	m := regexp.MustCompile(`^([a-z0-9/]+\.\w+)(?:/(.+))?$`).FindStringSubmatch(name)
	switch {
	case m == nil:
		return name + " is no name of a test"
	case n[m[1]] == nil:
		return "there is no test " + m[1]
	case m[2] != "" && !n[m[1]][m[2]]:
		return fmt.Sprintf("%s has no case %s", m[1], m[2])
	}
	return ""
}

// declaredTests reads every test file, whatever system or tag it is for. Names of cases are taken to be string literals of
// the same file, or files that the test reads one by one from testdata.
func declaredTests(t *testing.T) testNames {
	t.Helper()
	all := testNames{}
	for _, file := range goFiles(t) {
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		cases := map[string]bool{}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					cases[strings.ReplaceAll(text, " ", "_")] = true
				}
			}
			return true
		})
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && isTest(f) {
				all[path.Dir(file)+"."+f.Name.Name] = cases
			}
		}
	}
	for function, folder := range map[string]string{
		"cmd/resyncd/e2e.TestScripts":              "cmd/resyncd/e2e/testdata/script",
		"cmd/resyncd/internal/config.TestProblems": "cmd/resyncd/internal/config/testdata/errors",
	} {
		files, err := filepath.Glob(filepath.Join(root(t), folder, "*.txtar"))
		if err != nil || len(files) == 0 || all[function] == nil {
			t.Fatalf("%s reads %s: %d files, %v", function, folder, len(files), err)
		}
		cases := map[string]bool{}
		for _, f := range files {
			cases[strings.TrimSuffix(filepath.Base(f), ".txtar")] = true
		}
		all[function] = cases
	}
	return all
}

// isTest reports whether go test would run a function.
func isTest(f *ast.FuncDecl) bool {
	kind := regexp.MustCompile(`^(Test|Benchmark|Fuzz)([^a-z]|$)`).FindStringSubmatch(f.Name.Name)
	if kind == nil || len(f.Type.Params.List) != 1 {
		return false
	}
	pointer, ok := f.Type.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	of, ok := pointer.X.(*ast.SelectorExpr)
	return ok && of.Sel.Name == map[string]string{"Test": "T", "Benchmark": "B", "Fuzz": "F"}[kind[1]]
}

// TestGoFloor: no Go is taken that has the holes which were closed in 1.26.6, in the reading of XML and below open folders
// among others (T9).
func TestGoFloor(t *testing.T) {
	t.Parallel()
	const floor = "go1.26.6"
	m := regexp.MustCompile(`(?m)^go (\S+)$`).FindSubmatch(read(t, "go.mod"))
	if m == nil || version.Compare("go"+string(m[1]), floor) < 0 {
		t.Errorf("go.mod asks for %s, at least %s is needed", m, floor)
	}
}
