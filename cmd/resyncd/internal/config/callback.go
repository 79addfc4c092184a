package config

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// callbackBase wants a URL that no proxy rewrites: hubs compare and call it byte for byte. Port 0 is the one that is
// listened on.
func callbackBase(text string) error {
	u, err := absoluteURL(text)
	if err != nil {
		return err
	}
	if _, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && err != nil {
		return errNoPort
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

// Loopback reports whether a URL leads to this machine only.
func Loopback(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
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
