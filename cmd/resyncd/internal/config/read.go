package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"resyncd/destination/safe"
)

// parse reads the one YAML document of data as a tree that knows its lines. It returns nil for an empty document and
// where the text is no YAML at all, which is then in r.
//
// The tree is never decoded by the library: its decoder knows no "all violations at once" and takes the last of two
// documents' silence for consent (dependencies.md 4.1).
func (r *report) parse(data []byte) *yaml.Node {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	root, err := decodeNode(dec)
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		r.syntax(data, err)
		return nil
	}
	switch second, err := decodeNode(dec); {
	case err == nil:
		r.add(r.at(second), "", "a second YAML document begins here: only one is allowed")
	case !errors.Is(err, io.EOF):
		r.syntax(data, err)
	}
	if root.Kind == yaml.DocumentNode {
		root = root.Content[0]
	}
	if root.ShortTag() == "!!null" {
		return nil
	}
	return root
}

// decodeNode turns a panic of the library into an error.
func decodeNode(dec *yaml.Decoder) (*yaml.Node, error) {
	node := new(yaml.Node)
	err := safe.Do(func() error { return dec.Decode(node) })
	if _, ok := errors.AsType[*safe.PanicError](err); ok {
		return nil, errors.New("yaml: not readable")
	}
	return node, err
}

// zeroBased are complaints whose lines the library counts from 0.
var zeroBased = regexp.MustCompile(
	`^did not find expected (key|node content|'-' indicator|',' or|<)|^found (undefined|duplicate|incompatible)`)

var atLine = regexp.MustCompile(`^line (\d+): `)

// syntax takes the line out of the library's message; without one it is the first.
func (r *report) syntax(data []byte, err error) {
	what, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	unreadable := func(c rune) bool {
		return c == utf8.RuneError || c < ' ' && !strings.ContainsRune("\t\n\r", c)
	}
	if m := atLine.FindStringSubmatch(what); m != nil {
		line, _ = strconv.Atoi(m[1])
		what = what[len(m[0]):]
		if zeroBased.MatchString(what) {
			line++
		}
	} else if i := bytes.IndexFunc(data, unreadable); i >= 0 {
		line += bytes.Count(data[:i], []byte("\n"))
	}
	r.add(r.at(&yaml.Node{Line: line}), "", "not readable as YAML: "+visible(what))
}

// section reads the keys of node. The list of Sources is handed back unread: the environment may still change the
// defaults.
func (r *report) section(path string, node *yaml.Node, keys []key) (sources *yaml.Node) {
	for _, e := range r.entries(path, node) {
		at := join(path, visible(e.key.Value))
		k, ok := find(keys, e.key.Value)
		switch {
		case !ok:
			r.add(r.at(e.key), at, "unknown key; allowed here: "+namesOf(keys))
		case k.keys != nil:
			r.section(at, e.value, k.keys)
		case k.name == sourceList:
			sources = e.value
		case k.header != nil:
			*k.header = r.headers(at, e.value)
		default:
			r.leaf(at, e.value, k)
		}
	}
	return sources
}

func (r *report) leaf(path string, node *yaml.Node, k key) {
	r.origins[path] = r.at(node)
	switch {
	case k.name == republish && node.Kind != yaml.ScalarNode:
		r.clash(path, notYet+"; write off")
	case k.clear != nil:
		k.clear()
		for i, item := range r.items(path, node) {
			r.value(fmt.Sprintf("%s[%d]", path, i), item, k)
		}
	default:
		r.value(path, node, k)
	}
}

// value takes the literal text of a scalar, so that `off` stays `off`.
func (r *report) value(path string, node *yaml.Node, k key) {
	const single = "must be a single value"
	if !r.kind(path, node, yaml.ScalarNode, single) {
		return
	}
	switch tag := node.ShortTag(); {
	case tag == "!!null":
		r.add(r.at(node), path, `has no value: write "" or leave the key out`)
	case tag == "!!bool" && k.word:
		r.add(r.at(node), path, "must be text: put it in quotes if it is meant")
	case tag == "!!str", tag == "!!int", tag == "!!float", tag == "!!bool", tag == "!!timestamp":
		if err := k.take(node.Value); err != nil {
			r.add(r.at(node), path, err.Error())
		}
	default:
		r.add(r.at(node), path, single)
	}
}

// headers takes values and file names alike.
func (r *report) headers(path string, node *yaml.Node) map[string]Secret {
	var headers map[string]Secret
	folded := map[string]bool{}
	for _, e := range r.entries(path, node) {
		name := strings.TrimSuffix(e.key.Value, "_file")
		at := join(path, visible(e.key.Value))
		if err := headerName(name); err != nil {
			r.add(r.at(e.key), at, err.Error())
			continue
		}
		if folded[strings.ToLower(name)] {
			r.add(r.at(e.key), at, "names a header that is set already")
			continue
		}
		folded[strings.ToLower(name)] = true
		var value Secret
		r.leaf(at, e.value, secret(at, &value, headerText))
		if !r.given(at) {
			continue
		}
		if !value.IsSet() {
			r.clash(at, "is empty")
			continue
		}
		if headers == nil {
			headers = map[string]Secret{}
		}
		headers[e.key.Value] = value
	}
	return headers
}

