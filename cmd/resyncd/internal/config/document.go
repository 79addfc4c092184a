package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"resyncd/destination/safe"

	"go.yaml.in/yaml/v3"
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
		r.add(r.at(second.Line), "", "a second YAML document begins here: only one is allowed")
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
var zeroBased = regexp.MustCompile(`^did not find expected (key|node content|'-' indicator|',' or|<)|` +
	`^found (undefined|duplicate|incompatible)`)

var atLine = regexp.MustCompile(`^line (\d+): `)

// syntax takes the line out of the library's message; without one it is the first.
func (r *report) syntax(data []byte, err error) {
	what, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	if m := atLine.FindStringSubmatch(what); m != nil {
		line, _ = strconv.Atoi(m[1])
		what = what[len(m[0]):]
		if zeroBased.MatchString(what) {
			line++
		}
	} else if i := bytes.IndexFunc(data, func(c rune) bool {
		return c == utf8.RuneError || c < ' ' &&
			!strings.ContainsRune("\t\n\r", c)
	}); i >= 0 {
		line += bytes.Count(data[:i], []byte("\n"))
	}
	r.add(r.at(line), "", "not readable as YAML: "+visible(what))
}

func visible(text string) string {
	q := quoted(text)
	return q[1 : len(q)-1]
}

// maxItems bounds every list and mapping: each Source costs the daemon timers, rows and metrics.
const maxItems = 10_000

type entry struct{ key, value *yaml.Node }

// entries lists the keys of a mapping. Duplicates, keys that are no plain text, anchors and merge keys are reported.
func (r *report) entries(path string, node *yaml.Node) []entry {
	if !r.kind(path, node, yaml.MappingNode, "must be a mapping of keys to values") {
		return nil
	}
	if len(node.Content) > 2*maxItems {
		r.add(r.at(node.Line), path, fmt.Sprintf("has %d keys: no more than %d are ever right", len(node.Content)/2,
			maxItems))
		return nil
	}
	first := map[string]int{}
	var out []entry
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		switch line, twice := first[key.Value]; {
		case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge":
			r.add(r.at(key.Line), path, "has a key that is no plain text")
		case twice:
			r.add(r.at(key.Line), join(path, visible(key.Value)), "is set twice, first on line "+strconv.Itoa(line))
		default:
			first[key.Value] = key.Line
			out = append(out, entry{key, node.Content[i+1]})
		}
	}
	return out
}

func (r *report) items(path string, node *yaml.Node) []*yaml.Node {
	if !r.kind(path, node, yaml.SequenceNode, "must be a list, such as [] or one item a line after -") {
		return nil
	}
	if len(node.Content) > maxItems {
		r.add(r.at(node.Line), path, fmt.Sprintf("has %d entries: at most %d are allowed", len(node.Content), maxItems))
		return nil
	}
	return node.Content
}

// kind checks the shape of node; no value is an empty list or mapping.
func (r *report) kind(path string, node *yaml.Node, want yaml.Kind, what string) bool {
	switch {
	case node.Kind == yaml.AliasNode || node.Anchor != "":
		r.add(r.at(node.Line), path, "uses a YAML anchor or alias: write the value out, or put it under defaults")
	case node.Kind == want && (node.Tag == "" || strings.HasPrefix(node.ShortTag(), "!!")):
		return true
	case want != yaml.ScalarNode && node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null":
	default:
		r.add(r.at(node.Line), path, what)
	}
	return false
}

// text is the literal text of a scalar, so that `off` stays `off`.
func (r *report) text(path string, node *yaml.Node) (string, bool) {
	if !r.kind(path, node, yaml.ScalarNode, "must be a single value") {
		return "", false
	}
	switch node.ShortTag() {
	case "!!null":
		r.add(r.at(node.Line), path, `has no value: write "" or leave the key out`)
		return "", false
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp":
		return node.Value, true
	}
	r.add(r.at(node.Line), path, "must be a single value")
	return "", false
}
