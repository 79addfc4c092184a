package main_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"testing"
)

// TestDocNames: what the page of a package (doc.go) names exists, in the package itself ([Name], [Name.Member]) or in
// another of ours (package.Name, package.Name.Member).
func TestDocNames(t *testing.T) {
	t.Parallel()
	own := regexp.MustCompile(`\[(\w+(?:\.\w+)?)\]`)
	others := regexp.MustCompile(`\b([a-z]+)\.([A-Z]\w*(?:\.[A-Z]\w*)?)`)
	byName := map[string]map[string]bool{}
	pages := map[string]string{}
	for _, p := range house(t) {
		if p.Name == "main" || within(p.below(), "cmd") || within(p.below(), "destination/peer") {
			continue
		}
		byName[p.Name] = declared(t, p)
		for _, f := range p.GoFiles {
			if f == "doc.go" {
				pages[p.Name] = path.Join(p.below(), f)
			}
		}
	}
	for name, page := range pages {
		text := string(read(t, page))
		for _, m := range own.FindAllStringSubmatch(text, -1) {
			if !byName[name][m[1]] {
				t.Errorf("%s names %s, which is not there", page, m[1])
			}
		}
		for _, m := range others.FindAllStringSubmatch(text, -1) {
			if known := byName[m[1]]; known != nil && !known[m[2]] {
				t.Errorf("%s names %s, which is not there", page, m[0])
			}
		}
	}
}

// declared are the names that a package declares, those of members with their type's before them.
func declared(t *testing.T, p pkg) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	members := func(of string, list *ast.FieldList) {
		for _, f := range list.List {
			for _, name := range f.Names {
				names[of+"."+name.Name] = true
			}
		}
	}
	for _, f := range p.production() {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, f), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					name = embedded(d.Recv.List[0].Type) + "." + name
				}
				names[name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.ValueSpec:
						for _, name := range s.Names {
							names[name.Name] = true
						}
					case *ast.TypeSpec:
						names[s.Name.Name] = true
						switch typ := s.Type.(type) {
						case *ast.StructType:
							members(s.Name.Name, typ.Fields)
						case *ast.InterfaceType:
							members(s.Name.Name, typ.Methods)
						}
					}
				}
			}
		}
	}
	return names
}
