package main_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// The measures of the house.
const (
	mostLines     = 60_000 + 4_400 // of production code, blank ones and comments too: all up to 0.10, and contract.md 6
	mostFiles     = 30             // production files of a package
	mostFields    = 18             // fields of a struct with behaviour
	mostMutexes   = 5              // of the engine
	mostColumns   = 120            // of a line, with tabs of 4
	mostWordsEach = 130            // words of comment for a hundred lines of code, in the engine
)

// bounded holds what was counted against what may be.
func bounded(t *testing.T, what string, counted map[string]int, most int, advice string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(counted)) {
		if n := counted[name]; n > most {
			t.Errorf("%s: %d %s, at most %d: %s", name, n, what, most, advice)
		}
	}
}

// source is a production file of a package.
type source struct {
	name string // from the root
	data []byte
}

// measured reads the production files of every package, but not of those that only tests import.
func measured(t *testing.T) map[string][]source {
	t.Helper()
	all := map[string][]source{}
	for _, p := range house(t) {
		if p.forTests() {
			continue
		}
		for _, f := range p.production() {
			name := filepath.ToSlash(filepath.Join(p.below(), f))
			all[p.below()] = append(all[p.below()], source{name: name, data: read(t, name)})
		}
	}
	return all
}

func TestLinesOfTheHouse(t *testing.T) {
	t.Parallel()
	const house = "the house"
	counted := map[string]int{}
	for _, files := range measured(t) {
		for _, f := range files {
			counted[house] += bytes.Count(f.data, []byte("\n"))
		}
	}
	bounded(t, "production lines", counted, mostLines, "what comes is paid for by what goes")
}

func TestFilesOfAPackage(t *testing.T) {
	t.Parallel()
	counted := map[string]int{}
	for name, files := range measured(t) {
		counted[name] = len(files)
	}
	bounded(t, "production files", counted, mostFiles, "find the room that one sentence describes")
}

// inSettings are the names of structs that only say how something is to be done.
var inSettings = regexp.MustCompile(`(?i)(config|options|settings)$`)

// TestFieldsOfAStruct counts what a struct with behaviour holds together. A struct of exported fields only is a record or a
// line of JSON, and one that is named for options or configuration may have as many as there are choices.
func TestFieldsOfAStruct(t *testing.T) {
	t.Parallel()
	counted := map[string]int{}
	for name, files := range measured(t) {
		for _, f := range files {
			for typ, st := range structs(t, f) {
				n, inside := fields(st)
				if inside > 0 && !inSettings.MatchString(typ) {
					counted[name+"."+typ] = n
				}
			}
		}
	}
	bounded(t, "fields", counted, mostFields, "find the two or three things in it")
}

// structs are the struct types that a file declares at its top level, by name.
func structs(t *testing.T, f source) map[string]*ast.StructType {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), f.name, f.data, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*ast.StructType{}
	for _, decl := range parsed.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range gen.Specs {
			if ts, ok := spec.(*ast.TypeSpec); ok {
				if st, ok := ts.Type.(*ast.StructType); ok {
					found[ts.Name.Name] = st
				}
			}
		}
	}
	return found
}

// fields counts the fields of a struct, and those that no other package can name. An embedded type is one field.
func fields(st *ast.StructType) (all, unexported int) {
	for _, field := range st.Fields.List {
		if len(field.Names) == 0 {
			all++
			if !ast.IsExported(embedded(field.Type)) {
				unexported++
			}
		}
		for _, name := range field.Names {
			all++
			if !name.IsExported() {
				unexported++
			}
		}
	}
	return all, unexported
}

// embedded is the name by which an embedded type is known.
func embedded(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.StarExpr:
		return embedded(x.X)
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.IndexExpr:
		return embedded(x.X)
	case *ast.IndexListExpr:
		return embedded(x.X)
	}
	return ""
}

// TestMutexesOfTheEngine counts the fields and variables that are locks: each is an order that has to be kept in mind. A
// map or a pointer that many goroutines share is a lock by another name.
func TestMutexesOfTheEngine(t *testing.T) {
	t.Parallel()
	const engine = "sync"
	counted := map[string]int{engine: 0}
	for name, files := range measured(t) {
		if !within(name, engine) {
			continue
		}
		for _, f := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), f.name, f.data, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				switch d := n.(type) {
				case *ast.Field:
					if isMutex(d.Type) {
						counted[engine] += max(1, len(d.Names))
					}
				case *ast.ValueSpec:
					if isMutex(d.Type) {
						counted[engine] += len(d.Names)
					}
				}
				return true
			})
		}
	}
	bounded(t, "mutexes", counted, mostMutexes, "have one owner, or hand it over by a channel")
}

// isMutex reports whether a type is a lock of the standard sync, however that is imported, or guards a value as one does.
func isMutex(e ast.Expr) bool {
	switch t := e.(type) {
	case *ast.IndexExpr: // atomic.Pointer[T]
		return isMutex(t.X)
	case *ast.SelectorExpr:
		from, _ := t.X.(*ast.Ident)
		switch t.Sel.Name {
		case "Mutex", "RWMutex":
			return true
		case "Map":
			return from != nil && strings.HasSuffix(from.Name, "sync")
		case "Pointer", "Value":
			return from != nil && from.Name == "atomic"
		}
	}
	return false
}

func TestLengthOfLines(t *testing.T) {
	t.Parallel()
	for _, files := range measured(t) {
		for _, f := range files {
			for i, line := range bytes.Split(f.data, []byte("\n")) {
				if n := columns(string(line)); n > mostColumns {
					t.Errorf("%s:%d has %d columns, at most %d: break the line", f.name, i+1, n, mostColumns)
				}
			}
		}
	}
}

// columns is how wide a line is shown.
func columns(line string) int {
	return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
}

// atTheEnd is a comment behind code.
var atTheEnd = regexp.MustCompile(`\s// (.*)$`)

// TestWordsOfComment holds what has to be read beside the code to what the code is worth.
func TestWordsOfComment(t *testing.T) {
	t.Parallel()
	const engine = "sync"
	code, words := 0, 0
	for name, files := range measured(t) {
		if !within(name, engine) {
			continue
		}
		for _, f := range files {
			if path.Base(f.name) == "doc.go" { // a page by itself
				continue
			}
			for line := range strings.Lines(string(f.data)) {
				line = strings.TrimSpace(line)
				if comment, ok := strings.CutPrefix(line, "//"); ok {
					words += len(strings.Fields(comment))
				} else if line != "" {
					code++
					if m := atTheEnd.FindStringSubmatch(line); m != nil {
						words += len(strings.Fields(m[1]))
					}
				}
			}
		}
	}
	counted := map[string]int{engine: 100 * words / max(1, code)}
	bounded(t, "words of comment for 100 lines of code", counted, mostWordsEach, "say what breaks without it, once")
}
