package destination

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Scope is where the resources of a set may lie (F51): at the origin of its Capability List or bare list, and below the
// configured prefixes. It is read only.
type Scope struct{ entries []scopeEntry }

type scopeEntry struct {
	tls    bool
	host   string // IPv6 with brackets
	port   string // "" for the scheme's default
	prefix string // path and query, "" for everything
	inside bool   // prefix ends within a segment, which must end there
}

// NewScope is the scope of the set with that ID. A prefix that ends in a letter or a digit stands for that resource and
// what is below it: https://a.example/data covers https://a.example/data/1 and https://a.example/data?x, not
// https://a.example/database. One that ends in any other character covers all that begins with it.
func NewScope(set string, prefixes []string) (*Scope, error) {
	s := &Scope{entries: make([]scopeEntry, 0, len(prefixes)+1)}
	own, _, err := parseScopeEntry(set)
	if err != nil {
		return nil, fmt.Errorf("scope of set %q: %w", set, err)
	}
	s.entries = append(s.entries, own)
	for _, p := range prefixes {
		pl, rest, err := parseScopeEntry(p)
		switch {
		case err != nil:
			return nil, fmt.Errorf("scope prefix %q: %w", p, err)
		case strings.Contains(rest, "#"):
			return nil, fmt.Errorf("scope prefix %q: a fragment never reaches a server", p)
		case hasDotSegment(rest):
			return nil, fmt.Errorf("scope prefix %q: a path with . or .. segments covers nothing", p)
		}
		if rest != "/" {
			pl.prefix = rest
		}
		pl.inside = rest != "" && isAlnum(rest[len(rest)-1])
		s.entries = append(s.entries, pl)
	}
	return s, nil
}

// Contains compares the URI as it stands and refuses what could be read in two ways: userinfo, control characters, a
// backslash before the path, and, below a configured prefix, dot segments in any spelling.
func (s *Scope) Contains(uri string) bool {
	tls, host, port, rest, ok := splitURI(uri)
	if !ok {
		return false
	}
	for i := range s.entries {
		p := &s.entries[i]
		if p.tls == tls && p.port == port && equalFold(p.host, host) && p.covers(rest) {
			return true
		}
	}
	return false
}

func (p *scopeEntry) covers(rest string) bool {
	if p.prefix == "" {
		return true
	}
	if !strings.HasPrefix(rest, p.prefix) {
		return false
	}
	if p.inside && len(rest) > len(p.prefix) {
		switch rest[len(p.prefix)] {
		case '/', '?', '#':
		default:
			return false
		}
	}
	return !hasDotSegment(rest)
}

func parseScopeEntry(raw string) (p scopeEntry, rest string, err error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return p, "", errors.New("not an absolute http or https URI")
	}
	var ok bool
	if p.tls, p.host, p.port, rest, ok = splitURI(raw); !ok {
		return p, "", errors.New("not an absolute http or https URI, or one with a user name")
	}
	p.host = strings.ToLower(p.host)
	return p, rest, nil
}

// splitURI splits without allocating. The port is "" for the scheme's own.
func splitURI(uri string) (tls bool, host, port, rest string, ok bool) {
	own := "80"
	switch {
	case len(uri) > 7 && equalFold(uri[:7], "http://"):
		rest = uri[7:]
	case len(uri) > 8 && equalFold(uri[:8], "https://"):
		tls, own, rest = true, "443", uri[8:]
	default:
		return false, "", "", "", false
	}
	for i := range len(uri) {
		if uri[i] < ' ' || uri[i] == 0x7F {
			return false, "", "", "", false
		}
	}
	authority := rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, rest = rest[:i], rest[i:]
	} else {
		rest = ""
	}
	if authority == "" || strings.ContainsAny(authority, `@\% `) {
		return false, "", "", "", false
	}
	host, port = authority, ""
	colon := strings.LastIndexByte(authority, ':')
	if colon > strings.LastIndexByte(authority, ']') {
		host, port = authority[:colon], authority[colon+1:]
		if strings.Contains(host, ":") && host[0] != '[' {
			return false, "", "", "", false
		}
	}
	for i := range len(port) {
		if port[i] < '0' || port[i] > '9' {
			return false, "", "", "", false
		}
	}
	if port == own {
		port = ""
	}
	return tls, host, port, rest, host != ""
}

// hasDotSegment reports whether any server could read a segment of the path as . or ..
func hasDotSegment(rest string) bool {
	path := rest
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		path = rest[:i]
	}
	dots, other := 0, false
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '%' && i+2 < len(path) {
			switch h, l := path[i+1], path[i+2]|0x20; {
			case h == '2' && l == 'e':
				c, i = '.', i+2
			case h == '2' && l == 'f', h == '5' && l == 'c':
				c, i = '/', i+2
			}
		}
		switch c {
		case '/', '\\':
			if !other && (dots == 1 || dots == 2) {
				return true
			}
			dots, other = 0, false
		case '.':
			dots++
		case ';': // "..;x" is ".." to servers that know path parameters
			if !other && (dots == 1 || dots == 2) {
				return true
			}
			other = true
		default:
			other = true
		}
	}
	return !other && (dots == 1 || dots == 2)
}

func isAlnum(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c >= 0x80
}

// equalFold ignores the case of ASCII letters only: others give a host name no second spelling here.
func equalFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if x|0x20 != y|0x20 || x|0x20 < 'a' || x|0x20 > 'z' {
			return false
		}
	}
	return true
}

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
