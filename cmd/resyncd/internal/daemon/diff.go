package daemon

import (
	"reflect"
	"slices"

	"resyncd/cmd/resyncd/internal/config"
)

// configDiff is what a new configuration asks of a running daemon.
type configDiff struct {
	added   []config.Source
	removed []string
	// anew: what is fetched, or how, changed; the Source gets a new Follower and keeps its leases. agreed: only what is
	// agreed with hubs changed; nothing is stopped.
	anew, agreed []config.Source
	restart      []string // keys that take effect at the next start
}

// compareConfigs draws the difference between two valid configurations.
func compareConfigs(old, now *config.Config) configDiff {
	var d configDiff
	for _, s := range old.Sources {
		if _, ok := now.Source(s.Name); !ok {
			d.removed = append(d.removed, s.Name)
		}
	}
	for _, s := range now.Sources {
		was, ok := old.Source(s.Name)
		switch {
		case !ok:
			d.added = append(d.added, s)
		case reflect.DeepEqual(was, s):
		case reflect.DeepEqual(withoutAgreement(was), withoutAgreement(s)):
			d.agreed = append(d.agreed, s)
		default:
			d.anew = append(d.anew, s)
		}
	}
	for _, k := range []struct {
		key     string
		was, is any
	}{
		{"data_dir", old.DataDir, now.DataDir},
		{"store", old.Store, now.Store},
		{"mirror", old.Mirror, now.Mirror},
		{"callback.listen", old.Callback.Listen, now.Callback.Listen},
		{"callback.base_url", old.Callback.BaseURL, now.Callback.BaseURL},
		{"callback.max_body", old.Callback.MaxBody, now.Callback.MaxBody},
		{"callback.tls_cert_file", old.Callback.TLSCertFile, now.Callback.TLSCertFile},
		{"callback.tls_key_file", old.Callback.TLSKeyFile, now.Callback.TLSKeyFile},
		{"console.listen", old.Console.Listen, now.Console.Listen},
		{"console.user", old.Console.User, now.Console.User},
		{"console.password", old.Console.Password.Reveal(), now.Console.Password.Reveal()},
		{"console.token", old.Console.Token.Reveal(), now.Console.Token.Reveal()},
		{"network.idle_timeout", old.Network.IdleTimeout, now.Network.IdleTimeout},
		{"network.user_agent", old.Network.UserAgent, now.Network.UserAgent},
		{"network.contact", old.Network.Contact, now.Network.Contact},
	} {
		if k.was != k.is {
			d.restart = append(d.restart, k.key)
		}
	}
	if !slices.Equal(old.Console.Hosts, now.Console.Hosts) {
		d.restart = append(d.restart, "console.hosts")
	}
	if !slices.Equal(old.Network.Allow, now.Network.Allow) {
		d.restart = append(d.restart, "network.allow")
	}
	return d
}

// withoutAgreement leaves out what only hubs and the callback server have to know. The topic of a feed is also what is
// pulled.
func withoutAgreement(s config.Source) config.Source {
	s.Push, s.Lease, s.Secret, s.MinSignature = "", 0, "", ""
	if s.Kind != config.KindFeed {
		s.Hub, s.Topic = "", ""
	}
	return s
}

// merged is the configuration that the daemon goes by after a reload: the new Sources, and of the rest what it was
// started with.
func merged(old, now *config.Config) *config.Config {
	out := *old
	out.Sources, out.Defaults = now.Sources, now.Defaults
	return &out
}
