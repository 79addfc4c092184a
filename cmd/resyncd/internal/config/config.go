// Package config knows what an operator may say and how it is checked (strict YAML, RESYNCD_* variables, flags, secret
// files, defaults), and refuses to know what any of it does: it opens no database, no mirror and no connection.
//
// Precedence is flag > RESYNCD_* variable > file > default (contract.md 2). Everything wrong is reported at once, each
// problem with its file and line. Relative paths are relative to the working directory, as everywhere in a shell.
package config

import (
	_ "embed"
	"net/netip"
	"slices"
	"time"
)

// Config is the whole effective configuration. The struct tags are the schema, read by the loader, the variables
// and Print alike; what each key is for is told by starter.yaml:
//
//	key    name in the file           form   what a text must look like (forms.go)
//	one    allowed values, by |       only   those of them that this version brings
//	range  lowest and highest value   once   no value of the list may stand there twice
type Config struct {
	DataDir   string   `key:"data_dir" form:"path"`
	Store     string   `key:"store" form:"store"`
	Mirror    string   `key:"mirror" form:"mirror"`
	Republish string   `key:"republish" form:"later"`
	Callback  Callback `key:"callback"`
	Console   Console  `key:"console"`
	Network   Network  `key:"network"`
	Defaults  Policy   `key:"defaults"`
	Sources   []Source `key:"sources"`

	// Warnings stop nothing; Load fills them.
	Warnings []string
}

// Callback says where hubs deliver (contract.md 4).
type Callback struct {
	Listen      string `key:"listen" form:"listen"`
	BaseURL     string `key:"base_url" form:"base"`
	MaxBody     Size   `key:"max_body" range:"1KiB..1GiB"`
	TLSCertFile string `key:"tls_cert_file" form:"path?"`
	TLSKeyFile  string `key:"tls_key_file" form:"path?"`
}

// Console says where the web console listens and who may use it; an empty Listen switches it off.
type Console struct {
	Listen       string   `key:"listen" form:"listen?"`
	Hosts        []string `key:"hosts" form:"host" once:""`
	User         string   `key:"user" form:"user"`
	Password     Secret   `key:"password" form:"password"`
	PasswordFile string   `key:"password_file" form:"secretfile?"`
	Token        Secret   `key:"token" form:"secret"`
	TokenFile    string   `key:"token_file" form:"secretfile?"`
}

// Guarded reports whether somebody must prove who they are.
func (c *Console) Guarded() bool {
	return c.Password.IsSet() || c.PasswordFile != "" || c.Token.IsSet() || c.TokenFile != ""
}

// Network is what all transfers share.
type Network struct {
	Allow       []netip.Prefix `key:"allow"`
	IdleTimeout time.Duration  `key:"idle_timeout" range:"1s..24h"`
	RetryFor    time.Duration  `key:"retry_for" range:"0s..24h"`
	UserAgent   string         `key:"user_agent" form:"agent"`
	Contact     string         `key:"contact" form:"agent"`
}

// Policy is how one Source is treated. A Source starts from Config.Defaults.
type Policy struct {
	Schedule     Schedule      `key:"schedule"`
	Push         Push          `key:"push" one:"auto|off|required"`
	Lease        time.Duration `key:"lease" range:"1s..8760h"`
	Secret       HubSecret     `key:"secret" form:"secret" one:"auto|off"`
	MinSignature Signature     `key:"min_signature" one:"sha1|sha256|sha384|sha512"`
	Delete       Deletion      `key:"delete" one:"trash|keep|now"`
	Trash        time.Duration `key:"trash" range:"0s..87600h"`
	DeleteGuard  Percent       `key:"delete_guard"`
	ReorderGrace time.Duration `key:"reorder_grace" range:"0s..10m"`
	GapPatience  time.Duration `key:"gap_patience" range:"0s..8760h"`
	Concurrency  int           `key:"concurrency" range:"1..1024"`
	Rate         float64       `key:"rate" range:"0..1000000"`
	MaxResource  Size          `key:"max_resource"`
	Dumps        Dumps         `key:"dumps" one:"auto|off|always" only:"auto"`
	Durability   Durability    `key:"durability" one:"file|none"`
}

// Source is one entry of `sources`: what to mirror, and where it differs from Config.Defaults.
type Source struct {
	Name    string   `key:"name" form:"name"`
	URL     string   `key:"url" form:"url"`
	Kind    Kind     `key:"kind" one:"auto|resourcesync|feed"`
	Sets    []string `key:"sets" form:"url"`
	Scope   []string `key:"scope" form:"prefix"`
	Include []Glob   `key:"include"`
	Exclude []Glob   `key:"exclude"`
	Hub     string   `key:"hub" form:"url?"`
	Topic   string   `key:"topic" form:"url?"`
	Records string   `key:"records" one:"|resource-finder"`
	Follow  []string `key:"follow" one:"enclosure|alternate" once:""`
	Auth    Auth     `key:"auth"`
	Policy  `key:""`
}

// Auth is what a Source wants to see.
type Auth struct {
	Bearer            Secret            `key:"bearer" form:"secret"`
	BearerFile        string            `key:"bearer_file" form:"secretfile?"`
	BasicUser         string            `key:"basic_user" form:"user"`
	BasicPassword     Secret            `key:"basic_password" form:"password"`
	BasicPasswordFile string            `key:"basic_password_file" form:"secretfile?"`
	Header            map[string]Secret `key:"header" form:"secret"`
}

//go:embed starter.yaml
var starter string

// Starter is the file that `config init` writes: every key with its default, explained.
func Starter() string { return starter }

// Default is the configuration of an empty file.
func Default() *Config {
	return &Config{
		DataDir:   "./resyncd-data",
		Store:     "sqlite",
		Mirror:    mirrorBelow("./resyncd-data"),
		Republish: "off",
		Callback:  Callback{Listen: "127.0.0.1:8090", BaseURL: "http://127.0.0.1:8090/cb", MaxBody: 8 << 20},
		Console:   Console{Listen: "127.0.0.1:8091"},
		Network:   Network{IdleTimeout: time.Minute, RetryFor: 30 * time.Second},
		Defaults: Policy{
			Schedule:     everyQuarter(),
			Push:         PushAuto,
			Lease:        240 * time.Hour,
			Secret:       SecretAuto,
			MinSignature: SignatureSHA1,
			Delete:       DeleteTrash,
			Trash:        168 * time.Hour,
			DeleteGuard:  20,
			ReorderGrace: 2 * time.Second,
			GapPatience:  24 * time.Hour,
			Concurrency:  16,
			Dumps:        DumpsAuto,
			Durability:   DurabilityFile,
		},
	}
}

func mirrorBelow(dataDir string) string { return dataDir + "/mirror" }

// Adhoc is the Source of `sync URL DIR`. It fails if rawURL is no absolute http or https URL; the name is not checked.
func (c *Config) Adhoc(name, rawURL string) (Source, error) {
	if err := checkForm("url", rawURL); err != nil {
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
