package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

const (
	variablePrefix = "RESYNCD_"
	configVariable = "RESYNCD_CONFIG"
)

// variables are the RESYNCD_* entries of env. An empty one is not set, as in a compose file.
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

// notOurs are variables that mean something else, such as what Kubernetes sets beside a Service called resyncd.
var notOurs = regexp.MustCompile(`^RESYNCD_(CONFIG$|SPEC_EXAMPLES$|TEST_)|` +
	`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// overrule lays the variables, then flags over cfg. An unknown variable is a problem below a known section, and a
// warning elsewhere.
func (r *report) overrule(env []string, flags []Flag, cfg *Config) {
	vars, keys := variables(env), cfg.keys()
	leaves("", keys, func(path string, k key) {
		name := variableOf(path)
		if text, ok := vars[name]; ok {
			r.assign(path, k, text, outside(name))
			delete(vars, name)
		}
		for _, f := range flags {
			if f.Key == path {
				r.assign(path, k, f.Text, outside("--"+f.Name))
			}
		}
	})
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		section := slices.IndexFunc(keys, func(k key) bool {
			return k.keys != nil && strings.HasPrefix(name, variableOf(k.name)+"_")
		})
		switch {
		case notOurs.MatchString(name):
		case strings.HasPrefix(name, variableOf(sourceList)):
			r.add(outside(name), "", "Sources can only be given in the file")
		case section >= 0:
			r.add(outside(name), "", "unknown variable; allowed are "+variableOf(keys[section].name)+"_ and one of "+
				strings.ToUpper(namesOf(keys[section].keys)))
		default:
			cfg.Warnings = append(cfg.Warnings, "the variable "+visible(name)+
				" is not one of resyncd's and was ignored")
		}
	}
}

// assign overrules what the file says of a key. Lists are split at commas; what stands there twice counts once.
func (r *report) assign(path string, k key, text string, from origin) {
	r.origins[path] = from
	delete(r.bad, path)
	items := []string{text}
	if k.clear != nil {
		k.clear()
		items = strings.Split(text, ",")
	}
	for _, item := range items {
		if k.clear != nil {
			if item = strings.TrimSpace(item); slices.Contains(k.texts(), item) {
				continue
			}
		}
		if err := k.take(item); err != nil {
			r.add(from, path, err.Error())
		}
	}
}

// Flag is a flag of the command line, which wins over the key Key outside sources.
type Flag struct{ Name, Key, Text string }

// overrule lays the flags of defaults over a Source, where their problems are not told again.
func (p *Policy) overrule(flags []Flag) {
	for _, f := range flags {
		leaves("defaults", p.keys(), func(path string, k key) {
			if path == f.Key {
				_ = k.set(f.Text)
			}
		})
	}
}
