package main_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The pages that define what comments cite.
const (
	pageWebSub = "destination/websub/websub.md"
	pageDigest = "destination/rsdoc/resourcesync-core.md"
	pageFaults = "cmd/resyncd/docs/faults.md"
	pageTests  = "cmd/resyncd/docs/testing.md"
	pageReadme = "README.md"
)

// passage is a piece of text that may cite something.
type passage struct {
	line int
	text string
}

// passages are the comments of a Go file, and with literals its string literals too; all lines of any other file.
func passages(t *testing.T, file string, literals bool) []passage {
	t.Helper()
	var out []passage
	if !strings.HasSuffix(file, ".go") {
		for i, line := range strings.Split(string(read(t, file)), "\n") {
			out = append(out, passage{i + 1, line})
		}
		return out
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, filepath.Join(root(t), file), nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range parsed.Comments {
		for _, c := range group.List {
			for i, line := range strings.Split(c.Text, "\n") {
				out = append(out, passage{fset.Position(c.Pos()).Line + i, line})
			}
		}
	}
	if literals {
		ast.Inspect(parsed, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				out = append(out, passage{fset.Position(lit.Pos()).Line, lit.Value})
			}
			return true
		})
	}
	return out
}

// citing are the tracked files in which somebody reads of pages: code, scripts, configuration, pages.
func citing(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(tracked(t), func(f string) bool {
		if strings.Contains(f, "/testdata/") && !strings.HasSuffix(f, ".txtar") && !strings.HasSuffix(f, ".md") {
			return true
		}
		return f != ".ci/run" && !slices.Contains([]string{".go", ".sh", ".yaml", ".yml", ".md", ".txtar", ".sql", ".service", ".socket"}, path.Ext(f))
	})
}

// TestPagesAreHere: every page that a tracked file cites by its name is in the repository, every section of a page that is
// cited is in that page, and every link of a page leads to a file.
func TestPagesAreHere(t *testing.T) {
	t.Parallel()
	files := tracked(t)
	name := regexp.MustCompile(`(?:[\w.-]+/)*[\w-]+\.md\b`)
	section := regexp.MustCompile("(?:[\\w.-]+/)*[\\w-]+\\.md`?,? (?:section )?(\\d+)(?:\\.(\\d+))?")
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	pages := map[string]string{}
	find := func(cited string) (page string) {
		for strings.HasPrefix(cited, "./") || strings.HasPrefix(cited, "../") {
			_, cited, _ = strings.Cut(cited, "/")
		}
		at := slices.IndexFunc(files, func(f string) bool { return f == cited || strings.HasSuffix(f, "/"+cited) })
		if at < 0 {
			return ""
		}
		return files[at]
	}
	cited := 0
	for _, file := range citing(t) {
		for _, p := range passages(t, file, true) {
			for _, n := range name.FindAllString(p.text, -1) {
				if cited++; find(n) == "" {
					t.Errorf("%s:%d cites %s, which is not in the repository", file, p.line, n)
				}
			}
			for _, m := range section.FindAllStringSubmatch(p.text, -1) {
				page := find(name.FindString(m[0]))
				if page != "" && pages[page] == "" {
					pages[page] = string(read(t, page))
				}
				if page != "" && !hasSection(pages[page], m[1], m[2]) {
					t.Errorf("%s:%d cites %q, which %s does not have", file, p.line, m[0], page)
				}
			}
			if path.Ext(file) != ".md" {
				continue
			}
			for _, m := range link.FindAllStringSubmatch(p.text, -1) {
				to := path.Join(path.Dir(file), m[1])
				if !slices.ContainsFunc(files, func(f string) bool { return within(f, to) }) {
					t.Errorf("%s:%d links to %s, which is not in the repository", file, p.line, m[1])
				}
			}
		}
	}
	if cited < 100 {
		t.Errorf("only %d citations were seen", cited)
	}
}

