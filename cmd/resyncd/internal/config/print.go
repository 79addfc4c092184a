package config

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Print writes c as a configuration file with secrets and queries of URLs hidden.
func (c *Config) Print(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "# effective configuration of resyncd; secrets are hidden")
	enc := yaml.NewEncoder(b)
	enc.SetIndent(2)
	err := enc.Encode(tree(reflect.ValueOf(c).Elem()))
	if err == nil {
		err = enc.Close()
	}
	if err == nil {
		err = b.Flush()
	}
	if err != nil {
		return fmt.Errorf("print configuration: %w", err)
	}
	return nil
}

// tree is a section as YAML. A secret that came by file is left out: its _file stands there.
func tree(section reflect.Value) *yaml.Node {
	node := &yaml.Node{Kind: yaml.MappingNode}
	fields := fieldsOf(section)
	for _, f := range fields {
		if f.isSecret() {
			file, byFile := find(fields, f.key+"_file")
			if f.value.IsZero() || byFile && !file.value.IsZero() {
				continue
			}
		}
		node.Content = append(node.Content, word(f.key), f.node())
	}
	return node
}

func (f field) node() *yaml.Node {
	switch {
	case f.isSection():
		return tree(f.value)
	case f.value.Kind() == reflect.Map:
		node := &yaml.Node{Kind: yaml.MappingNode}
		headers, _ := f.value.Interface().(map[string]Secret)
		for _, name := range slices.Sorted(maps.Keys(headers)) {
			node.Content = append(node.Content, word(name), word(headers[name].String()))
		}
		return node
	case f.value.Kind() != reflect.Slice:
		return f.literal(f.value)
	}
	node := &yaml.Node{Kind: yaml.SequenceNode}
	if f.value.Len() == 0 {
		node.Style = yaml.FlowStyle
	}
	for i := range f.value.Len() {
		item := f.value.Index(i)
		if f.value.Type() == reflect.TypeFor[[]Source]() {
			node.Content = append(node.Content, tree(item))
		} else {
			node.Content = append(node.Content, f.literal(item))
		}
	}
	return node
}

func word(text string) *yaml.Node {
	node := new(yaml.Node)
	node.SetString(text)
	return node
}

// literal hides the query of a URL, which may be a token.
func (f field) literal(v reflect.Value) *yaml.Node {
	text := textOf(v)
	switch strings.TrimSuffix(f.tag.Get("form"), "?") {
	case "url", "prefix":
		if path, query, ok := strings.Cut(text, "?"); ok && query != "" {
			return word(path + "?" + hidden)
		}
	}
	if v.Kind() != reflect.String && text != "" && strings.Trim(text, "0123456789") == "" {
		return &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	}
	return word(text)
}
