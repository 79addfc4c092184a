package destination

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Filter chooses resources by URI globs. Its zero value lets everything pass.
type Filter struct{ include, exclude *regexp.Regexp }

// NewFilter parses globs, which are compared with the whole URI. A single star stands for any run of characters without
// a slash, two stars for any run; every other character, the question mark too, stands for itself:
//
//	https://a.example/**.pdf    is every PDF of that host,
//	**/tmp/**                   is everything below a folder tmp,
//	https://a.example/*.xml     is only what lies at the top.
func NewFilter(include, exclude []string) (*Filter, error) {
	in, err := anyGlob("include", include)
	if err != nil {
		return nil, err
	}
	out, err := anyGlob("exclude", exclude)
	if err != nil {
		return nil, err
	}
	return &Filter{include: in, exclude: out}, nil
}

// Passes reports whether an include glob matches, or there is none, and no exclude glob does. The time is in proportion
// to the URI, whatever a Source writes into it.
func (f *Filter) Passes(uri string) bool {
	if f == nil {
		return true
	}
	return (f.include == nil || f.include.MatchString(uri)) && (f.exclude == nil || !f.exclude.MatchString(uri))
}

const globMax = 511 // bytes of a glob

// anyGlob is one expression for all globs of a list, nil for none.
func anyGlob(list string, globs []string) (*regexp.Regexp, error) {
	if len(globs) == 0 {
		return nil, nil
	}
	star := strings.NewReplacer(`\*\*`, ".*", `\*`, "[^/]*")
	each := make([]string, len(globs))
	for i, g := range globs {
		if err := checkGlob(g); err != nil {
			return nil, fmt.Errorf("%s glob %q: %w", list, g, err)
		}
		each[i] = star.Replace(regexp.QuoteMeta(g))
	}
	return regexp.Compile("(?s)^(?:" + strings.Join(each, "|") + ")$")
}

func checkGlob(s string) error {
	switch {
	case s == "":
		return errors.New("an empty glob matches nothing")
	case len(s) > globMax:
		return fmt.Errorf("longer than %d bytes", globMax)
	case !strings.Contains(s, "**") && !strings.Contains(s, "/"):
		return errors.New("matches no URI, because * does not match a slash: begin with the scheme or with **")
	}
	return nil
}
