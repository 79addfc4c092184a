package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// key is one key of the file, and how its value is set and shown.
type key struct {
	name string
	keys []key // of a section

	set    func(text string) error // sets the value or adds one to the list; the error is a predicate of the text
	texts  func() []string         // what set reads back
	clear  func()                  // empties the list; nil for a single value
	header *map[string]Secret

	word   bool // true and false must stand in quotes, numbers are printed in them
	hidden bool // its value stands in no message: it is a secret or a URL, or the key invites one by mistake
	query  bool // its value may carry a token behind ?
}

func one[T any](name string, at *T, parse func(string) (T, error)) key {
	return key{
		name:  name,
		set:   taking(parse, func(v T) { *at = v }),
		texts: func() []string { return []string{written(*at)} },
	}
}

func many[T any](name string, at *[]T, parse func(string) (T, error)) key {
	return key{
		name:  name,
		clear: func() { *at = nil },
		set:   taking(parse, func(v T) { *at = append(*at, v) }),
		texts: func() (out []string) {
			for _, v := range *at {
				out = append(out, written(v))
			}
			return out
		},
	}
}

func taking[T any](parse func(string) (T, error), keep func(T)) func(string) error {
	return func(text string) error {
		v, err := parse(text)
		if err == nil {
			keep(v)
		}
		return err
	}
}

// once is a list in which no value may stand twice.
func once(list key, at *[]string) key {
	add := list.set
	list.set = func(text string) error {
		if slices.Contains(*at, text) {
			return errors.New("stands there twice")
		}
		return add(text)
	}
	return list
}

// checked reads a text as it stands.
func checked(check func(string) error) func(string) (string, error) {
	return func(text string) (string, error) { return text, bounded(check, text) }
}

func text(name string, at *string, check func(string) error) key {
	k := one(name, at, checked(check))
	k.word = true
	return k
}

func texts(name string, at *[]string, check func(string) error) key {
	k := many(name, at, checked(check))
	k.word = true
	return k
}

func unshown(k key) key {
	k.hidden = true
	return k
}

func link(k key) key {
	k.hidden, k.query = true, true
	return k
}

func secret(name string, at *Secret, check func(string) error) key {
	return unshown(one(name, at, func(text string) (Secret, error) { return NewSecret(text), bounded(check, text) }))
}

// fileOf is the key for the file of a secret.
func fileOf(name string, at *string) key { return unshown(text(name+"_file", at, optional(localPath))) }

func oneOf[T ~string](allowed ...T) func(string) (T, error) {
	return func(text string) (T, error) {
		if slices.Contains(allowed, T(text)) {
			return T(text), nil
		}
		words := make([]string, len(allowed))
		for i, word := range allowed {
			words[i] = string(word)
		}
		return "", errors.New("is not allowed; write one of " + strings.Join(words, ", "))
	}
}

func within[T cmp.Ordered](parse func(string) (T, error), low, high string) func(string) (T, error) {
	return func(text string) (T, error) {
		v, err := parse(text)
		least, _ := parse(low)
		most, _ := parse(high)
		if err == nil && !(v >= least && v <= most) { // NaN is outside
			err = fmt.Errorf("is out of range; write %s to %s", low, high)
		}
		return v, err
	}
}

// take sets the value, or adds one to the list.
func (k key) take(text string) error {
	err := k.set(text)
	switch {
	case err == nil:
		return nil
	case k.hidden:
		return fmt.Errorf("the value %w", err)
	}
	return fmt.Errorf("%s %w", quoted(text), err)
}

// given reports whether a single value is more than the empty text.
func (k key) given() bool { return k.texts()[0] != "" }

func find(keys []key, name string) (key, bool) {
	for _, k := range keys {
		if k.name == name {
			return k, true
		}
	}
	return key{}, false
}

func namesOf(keys []key) string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	return strings.Join(names, ", ")
}

// leaves calls visit for every value below keys with its path.
func leaves(prefix string, keys []key, visit func(path string, k key)) {
	for _, k := range keys {
		switch path := join(prefix, k.name); {
		case k.keys != nil:
			leaves(path, k.keys, visit)
		case k.set != nil:
			visit(path, k)
		}
	}
}

