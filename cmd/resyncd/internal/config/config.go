// Package config knows what an operator may say and how it is checked (strict YAML, RESYNCD_* variables, flags, secret
// files, defaults), and refuses to know what any of it does: it opens no database, no mirror and no connection.
//
// Precedence is flag > RESYNCD_* variable > file > default (contract.md 2). Everything wrong is reported at once, each
// problem with its file and line. Relative paths are relative to the working directory, as everywhere in a shell.
package config

import (
	"net/netip"
	"slices"
	"time"
)

// Config is the whole effective configuration. The struct tags are the schema, read by the loader, the variables,
// Print and Example alike:
//
//	key    name in the file           doc    comment in the example file
//	one    allowed values, by |       only   those of them that this version brings
//	range  lowest and highest value   form   what a text must look like (forms.go)
//	once   no value of the list may stand there twice
type Config struct {
	DataDir   string   `key:"data_dir" form:"path" doc:"Folder of the state database. Stage, trash and root marker always lie in .resyncd below each mirror root."`
	Store     string   `key:"store" form:"store" doc:"State store: sqlite. (postgres://user@host/db is not in this version.)"`
	Mirror    string   `key:"mirror" form:"mirror" doc:"Mirror root: each Source gets the folder NAME below it. Left out, it is the folder mirror below data_dir. (s3://bucket/prefix is not in this version.)"`
	Republish string   `key:"republish" form:"later" doc:"Offer the mirror as a Source of its own. (Not in this version.)"`
	Callback  Callback `key:"callback" doc:"Where hubs deliver."`
	Console   Console  `key:"console" doc:"The web console."`
	Network   Network  `key:"network" doc:"How the network is used."`
	Defaults  Policy   `key:"defaults" doc:"How each Source is treated. Every key may be overridden in a Source."`
	Sources   []Source `key:"sources" doc:"The Sources to mirror. This list can only be given in the file."`

	// Warnings stop nothing; Load fills them.
	Warnings []string
}

// Callback says where hubs deliver (contract.md 4).
type Callback struct {
	Listen      string `key:"listen" form:"listen" doc:"Address to listen on."`
	BaseURL     string `key:"base_url" form:"base" doc:"How hubs reach the listener; the token is appended as the last path segment. Left out, it is /cb at the listener's own address."`
	MaxBody     Size   `key:"max_body" range:"1KiB..1GiB" doc:"Largest notification accepted."`
	TLSCertFile string `key:"tls_cert_file" form:"path?" doc:"Certificate chain and key in PEM, both or neither; without them the listener speaks http."`
	TLSKeyFile  string `key:"tls_key_file" form:"path?"`
}

// Console says where the web console listens and who may use it; an empty Listen switches it off.
type Console struct {
	Listen       string   `key:"listen" form:"listen?" doc:"Address of console, /metrics, /healthz and /readyz; empty or off switches it off. It speaks http: beyond this machine put a proxy with TLS before it."`
	Hosts        []string `key:"hosts" form:"host" once:"" doc:"Names, without port, by which browsers reach the console beside IP addresses and localhost, such as mirror.example.org. Requests for other names are refused."`
	User         string   `key:"user" form:"user" doc:"Who may see all that and act on it: this user with the password, or whoever has the token (as a Bearer token, or as the password of any user). Without either it is whoever can connect, and listen must be an address of this machine only."`
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
	Allow       []netip.Prefix `key:"allow" doc:"Address ranges beyond public ones that documents may point at, such as 127.0.0.0/8. Hosts named in this file are allowed whatever their range."`
	IdleTimeout time.Duration  `key:"idle_timeout" range:"1s..24h" doc:"A transfer that moves nothing for this long is cut."`
	RetryFor    time.Duration  `key:"retry_for" range:"0s..24h" doc:"How long a one-shot run retries failures before it leaves them owed."`
	UserAgent   string         `key:"user_agent" form:"agent" doc:"Empty: resyncd/VERSION, with the contact if there is one."`
	Contact     string         `key:"contact" form:"agent" doc:"Mail or web address by which publishers reach you."`
}