// hasSection reports whether a page has a section of this number, and in it a subsection or an item of that number, "" for any.
func hasSection(page, number, item string) bool {
	at := regexp.MustCompile(`(?m)^## ` + number + `\b`).FindStringIndex(page)
	if at == nil {
		return false
	}
	body, _, _ := strings.Cut(page[at[1]:], "\n## ")
	return item == "" || regexp.MustCompile(`(?m)^(### `+number+`\.)?`+item+`\b`).MatchString(body)
}

// TestCodesAreDefined: every number of a rule, a fault, a threat, a promise or a finding that a Go comment cites is defined in
// the page for its kind.
func TestCodesAreDefined(t *testing.T) {
	t.Parallel()
	kinds := []struct {
		name, page  string
		cited, defs *regexp.Regexp
	}{
		{"rule", pageWebSub, regexp.MustCompile(`\b([SHPRTQ]-\d{2})\b`), regexp.MustCompile(`(?m)^\| ([SHPRTQ]-\d{2}) \|`)},
		{"fault", pageFaults, regexp.MustCompile(`\b(F\d{1,3})\b`), regexp.MustCompile(`(?m)^\| (F\d+) \|`)},
		{"threat", pageFaults, regexp.MustCompile(`\b(T\d(?:\.\d)?)\b`), regexp.MustCompile(`\b(T\d(?:\.\d)?) `)},
		{"promise", pageReadme, regexp.MustCompile(`\b(P\d{1,2})\b`), regexp.MustCompile(`(?m)^\| (P\d+) `)},
		{"finding", pageTests, regexp.MustCompile(`\b(N\d{1,2})\b`), regexp.MustCompile(`(?m)^\| (N\d+) \|`)},
		{"section of the digest", pageDigest, regexp.MustCompile(`\[digest (\d+)`), regexp.MustCompile(`(?m)^## (\d+)\.`)},
	}
	for _, k := range kinds {
		defined := map[string]bool{}
		for _, m := range k.defs.FindAllStringSubmatch(string(read(t, k.page)), -1) {
			defined[m[1]] = true
		}
		seen := 0
		for _, file := range goFiles(t) {
			for _, p := range passages(t, file, false) {
				for _, m := range k.cited.FindAllStringSubmatch(p.text, -1) {
					if seen++; !defined[m[1]] {
						t.Errorf("%s:%d cites %s %s, which %s does not define", file, p.line, k.name, m[1], k.page)
					}
				}
			}
		}
		if seen == 0 {
			t.Errorf("no comment cites a %s", k.name)
		}
	}
}

// TestReadme: the README is short, and has each promise once.
func TestReadme(t *testing.T) {
	t.Parallel()
	readme := read(t, pageReadme)
	if n := bytes.Count(readme, []byte("\n")); n > 250 {
		t.Errorf("README.md has %d lines; what is longer belongs to the manual (at most 250)", n)
	}
	var got, want []string
	for _, m := range regexp.MustCompile(`(?m)^\| (P\d+) `).FindAllStringSubmatch(string(readme), -1) {
		got = append(got, m[1])
	}
	for n := range 12 {
		want = append(want, "P"+strconv.Itoa(n+1))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the promises are %v, want %v", got, want)
	}
}

// TestFaultsPage: the page of faults and threats that users read has the rows of the catalogue of tests.
func TestFaultsPage(t *testing.T) {
	t.Parallel()
	rows := func(file string) (out []string) {
		for _, m := range regexp.MustCompile(`(?m)^\| ([FT]\d[\d.]* \| [^|]*) \|`).FindAllStringSubmatch(string(read(t, file)), -1) {
			out = append(out, m[1])
		}
		return out
	}
	page, tests := rows(pageFaults), rows(catalogue)
	for i := range max(len(page), len(tests)) {
		if i >= len(page) || i >= len(tests) || page[i] != tests[i] {
			t.Fatalf("row %d: %s and %s differ: %q, %q", i+1, pageFaults, catalogue, page[min(i, len(page)-1)], tests[min(i, len(tests)-1)])
		}
	}
}
