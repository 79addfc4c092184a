package config

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

const (
	variablePrefix = "RESYNCD_"
	configVariable = "RESYNCD_CONFIG"
)

// variables are the RESYNCD_* entries of env. An empty one is not set, as in a compose file; console.listen takes "off"
// for that reason.
func variables(env []string) map[string]string {
	vars := map[string]string{}
	for _, e := range env {
		name, value, ok := strings.Cut(e, "=")
		switch {
		case !ok || !strings.HasPrefix(name, variablePrefix):
		case value == "":
			delete(vars, name)
		default:
			vars[name] = value
		}
	}
	return vars
}

// variableOf turns network.retry_for into RESYNCD_NETWORK_RETRY_FOR.
func variableOf(path string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// serviceLink matches what Kubernetes sets beside a Service called resyncd.
var serviceLink = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|` +
	`PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// environment lays the variables over cfg. An unknown one is a problem below a known section, and a warning elsewhere.
func (r *report) environment(env []string, cfg *Config) {
	vars := variables(env)
	root := reflect.ValueOf(cfg).Elem()
	leaves("", root, func(path string, f field) {
		name := variableOf(path)
		if text, ok := vars[name]; ok {
			r.assign(path, f, text, origin{where: name})
			delete(vars, name)
		}
	})
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		switch {
		case name == configVariable, name == "RESYNCD_SPEC_EXAMPLES", strings.HasPrefix(name, "RESYNCD_TEST_"),
			serviceLink.MatchString(name):
		case strings.HasPrefix(name, variableOf("sources")):
			r.add(origin{where: name}, "", "Sources can only be given in the file")
		default:
			r.stray(name, root, cfg)
		}
	}
}

func (r *report) stray(name string, root reflect.Value, cfg *Config) {
	for _, f := range fieldsOf(root) {
		if prefix := variableOf(f.key) + "_"; f.isSection() && strings.HasPrefix(name, prefix) {
			r.add(origin{where: name}, "", "unknown variable; allowed are "+prefix+" and one of "+
				strings.ToUpper(keysOf(fieldsOf(f.value))))
			return
		}
	}
	cfg.Warnings = append(cfg.Warnings, "the variable "+visible(name)+" is not one of resyncd's and was ignored")
}

// assign splits lists at commas.
func (r *report) assign(path string, f field, text string, from origin) {
	r.origins[path] = from
	delete(r.bad, path) // the file is overruled
	if f.value.Kind() != reflect.Slice {
		if err := f.set(f.value, text); err != nil {
			r.add(from, path, err.Error())
		}
		return
	}
	list := reflect.MakeSlice(f.value.Type(), 0, 0)
	for item := range strings.SplitSeq(text, ",") {
		v := reflect.New(f.value.Type().Elem()).Elem()
		if err := f.set(v, strings.TrimSpace(item)); err != nil {
			r.add(from, path, err.Error())
			continue
		}
		list = reflect.Append(list, v)
	}
	f.value.Set(list)
}

// Set gives the key at path, outside sources, the text of a flag. A key of defaults goes to every Source, as flags win
// over the file.
func (c *Config) Set(path, text, flag string) error {
	r := newReport("")
	from := origin{where: flag}
	followed := c.Mirror == mirrorBelow(c.DataDir)
	found := false
	leaves("", reflect.ValueOf(c).Elem(), func(at string, f field) {
		if at == path {
			found = true
			r.assign(path, f, text, from)
		}
	})
	if !found {
		r.add(from, path, "unknown key")
	}
	if key, ok := strings.CutPrefix(path, "defaults."); ok && found && r.err() == nil {
		for i := range c.Sources {
			f, _ := find(fieldsOf(reflect.ValueOf(&c.Sources[i].Policy).Elem()), key)
			r.assign(path, f, text, from)
		}
	}
	if path == "data_dir" && followed {
		c.Mirror = mirrorBelow(c.DataDir)
	}
	r.check(c)
	return r.err()
}
