package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
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
			r.checkSource(path, &cfg.Sources[i], &cfg.Defaults, names)
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

func (r *report) checkSource(path string, s *Source, defaults *Policy, names map[string]string) {
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
			names[folded] = fmt.Sprintf("%s at %s", s.Name, r.origins[path+".name"].Where)
		}
	}
	forFeeds := "is for feeds only; write kind: feed beside it, or leave it empty"
	if s.Kind == KindResourceSync {
		forFeeds = "is for feeds only; leave it empty, or write kind: feed in place of kind: resourcesync"
	}
	feed := s.Kind == KindFeed
	r.clashes(feed && len(s.Sets) > 0, path, "sets", "kind", "is not for feeds: a feed is one set by itself; leave it "+
		"empty, or write kind: resourcesync")
	const whole = "is not for feeds, which are mirrored whole; leave it out"
	selects := !slices.Equal(s.Collections, defaults.Collections) // what is printed has all defaults
	r.clashes(feed && selects && len(s.Collections) > 0, path, "collections", "kind", whole)
	r.clashes(feed && s.Metadata != "with" && s.Metadata != defaults.Metadata, path, "metadata", "kind", whole)
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

// maxText bounds a text, in bytes.
const maxText = 2048

const notYet = "is not in this version"

// bounded tells what is wrong with text, as the rest of a sentence.
func bounded(check func(string) error, text string) error {
	if len(text) > maxText {
		return errors.New("is too long: at most " + strconv.Itoa(maxText) + " bytes")
	}
	return check(text)
}

// optional takes the empty text too.
func optional(check func(string) error) func(string) error {
	return func(text string) error {
		if text == "" {
			return nil
		}
		return check(text)
	}
}

// matching is a check that wants patterns, in this order, each with what is wrong with a text that it does not fit. One
// that begins with ! must not fit.
func matching(rules ...string) func(string) error {
	var res []*regexp.Regexp
	for rule := range slices.Chunk(rules, 2) {
		res = append(res, regexp.MustCompile(strings.TrimPrefix(rule[0], "!")))
	}
	return func(text string) error {
		for i, re := range res {
			if wanted := !strings.HasPrefix(rules[2*i], "!"); re.MatchString(text) != wanted {
				return errors.New(rules[2*i+1])
			}
		}
		return nil
	}
}

// What texts must look like. A colon would end the name of a user (RFC 7617 section 2). The name of a Source is safe as
// a folder on every system.
var (
	isPath = []string{
		`^\P{Cc}+$`, "is not a path",
		`!^~`, "begins with ~, which is not expanded here: write the path out",
	}
	localPath  = matching(isPath...)
	mirrorRoot = matching(append([]string{
		`!^s3://`, notYet + "; write a local folder",
		`!://`, "is not allowed; write a local folder",
	}, isPath...)...)
	stateStore = matching(`!^postgres(ql)?://`, notYet+"; write sqlite", `^sqlite$`, "is not allowed; write sqlite")
	isOff      = matching(`^off$`, notYet+"; write off")
	// A collection is compared, never fetched, so it may have any scheme.
	absoluteURI = matching(`^[A-Za-z][0-9A-Za-z+.-]*:[!-~]+$`,
		"is not a URI: write it as its links do, with the scheme, such as https://example.org/collection")
	userName   = matching(`^[^:\p{Cc}]*$`, "must not hold a colon or a control character")
	password   = matching(`^\P{Cc}*$`, "must be one line without control characters")
	headerText = matching(`^[ -~]*$`, "must be one line of printable ASCII")
	hostName   = matching(`^[0-9A-Za-z._-]+$`,
		"is not a name of this console: write it without http:// and port, such as mirror.example.org")
	recordsFormat = matching(`^(resource-finder)?$`, "is not allowed; write resource-finder, or leave it empty")
	sourceName    = matching(
		`!^(?i:CON|PRN|AUX|NUL|COM[0-9]|LPT[0-9])(\.|$)`, "is reserved on Windows: choose another name",
		`^[0-9A-Za-z]([0-9A-Za-z._-]{0,62}[0-9A-Za-z_-])?$`,
		"is not a name: write 1 to 64 letters, digits and . _ -, the first a letter or digit, the last no dot")
	headerName = matching(
		`!^(?i:host|connection|content-length|transfer-encoding|te|trailer|upgrade|`+
			`range|if-(range|match|none-match|modified-since|unmodified-since)|accept-encoding|user-agent)$`,
		"is written by resyncd itself: choose another header",
		"^[0-9A-Za-z!#$%&'*+.^_`|~-]{1,128}$", "is not a header name")
)

// listenAddress wants host:port; no host is all interfaces, port 0 any.
func listenAddress(text string) error {
	host, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil || strings.ContainsFunc(host, notVisible) {
		return errors.New("is not an address to listen on: write host:port, such as 127.0.0.1:8090")
	}
	return nil
}

// consoleListen takes off for empty, because an empty variable counts as not set.
func consoleListen(text string) (string, error) {
	if text == "off" || text == "" {
		return "", nil
	}
	return text, bounded(listenAddress, text)
}

var errNoPort = errors.New("names a port that does not exist")

// webURL wants an absolute http or https URL without a password, which has a key of its own.
func webURL(text string) error {
	u, err := absoluteURL(text)
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(u.Port()); err == nil && n == 0 {
		return errNoPort
	}
	return nil
}

// absoluteURL takes port 0, the one that is listened on.
func absoluteURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || strings.ContainsFunc(text, notVisible) || (u.Scheme != "http" && u.Scheme != "https") ||
		u.Hostname() == "":
		return nil, errors.New("is not a URL: write http:// or https:// with a host, such as https://example.org/")
	case u.User != nil:
		return nil, errors.New("carries a user or password: write these under auth")
	case strings.Contains(text, "#"):
		return nil, errors.New("carries a fragment: leave out # and what follows")
	}
	if _, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && err != nil {
		return nil, errNoPort
	}
	return u, nil
}

// callbackBase wants a URL that no proxy rewrites: hubs compare and call it byte for byte.
func callbackBase(text string) error {
	u, err := absoluteURL(text)
	if err != nil {
		return err
	}
	if strings.Contains(text, "?") {
		return errors.New("must not carry a query: the token is appended to its path")
	}
	path := strings.TrimRight(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." || segment == "" && path != "" {
			return errors.New("has a path that servers rewrite: leave out //, /./ and /../")
		}
	}
	return nil
}

// scopePrefix is a URL whose host has an end: "https://example.org" would also be a prefix of
// https://example.org.evil/.
func scopePrefix(text string) error {
	if err := webURL(text); err != nil {
		return err
	}
	if u, err := url.Parse(text); err != nil || !strings.HasPrefix(u.EscapedPath(), "/") {
		return errors.New("does not end the host: write a / after it")
	}
	return nil
}

// ValidName reports whether a Source may be called so.
func ValidName(name string) bool { return sourceName(name) == nil }

func notVisible(r rune) bool { return r <= ' ' || !unicode.IsPrint(r) }

// isLoopback reports whether host is an address of this machine, or localhost.
func isLoopback(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}

// Loopback reports whether a URL leads to this machine only.
func Loopback(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	return isLoopback(host) || strings.HasSuffix(host, ".localhost")
}

// local reports whether only this machine can reach a listener.
func local(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return err == nil && isLoopback(host)
}