func join(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

// keys are those of the file in the order in which it is printed. The list of Sources is read and printed apart.
func (c *Config) keys() []key {
	return []key{
		text("data_dir", &c.DataDir, localPath),
		unshown(text("store", &c.Store, stateStore)),
		unshown(text("mirror", &c.Mirror, mirrorRoot)),
		text(republish, &c.Republish, isOff),
		{name: "callback", keys: []key{
			text("listen", &c.Callback.Listen, listenAddress),
			unshown(text("base_url", &c.Callback.BaseURL, callbackBase)),
			one("max_body", &c.Callback.MaxBody, within(parseSize, "1KiB", "1GiB")),
			text("tls_cert_file", &c.Callback.TLSCertFile, optional(localPath)),
			text("tls_key_file", &c.Callback.TLSKeyFile, optional(localPath)),
		}},
		{name: "console", keys: c.Console.keys()},
		{name: "network", keys: []key{
			many("allow", &c.Network.Allow, parsePrefix),
			one("idle_timeout", &c.Network.IdleTimeout, within(parseDuration, "1s", "24h")),
			one("retry_for", &c.Network.RetryFor, within(parseDuration, "0s", "24h")),
			text("user_agent", &c.Network.UserAgent, headerText),
			text("contact", &c.Network.Contact, headerText),
		}},
		{name: "defaults", keys: c.Defaults.keys()},
		{name: sourceList},
	}
}

const (
	republish  = "republish" // takes more than a word one day
	sourceList = "sources"
)

func (c *Console) keys() []key {
	listen := one("listen", &c.Listen, consoleListen)
	listen.word = true
	return []key{
		listen,
		once(texts("hosts", &c.Hosts, hostName), &c.Hosts),
		text("user", &c.User, userName),
		secret("password", &c.Password, password),
		fileOf("password", &c.PasswordFile),
		secret("token", &c.Token, headerText),
		fileOf("token", &c.TokenFile),
	}
}

func (p *Policy) keys() []key {
	return []key{
		one("schedule", &p.Schedule, ParseSchedule),
		one("push", &p.Push, oneOf(PushAuto, PushOff, PushRequired)),
		one("lease", &p.Lease, within(parseDuration, "1s", "8760h")),
		unshown(one("secret", &p.Secret, oneOf("auto", SecretOff))),
		one("min_signature", &p.MinSignature, oneOf("sha1", "sha256", "sha384", "sha512")),
		one("delete", &p.Delete, oneOf("trash", "keep", "now")),
		one("trash", &p.Trash, within(parseDuration, "0s", "87600h")),
		one("delete_guard", &p.DeleteGuard, parsePercent),
		one("reorder_grace", &p.ReorderGrace, within(parseDuration, "0s", "10m")),
		one("gap_patience", &p.GapPatience, within(parseDuration, "0s", "8760h")),
		one("concurrency", &p.Concurrency, within(parseInt, "1", "1024")),
		one("rate", &p.Rate, within(parseFloat, "0", "1000000")),
		one("max_resource", &p.MaxResource, parseSize),
		one("dumps", &p.Dumps, oneOf("auto", "off", "always")),
		one("max_dump", &p.MaxDump, parseSize),
		one("duplicates", &p.Duplicates, oneOf("fallback", "prefer", "off")),
		one("patches", &p.Patches, oneOf(PatchesOn, "off")),
		once(link(texts("collections", &p.Collections, absoluteURI)), &p.Collections),
		one("metadata", &p.Metadata, oneOf("with", "only", "without")),
		link(text("batch", &p.Batch, optional(webURL))),
		one("batch_size", &p.BatchSize, within(parseInt, "1", "100")),
		one("durability", &p.Durability, oneOf("file", DurabilityNone)),
	}
}

func (s *Source) keys() []key {
	return append([]key{
		text("name", &s.Name, sourceName),
		link(text("url", &s.URL, webURL)),
		one("kind", &s.Kind, oneOf(KindAuto, KindResourceSync, KindFeed)),
		link(texts("sets", &s.Sets, webURL)),
		link(texts("scope", &s.Scope, scopePrefix)),
		many("include", &s.Include, parseGlob),
		many("exclude", &s.Exclude, parseGlob),
		link(text("hub", &s.Hub, optional(webURL))),
		link(text("topic", &s.Topic, optional(webURL))),
		one("records", &s.Records, checked(recordsFormat)),
		once(many("follow", &s.Follow, oneOf("enclosure", "alternate")), &s.Follow),
		{name: "auth", keys: s.Auth.keys()},
	}, s.Policy.keys()...)
}

func (a *Auth) keys() []key {
	return []key{
		secret("bearer", &a.Bearer, headerText),
		fileOf("bearer", &a.BearerFile),
		text("basic_user", &a.BasicUser, userName),
		secret("basic_password", &a.BasicPassword, password),
		fileOf("basic_password", &a.BasicPasswordFile),
		{name: "header", header: &a.Header},
	}
}
