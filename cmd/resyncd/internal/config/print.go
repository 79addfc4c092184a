package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Print writes c as a configuration file with secrets and queries of URLs hidden.
func (c *Config) Print(w io.Writer) error {
	sources := &yaml.Node{Kind: yaml.SequenceNode}
	if len(c.Sources) == 0 {
		sources.Style = yaml.FlowStyle
	}
	for i := range c.Sources {
		sources.Content = append(sources.Content, tree(c.Sources[i].keys()))
	}
	root := tree(c.keys())
	root.Content = append(root.Content, word(sourceList), sources)

	out := bytes.NewBufferString("# effective configuration of resyncd; secrets are hidden\n")
	enc := yaml.NewEncoder(out)
	enc.SetIndent(2)
	err := errors.Join(enc.Encode(root), enc.Close())
	if err == nil {
		_, err = w.Write(out.Bytes())
	}
	if err != nil {
		return fmt.Errorf("print configuration: %w", err)
	}
	return nil
}

// tree is a section as YAML. A secret that came by file is left out: its _file stands there.
func tree(keys []key) *yaml.Node {
	node := &yaml.Node{Kind: yaml.MappingNode}
	for _, k := range keys {
		var value *yaml.Node
		switch file, ok := find(keys, k.name+"_file"); {
		case k.keys != nil:
			value = tree(k.keys)
		case k.name == sourceList, ok && (file.given() || !k.given()):
			continue
		case k.header != nil:
			if value = headerTree(*k.header); len(value.Content) == 0 {
				continue
			}
		case k.clear == nil:
			value = k.literal(k.texts()[0])
		default:
			value = &yaml.Node{Kind: yaml.SequenceNode}
			for _, text := range k.texts() {
				value.Content = append(value.Content, k.literal(text))
			}
			if len(value.Content) == 0 {
				value.Style = yaml.FlowStyle
			}
		}
		node.Content = append(node.Content, word(k.name), value)
	}
	return node
}

func headerTree(headers map[string]Secret) *yaml.Node {
	node := &yaml.Node{Kind: yaml.MappingNode}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		node.Content = append(node.Content, word(name), word(headers[name].String()))
	}
	return node
}

func word(text string) *yaml.Node {
	node := new(yaml.Node)
	node.SetString(text)
	return node
}

func (k key) literal(text string) *yaml.Node {
	if path, query, ok := strings.Cut(text, "?"); ok && query != "" && k.query {
		return word(path + "?" + hidden)
	}
	if !k.word && text != "" && strings.Trim(text, "0123456789") == "" {
		return &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	}
	return word(text)
}
