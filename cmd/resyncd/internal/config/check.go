package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// check holds keys against each other. A key that was not given, or was already reported, is not blamed.
func (r *report) check(cfg *Config) {
	if r.given("callback.tls_cert_file") && cfg.Callback.TLSKeyFile == "" && cfg.Callback.TLSCertFile != "" &&
		!r.bad["callback.tls_key_file"] {
		r.clash("callback.tls_cert_file", "is set without tls_key_file")
	}
	if r.given("callback.tls_key_file") && cfg.Callback.TLSCertFile == "" && cfg.Callback.TLSKeyFile != "" &&
		!r.bad["callback.tls_cert_file"] {
		r.clash("callback.tls_key_file", "is set without tls_cert_file")
	}
	if cfg.Callback.Listen == cfg.Console.Listen && !strings.HasSuffix(cfg.Console.Listen, ":0") {
		for _, key := range []string{"console.listen", "callback.listen"} {
			if r.given(key) {
				r.clash(key, "is the address of the other listener too: hubs must not reach the console")
				break
			}
		}
	}
	r.checkConsole(&cfg.Console)
	names := map[string]string{}
	for i := range cfg.Sources {
		path := fmt.Sprintf("sources[%d]", i)
		if r.given(path) {
			r.checkSource(path, &cfg.Sources[i], names)
		}
	}
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
	r.checkKind(path, s)
	r.checkAuth(path+".auth", &s.Auth)
}

// checkKind blames keys of no use with the kind.
func (r *report) checkKind(path string, s *Source) {
	if r.bad[path+".kind"] {
		return
	}
	blame := func(key string, given bool, what string) {
		if key = path + "." + key; given && r.given(key) {
			r.clash(key, what)
		}
	}
	if s.Kind == KindFeed {
		blame("sets", len(s.Sets) > 0, "is not for feeds: a feed is one set by itself; leave it empty, or write kind: "+
			"resourcesync")
		return
	}
	what := "is for feeds only; write kind: feed beside it, or leave it empty"
	if s.Kind == KindResourceSync {
		what = "is for feeds only; leave it empty, or write kind: feed in place of kind: resourcesync"
	}
	blame("records", s.Records != "", what)
	blame("follow", len(s.Follow) > 0, what)
}

// clashing is a key that excludes, or needs, another one.
type clashing struct {
	key, with string
	wrong     bool
	what      string
}

func (r *report) checkClashes(path string, pairs []clashing) {
	for _, p := range pairs {
		if p.wrong && r.given(path+"."+p.key) && !r.bad[path+"."+p.with] {
			r.clash(path+"."+p.key, p.what)
		}
	}
}

func (r *report) checkAuth(path string, a *Auth) {
	r.checkClashes(path, []clashing{
		{"bearer_file", "bearer", a.BearerFile != "" &&
			a.Bearer.IsSet(), "is set beside bearer: write only one of them"},
		{"basic_password_file", "basic_password", a.BasicPasswordFile != "" &&
			a.BasicPassword.IsSet(), "is set beside basic_password: write only one of them"},
		{"basic_user", "basic_password_file", a.BasicUser != "" && a.BasicPasswordFile == "" &&
			!a.BasicPassword.IsSet(), "is set without basic_password_file"},
		{"basic_password_file", "basic_user", a.BasicUser == "" && a.BasicPasswordFile != "",
			"is set without basic_user"},
		{"basic_password", "basic_user", a.BasicUser == "" && a.BasicPassword.IsSet(), "is set without basic_user"},
	})
	bearer, basic := a.BearerFile != "" || a.Bearer.IsSet(), a.BasicUser != ""
	if bearer && basic {
		r.clash(path+".basic_user", "is set beside a bearer token: only one of them can be sent")
	}
	for _, name := range slices.Sorted(maps.Keys(a.Header)) {
		if strings.EqualFold(strings.TrimSuffix(name, "_file"), "authorization") && (bearer || basic) {
			r.clash(path+".header."+name, "is set beside a bearer token or basic_user: only one of them can be sent")
		}
	}
}

// secretFiles reads secrets given by file, and reports whether any was given inline.
func (r *report) secretFiles(cfg *Config) (inline bool) {
	inline = cfg.Console.Password.IsSet() || cfg.Console.Token.IsSet()
	r.secretFile(cfg, "console.password_file", cfg.Console.PasswordFile, "password", &cfg.Console.Password)
	r.secretFile(cfg, "console.token_file", cfg.Console.TokenFile, "secret", &cfg.Console.Token)
	for i := range cfg.Sources {
		path, a := fmt.Sprintf("sources[%d].auth", i), &cfg.Sources[i].Auth
		inline = inline || a.Bearer.IsSet() || a.BasicPassword.IsSet()
		r.secretFile(cfg, path+".bearer_file", a.BearerFile, "secret", &a.Bearer)
		r.secretFile(cfg, path+".basic_password_file", a.BasicPasswordFile, "password", &a.BasicPassword)
		for _, name := range slices.Sorted(maps.Keys(a.Header)) {
			value := a.Header[name]
			header, isFile := strings.CutSuffix(name, "_file")
			if !isFile {
				inline = true
				continue
			}
			delete(a.Header, name)
			r.secretFile(cfg, path+".header."+name, value.Reveal(), "secret", &value)
			a.Header[header] = value
		}
	}
	return inline
}

func (r *report) secretFile(cfg *Config, key, path, form string, into *Secret) {
	if path == "" || !r.given(key) {
		return
	}
	secret, warn, err := readSecret(path, form)
	if err != nil {
		r.clash(key, "the file "+err.Error()) // its name may be the secret itself
		return
	}
	if warn != "" {
		cfg.Warnings = append(cfg.Warnings, warn)
	}
	*into = secret
}
