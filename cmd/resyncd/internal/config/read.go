package config

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// section reads the keys of node into v. The list of Sources is handed back unread: the environment may still change
// the defaults.
func (r *report) section(path string, node *yaml.Node, v reflect.Value) (sources *yaml.Node) {
	fields := fieldsOf(v)
	for _, e := range r.entries(path, node) {
		at := join(path, visible(e.key.Value))
		f, ok := find(fields, e.key.Value)
		switch {
		case !ok:
			r.add(r.at(e.key.Line), at, "unknown key; allowed here: "+keysOf(fields))
		case f.value.Type() == reflect.TypeFor[[]Source]():
			sources = e.value
		case f.isSection():
			r.section(at, e.value, f.value)
		default:
			r.leaf(at, e.value, f)
		}
	}
	return sources
}

func find(fields []field, key string) (field, bool) {
	for _, f := range fields {
		if f.key == key {
			return f, true
		}
	}
	return field{}, false
}

func (r *report) leaf(path string, node *yaml.Node, f field) {
	r.origins[path] = r.at(node.Line)
	switch {
	case f.tag.Get("form") == "later" && node.Kind != yaml.ScalarNode:
		r.clash(path, notYet+"; write off")
	case f.value.Kind() == reflect.Slice:
		list := reflect.MakeSlice(f.value.Type(), 0, 0)
		for i, item := range r.items(path, node) {
			v := reflect.New(f.value.Type().Elem()).Elem()
			at := fmt.Sprintf("%s[%d]", path, i)
			if !r.value(at, item, f, v) {
				continue
			}
			if _, once := f.tag.Lookup("once"); once && holds(list, v) {
				r.add(r.at(item.Line), at, quoted(textOf(v))+" stands there twice")
				continue
			}
			list = reflect.Append(list, v)
		}
		f.value.Set(list)
		if list.Len() == 0 {
			f.value.SetZero() // not given
		}
	case f.value.Kind() == reflect.Map:
		r.headers(path, node, f)
	default:
		r.value(path, node, f, f.value)
	}
}

func holds(list, v reflect.Value) bool {
	for i := range list.Len() {
		if list.Index(i).Equal(v) {
			return true
		}
	}
	return false
}

func (r *report) value(path string, node *yaml.Node, f field, v reflect.Value) bool {
	text, ok := r.text(path, node)
	if !ok {
		return false
	}
	if v.Type() == reflect.TypeFor[string]() && node.ShortTag() == "!!bool" && f.tag.Get("one") == "" {
		r.add(r.at(node.Line), path, "must be text: put it in quotes if it is meant")
		return false
	}
	if err := f.set(v, text); err != nil {
		r.add(r.at(node.Line), path, err.Error())
		return false
	}
	return true
}

// headers takes values and file names alike.
func (r *report) headers(path string, node *yaml.Node, f field) {
	headers := map[string]Secret{}
	folded := map[string]bool{}
	for _, e := range r.entries(path, node) {
		name, file := strings.CutSuffix(e.key.Value, "_file")
		at := join(path, visible(e.key.Value))
		if err := headerName(name); err != nil {
			r.add(r.at(e.key.Line), at, err.Error())
			continue
		}
		if folded[strings.ToLower(name)] {
			r.add(r.at(e.key.Line), at, "names a header that is set already")
			continue
		}
		folded[strings.ToLower(name)] = true
		r.origins[at] = r.at(e.value.Line)
		var value Secret
		if !r.value(at, e.value, f, reflect.ValueOf(&value).Elem()) {
			continue
		}
		if !value.IsSet() {
			r.clash(at, "is empty")
			continue
		}
		if file {
			name += "_file"
		}
		headers[name] = value
	}
	if len(headers) > 0 {
		f.value.Set(reflect.ValueOf(headers))
	}
}

func (r *report) sources(node *yaml.Node, cfg *Config) {
	if node == nil {
		return
	}
	for i, item := range r.items("sources", node) {
		path := fmt.Sprintf("sources[%d]", i)
		s := Source{Kind: KindAuto, Policy: cfg.Defaults}
		r.origins[path] = r.at(item.Line)
		if item.Kind == yaml.ScalarNode && item.ShortTag() == "!!null" {
			r.clash(path, "is empty")
		} else {
			r.section(path, item, reflect.ValueOf(&s).Elem())
		}
		cfg.Sources = append(cfg.Sources, s)
	}
}
