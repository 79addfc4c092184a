package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// check holds keys against each other. A key that was not given, or was already reported, is not blamed.
func (r *report) check(cfg *Config) {
	cert, key := cfg.Callback.TLSCertFile != "", cfg.Callback.TLSKeyFile != ""
	r.clashes(cert && !key, "callback", "tls_cert_file", "tls_key_file", "is set without tls_key_file")
	r.clashes(key && !cert, "callback", "tls_key_file", "tls_cert_file", "is set without tls_cert_file")
	if cfg.Callback.Listen == cfg.Console.Listen && !strings.HasSuffix(cfg.Console.Listen, ":0") {
		for _, key := range []string{"console.listen", "callback.listen"} {
			if r.given(key) {
				r.clash(key, "is the address of the other listener too: hubs must not reach the console")
				break
			}
		}
	}
	r.checkLogin("console", cfg.Console.keys(), "user", "password", "token")
	r.checkReach(&cfg.Console)
	names := map[string]string{}
	for i := range cfg.Sources {
		path := fmt.Sprintf("sources[%d]", i)
		if r.given(path) {
			r.checkSource(path, &cfg.Sources[i], names)
		}
	}
}

// clashes blames a key that excludes, or needs, another one.
func (r *report) clashes(wrong bool, path, key, with, what string) {
	if wrong && r.given(path+"."+key) && !r.bad[path+"."+with] {
		r.clash(path+"."+key, what)
	}
}

// checkLogin holds a user, a password and a token against each other; both secrets may stand here or in a file.
func (r *report) checkLogin(path string, keys []key, user, password, token string) {
	has := func(name string) bool {
		k, _ := find(keys, name)
		return k.given()
	}
	file := password + "_file"
	for _, secret := range []string{password, token} {
		r.clashes(has(secret) && has(secret+"_file"), path, secret+"_file", secret,
			"is set beside "+secret+": write only one of them")
	}
	r.clashes(has(user) && !has(file) && !has(password), path, user, file, "is set without "+file)
	r.clashes(has(file) && !has(user), path, file, user, "is set without "+user)
	r.clashes(has(password) && !has(user), path, password, user, "is set without "+user)
}

// checkReach demands a guard where a network can reach the console, which can pause Sources and delete files.
func (r *report) checkReach(c *Console) {
	if c.Listen == "" || local(c.Listen) || c.Guarded() || !r.given("console.listen") {
		return
	}
	for _, key := range []string{"user", "password", "password_file", "token", "token_file"} {
		if r.bad["console."+key] { // meant to be guarded
			return
		}
	}
	r.clash("console.listen", "is open to others, and nobody would have to prove who they are: set console.token_file "+
		"(or user and password_file), or listen on 127.0.0.1")
}

func (r *report) checkSource(path string, s *Source, names map[string]string) {
	for _, key := range []string{path + ".name", path + ".url"} {
		if _, ok := r.origins[key]; !ok {
			r.add(r.origins[path], key, "is missing")
		}
	}
	// Some file systems fold case.
	if folded := strings.ToLower(s.Name); r.given(path + ".name") {
		if first, ok := names[folded]; ok {
			r.clash(path+".name", "is the name of another Source (upper and lower case count as the same): "+first)
		} else {
			names[folded] = fmt.Sprintf("%s at %s", s.Name, r.origins[path+".name"].where)
		}
	}
	forFeeds := "is for feeds only; write kind: feed beside it, or leave it empty"
	if s.Kind == KindResourceSync {
		forFeeds = "is for feeds only; leave it empty, or write kind: feed in place of kind: resourcesync"
	}
	feed := s.Kind == KindFeed
	r.clashes(feed && len(s.Sets) > 0, path, "sets", "kind", "is not for feeds: a feed is one set by itself; leave it "+
		"empty, or write kind: resourcesync")
	r.clashes(!feed && s.Records != "", path, "records", "kind", forFeeds)
	r.clashes(!feed && len(s.Follow) > 0, path, "follow", "kind", forFeeds)

	path += ".auth"
	r.checkLogin(path, s.Auth.keys(), "basic_user", "basic_password", "bearer")
	bearer, basic := s.Auth.BearerFile != "" || s.Auth.Bearer.IsSet(), s.Auth.BasicUser != ""
	if bearer && basic {
		r.clash(path+".basic_user", "is set beside a bearer token: only one of them can be sent")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Auth.Header)) {
		if strings.EqualFold(strings.TrimSuffix(name, "_file"), "authorization") && (bearer || basic) {
			r.clash(path+".header."+name, "is set beside a bearer token or basic_user: only one of them can be sent")
		}
	}
}

// baseFor is how hubs on this machine reach a listener: the base URL where none is given.
func baseFor(c *Callback) string {
	host, port, err := net.SplitHostPort(c.Listen)
	if ip, perr := netip.ParseAddr(host); err != nil || host == "" || perr == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme := "http"
	if c.TLSCertFile != "" {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, port) + "/cb"
}

func (r *report) warnCallback(cfg *Config) {
	if r.bad["callback.base_url"] {
		return
	}
	base := cfg.Callback.BaseURL
	local := Loopback(base)
	if strings.HasPrefix(strings.ToLower(base), "http:") && !local {
		cfg.Warnings = append(cfg.Warnings, "callback.base_url is plain http: who listens in on the way to it reads "+
			"the callback tokens, and the secrets if a hub is asked over http too; use https")
	}
	far := slices.IndexFunc(cfg.Sources, func(s Source) bool {
		return s.Push != PushOff && s.Hub != "" && !Loopback(s.Hub)
	})
	if local && far >= 0 {
		cfg.Warnings = append(cfg.Warnings, "callback.base_url leads to this machine only, and the hub of "+
			visible(cfg.Sources[far].Name)+" is on another: it cannot deliver; set callback.base_url to what "+
			"it can reach")
	}
}
