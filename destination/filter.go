package destination

import "fmt"

// Filter chooses resources by URI globs. Its zero value lets everything pass.
type Filter struct{ include, exclude []*glob }

// NewFilter parses globs. A glob is compared with the whole URI, byte by byte and case-sensitively.
// A single star stands for any run of characters without a slash, and two stars for any run of
// characters; either run may be empty. Every other character, the question mark too, stands for
// itself. So
//
//	https://a.example/**.pdf    is every PDF of that host,
//	**/tmp/**                   is everything below a folder tmp,
//	https://a.example/*.xml     is only what lies at the top.
func NewFilter(include, exclude []string) (*Filter, error) {
	f := &Filter{}
	for _, list := range []struct {
		name  string
		globs []string
		to    *[]*glob
	}{{"include", include, &f.include}, {"exclude", exclude, &f.exclude}} {
		for _, s := range list.globs {
			g, err := compileGlob(s)
			if err != nil {
				return nil, fmt.Errorf("%s glob %q: %w", list.name, s, err)
			}
			*list.to = append(*list.to, g)
		}
	}
	return f, nil
}

// Passes reports whether an include glob matches, or there is none, and no exclude glob does.
func (f *Filter) Passes(uri string) bool {
	if f == nil {
		return true
	}
	return (len(f.include) == 0 || anyMatch(f.include, uri)) && !anyMatch(f.exclude, uri)
}

func anyMatch(globs []*glob, uri string) bool {
	for _, g := range globs {
		if g.match(uri) {
			return true
		}
	}
	return false
}