// Policy is how one Source is treated. A Source starts from Config.Defaults.
type Policy struct {
	Schedule     Schedule      `key:"schedule" doc:"Cron spec of the safety-net pull: five fields in UTC, @hourly, @daily, … or @every 15m."`
	Push         Push          `key:"push" one:"auto|off|required" doc:"Whether to subscribe at hubs. required is auto, but without an active channel the Source does not count as in step."`
	Lease        time.Duration `key:"lease" range:"1s..8760h" doc:"Lease to ask hubs for."`
	Secret       HubSecret     `key:"secret" form:"secret" one:"auto|off" doc:"auto sends hubs a secret (with a warning on http that is not loopback). off is for a hub that cannot sign: its pushes are hints."`
	MinSignature Signature     `key:"min_signature" one:"sha1|sha256|sha384|sha512" doc:"Weakest signature accepted from a hub."`
	Delete       Deletion      `key:"delete" one:"trash|keep|now" doc:"What happens to a file whose resource is gone."`
	Trash        time.Duration `key:"trash" range:"0s..87600h" doc:"How long the trash keeps deleted bytes."`
	DeleteGuard  Percent       `key:"delete_guard" doc:"A baseline that would delete more than this share (and more than 10 resources) is held for the operator."`
	ReorderGrace time.Duration `key:"reorder_grace" range:"0s..10m" doc:"Wait this long for a late notification before pulling a gap."`
	GapPatience  time.Duration `key:"gap_patience" range:"0s..8760h" doc:"How long a Source's list may lag before a baseline is taken."`
	Concurrency  int           `key:"concurrency" range:"1..1024" doc:"Parallel fetches per host: the upper bound, adapts below it."`
	Rate         float64       `key:"rate" range:"0..1000000" doc:"Requests per second and host, 0 = unlimited."`
	MaxResource  Size          `key:"max_resource" doc:"Largest resource mirrored, such as 4GiB; 0 = unlimited."`
	Dumps        Dumps         `key:"dumps" one:"auto|off|always" only:"auto" doc:"May a baseline use Resource Dumps?"`
	Durability   Durability    `key:"durability" one:"file|none" doc:"file survives a power loss, none leaves the mirror's bytes to the operating system."`
}

// Source is one entry of `sources`: what to mirror, and where it differs from Config.Defaults.
type Source struct {
	Name    string   `key:"name" form:"name" doc:"Folder below mirror and name on the command line: letters, digits and . _ - only."`
	URL     string   `key:"url" form:"url" doc:"Site, /.well-known/resourcesync, Source Description, Capability List, Resource List, Change List or feed; with kind: feed any WebSub topic, or a page that links to a feed."`
	Kind    Kind     `key:"kind" one:"auto|resourcesync|feed" doc:"What the URL leads to. auto looks for ResourceSync and takes a feed whose own address is given; feed also looks for the feed of a page, and follows whatever else names a hub or can be polled."`
	Sets    []string `key:"sets" form:"url" doc:"Capability Lists to follow; empty = all. Not for feeds."`
	Scope   []string `key:"scope" form:"prefix" doc:"Extra URI prefixes that resources may lie under, beside scheme, host and port of the Capability List or feed."`
	Include []Glob   `key:"include" doc:"Globs for whole URIs: * stands for any run of characters without a slash, ** for any run at all, everything else for itself. Empty = all."`
	Exclude []Glob   `key:"exclude" doc:"Globs of what is not mirrored; stronger than include."`
	Hub     string   `key:"hub" form:"url?" doc:"Hub and topic instead of the discovered ones."`
	Topic   string   `key:"topic" form:"url?"`
	Records string   `key:"records" one:"|resource-finder" doc:"kind: feed only: each entry is an edit of a record, and each record one JSON file."`
	Follow  []string `key:"follow" one:"enclosure|alternate" once:"" doc:"kind: feed only: links of entries whose targets are mirrored too, where scope allows."`
	Auth    Auth     `key:"auth" doc:"Sent to the Source's own origin only."`
	Policy  `key:""`
}

// Auth is what a Source wants to see.
type Auth struct {
	Bearer            Secret            `key:"bearer" form:"secret" doc:"Bearer token, here or, better, in a file."`
	BearerFile        string            `key:"bearer_file" form:"secretfile?"`
	BasicUser         string            `key:"basic_user" form:"user" doc:"Basic authentication."`
	BasicPassword     Secret            `key:"basic_password" form:"password"`
	BasicPasswordFile string            `key:"basic_password_file" form:"secretfile?"`
	Header            map[string]Secret `key:"header" form:"secret" doc:"Further headers, { X-Api-Key: value } or { X-Api-Key_file: path }."`
}

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
