package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const maxFile = 2 << 20

var standardFiles = [...]string{"./resyncd.yaml", "/etc/resyncd/resyncd.yaml"}

// Find names the file to load: flag, else $RESYNCD_CONFIG, else the first standard file that exists, else "".
func Find(flag string, env []string) (string, error) {
	if path := Named(flag, env); path != "" {
		return path, nil
	}
	for _, path := range standardFiles {
		switch _, err := os.Stat(path); {
		case err == nil:
			return path, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("look for config %s: %s", path, reason(err))
		}
	}
	return "", nil
}

// Named is Find for `sync URL DIR`: no file counts that was not named.
func Named(flag string, env []string) string {
	if flag != "" {
		return flag
	}
	return variables(env)[configVariable]
}

// Load reads the file at path ("" means none), lays the variables of env and then flags over it, checks everything and
// reads the secret files. A bad configuration is an *Error with all its problems.
func Load(path string, env []string, flags ...Flag) (*Config, error) {
	var data []byte
	var mode fs.FileMode
	if path != "" {
		var err error
		if data, mode, err = readFile(path); err != nil {
			return nil, fmt.Errorf("read config %s: %s", path, reason(err))
		}
	}
	cfg, r := decode(path, data, env, flags...)
	if inline := r.secretFiles(cfg); inline {
		if warn := exposed(path, mode); warn != "" {
			cfg.Warnings = append(cfg.Warnings, warn)
		}
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return cfg, nil
}

func readFile(path string) ([]byte, fs.FileMode, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("larger than %s", Size(maxFile))
	}
	return data, info.Mode(), err
}

// decode is Load without any file.
func decode(name string, data []byte, env []string, flags ...Flag) (*Config, *report) {
	r, cfg := newReport(name), Default()
	var sources *yaml.Node
	if root := r.parse(data); root != nil {
		sources = r.section("", root, cfg.keys())
	}
	r.overrule(env, flags, cfg)
	if !r.given("mirror") {
		cfg.Mirror = cfg.DataDir + "/mirror"
	}
	if _, given := r.origins["callback.base_url"]; !given {
		cfg.Callback.BaseURL = baseFor(&cfg.Callback)
	}
	if sources != nil {
		r.sources(sources, flags, cfg)
	}
	r.check(cfg)
	r.warnCallback(cfg)
	return cfg, r
}

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
func (r *report) assign(path string, k key, text string, from Problem) {
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