func (r *report) sources(node *yaml.Node, flags []Flag, cfg *Config) {
	for i, item := range r.items(sourceList, node) {
		path := fmt.Sprintf("sources[%d]", i)
		s := Source{Kind: KindAuto, Policy: cfg.Defaults}
		r.origins[path] = r.at(item)
		if item.Kind == yaml.ScalarNode && item.ShortTag() == "!!null" {
			r.clash(path, "is empty")
		} else {
			r.section(path, item, s.keys())
		}
		leaves("defaults", s.Policy.keys(), func(path string, k key) {
			for _, f := range flags {
				if f.Key == path {
					_ = k.set(f.Text) // a problem was told of defaults
				}
			}
		})
		cfg.Sources = append(cfg.Sources, s)
	}
}

// maxItems bounds every list and mapping: each Source costs the daemon timers, rows and metrics.
const maxItems = 10_000

type entry struct{ key, value *yaml.Node }

// entries lists the keys of a mapping, and reports duplicates, keys that are no plain text, anchors and merge keys.
func (r *report) entries(path string, node *yaml.Node) (out []entry) {
	if !r.kind(path, node, yaml.MappingNode, "must be a mapping of keys to values") {
		return nil
	}
	if n := len(node.Content) / 2; n > maxItems {
		r.add(r.at(node), path, fmt.Sprintf("has %d keys: no more than %d are ever right", n, maxItems))
		return nil
	}
	first := map[string]int{}
	for pair := range slices.Chunk(node.Content, 2) {
		key := pair[0]
		switch line, twice := first[key.Value]; {
		case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge":
			r.add(r.at(key), path, "has a key that is no plain text")
		case twice:
			r.add(r.at(key), join(path, visible(key.Value)), "is set twice, first on line "+strconv.Itoa(line))
		default:
			first[key.Value] = key.Line
			out = append(out, entry{key, pair[1]})
		}
	}
	return out
}

func (r *report) items(path string, node *yaml.Node) []*yaml.Node {
	if !r.kind(path, node, yaml.SequenceNode, "must be a list, such as [] or one item a line after -") {
		return nil
	}
	if n := len(node.Content); n > maxItems {
		r.add(r.at(node), path, fmt.Sprintf("has %d entries: at most %d are allowed", n, maxItems))
		return nil
	}
	return node.Content
}

// kind checks the shape of node; no value is an empty list or mapping.
func (r *report) kind(path string, node *yaml.Node, want yaml.Kind, what string) bool {
	switch {
	case node.Kind == yaml.AliasNode || node.Anchor != "":
		r.add(r.at(node), path, "uses a YAML anchor or alias: write the value out, or put it under defaults")
	case node.Kind == want && (node.Tag == "" || strings.HasPrefix(node.ShortTag(), "!!")):
		return true
	case want != yaml.ScalarNode && node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null":
	default:
		r.add(r.at(node), path, what)
	}
	return false
}

// Problem is one thing wrong with the configuration.
type Problem struct {
	Where string // FILE:LINE, a variable or a flag
	Key   string // the dotted path, "" for none
	What  string // and what would be right
	line  int
}

// String is the problem on one line.
func (p Problem) String() string {
	if p.Key == "" {
		return p.Where + ": " + p.What
	}
	return p.Where + ": " + p.Key + ": " + p.What
}

// Error is everything that is wrong with a configuration, in order.
type Error struct{ Problems []Problem }

// shownProblems bounds the message.
const shownProblems = 100

// Error implements error.
func (e *Error) Error() string {
	lines := []string{"invalid configuration:"}
	for _, p := range e.Problems[:min(len(e.Problems), shownProblems)] {
		lines = append(lines, p.String())
	}
	if more := len(e.Problems) - shownProblems; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n  ")
}

// noLine comes after every line.
const noLine = math.MaxInt

// outside is the place of a variable or a flag.
func outside(name string) Problem { return Problem{Where: name, line: noLine} }

// report collects problems, and where each key was set.
type report struct {
	file     string
	origins  map[string]Problem // their places
	bad      map[string]bool
	problems []Problem
}

func newReport(file string) *report {
	return &report{file: file, origins: map[string]Problem{}, bad: map[string]bool{}}
}

// at is the place of a node.
func (r *report) at(node *yaml.Node) Problem {
	return Problem{Where: fmt.Sprintf("%s:%d", r.file, node.Line), line: node.Line}
}

func (r *report) add(at Problem, key, what string) {
	r.bad[key] = true
	at.Key, at.What = key, what
	r.problems = append(r.problems, at)
}

// given reports whether key was set and could be read, so that it may clash with another.
func (r *report) given(key string) bool {
	_, ok := r.origins[key]
	return ok && !r.bad[key]
}

func (r *report) clash(key, what string) { r.add(r.origins[key], key, what) }

func (r *report) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int { return cmp.Compare(a.line, b.line) })
	return &Error{r.problems}
}
