package config

import (
	"net"
	"net/netip"
	"strings"
)

func local(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}

// checkConsole demands a guard where a network can reach the console, which can pause Sources and delete files.
func (r *report) checkConsole(c *Console) {
	r.checkClashes("console", []clashing{
		{"password_file", "password", c.PasswordFile != "" &&
			c.Password.IsSet(), "is set beside password: write only one of them"},
		{"token_file", "token", c.TokenFile != "" && c.Token.IsSet(), "is set beside token: write only one of them"},
		{"user", "password_file", c.User != "" && c.PasswordFile == "" &&
			!c.Password.IsSet(), "is set without password_file"},
		{"password_file", "user", c.User == "" && c.PasswordFile != "", "is set without user"},
		{"password", "user", c.User == "" && c.Password.IsSet(), "is set without user"},
	})
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
