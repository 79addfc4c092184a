// Package config knows what an operator may say and how it is checked (strict YAML, RESYNCD_* variables, flags, secret
// files, defaults), and refuses to know what any of it does: it opens no database, no mirror and no connection.
//
// Precedence is flag > RESYNCD_* variable > file > default (contract.md 2). Everything wrong is reported at once, each
// problem with its file and line. Relative paths are relative to the working directory, as everywhere in a shell.
package config

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// starter says what each key means and holds its default.
//
//go:embed starter.yaml
var starter string

// Starter is the file that `config init` writes.
func Starter() string { return starter }

// Config is the whole effective configuration. What each key means stands in starter.yaml, how it is read in keys.go.
type Config struct {
	DataDir   string
	Store     string
	Mirror    string
	Republish string
	Callback  Callback
	Console   Console
	Network   Network
	Defaults  Policy
	Sources   []Source

	// Warnings stop nothing; Load fills them.
	Warnings []string
}

// Callback says where hubs deliver (contract.md 4).
type Callback struct {
	Listen      string
	BaseURL     string
	MaxBody     Size
	TLSCertFile string
	TLSKeyFile  string
}

// Console says where the web console listens and who may use it; an empty Listen switches it off.
type Console struct {
	Listen       string
	Hosts        []string
	User         string
	Password     Secret
	PasswordFile string
	Token        Secret
	TokenFile    string
}

// Guarded reports whether somebody must prove who they are.
func (c *Console) Guarded() bool {
	return c.Password.IsSet() || c.PasswordFile != "" || c.Token.IsSet() || c.TokenFile != ""
}

// Network is what all transfers share.
type Network struct {
	Allow       []netip.Prefix
	IdleTimeout time.Duration
	RetryFor    time.Duration
	UserAgent   string
	Contact     string
}

// Policy is how one Source is treated. A Source starts from Config.Defaults.
type Policy struct {
	Schedule     Schedule
	Push         Push
	Lease        time.Duration
	Secret       string // SecretOff or auto
	MinSignature string // sha1, sha256, sha384 or sha512
	Delete       string // trash, keep or now
	Trash        time.Duration
	DeleteGuard  Percent
	ReorderGrace time.Duration
	GapPatience  time.Duration
	Concurrency  int
	Rate         float64
	MaxResource  Size
	Dumps        string // auto, off or always
	MaxDump      Size
	Duplicates   string // fallback, prefer or off
	Patches      string // PatchesOn or off
	Collections  []string
	Metadata     string // with, only or without
	Batch        string
	BatchSize    int
	Durability   string // DurabilityNone or file
}

// Push says whether channels are subscribed.
type Push string

// The values of Policy.Push.
const (
	PushAuto     Push = "auto"
	PushOff      Push = "off"
	PushRequired Push = "required"
)

// SecretOff is the Policy.Secret that gives hubs no secret to sign with.
const SecretOff = "off"

// PatchesOn is the Policy.Patches that applies them.
const PatchesOn = "on"

// DurabilityNone is the Policy.Durability that leaves the mirror's bytes to the operating system.
const DurabilityNone = "none"

// Source is one entry of `sources`: what to mirror, and where it differs from Config.Defaults.
type Source struct {
	Name    string
	URL     string
	Kind    Kind
	Sets    []string
	Scope   []string
	Include []string
	Exclude []string
	Hub     string
	Topic   string
	Records string
	Follow  []string
	Auth    Auth
	Policy
}

// Kind says what a Source's URL leads to.
type Kind string

// The values of Source.Kind.
const (
	KindAuto         Kind = "auto"
	KindResourceSync Kind = "resourcesync"
	KindFeed         Kind = "feed"
)

// Auth is what a Source wants to see.
type Auth struct {
	Bearer            Secret
	BearerFile        string
	BasicUser         string
	BasicPassword     Secret
	BasicPasswordFile string
	Header            map[string]Secret
}

// Default is the configuration of an empty file.
func Default() *Config {
	c, r := new(Config), newReport("")
	r.section("", r.parse([]byte(starter)), c.keys())
	return c
}

// Adhoc is the Source of `sync URL DIR`. It fails if rawURL is no absolute http or https URL; the name is not checked.
func (c *Config) Adhoc(name, rawURL string) (Source, error) {
	if err := bounded(webURL, rawURL); err != nil {
		return Source{}, err
	}
	return Source{Name: name, URL: rawURL, Kind: KindAuto, Policy: c.Defaults}, nil
}

// Source is the entry called name.
func (c *Config) Source(name string) (Source, bool) {
	i := slices.IndexFunc(c.Sources, func(s Source) bool { return s.Name == name })
	if i < 0 {
		return Source{}, false
	}
	return c.Sources[i], true
}

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
			value = &yaml.Node{Kind: yaml.MappingNode}
			for _, name := range slices.Sorted(maps.Keys(*k.header)) {
				value.Content = append(value.Content, word(name), word((*k.header)[name].String()))
			}
			if len(value.Content) == 0 {
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
