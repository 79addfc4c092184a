package mirror

import (
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"slices"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/destination/fetch"
	syncengine "resyncd/sync"
)

// Client makes the way to the network for a run.
func Client(cfg *config.Config, src *config.Source, version string, log *slog.Logger) *fetch.Client {
	return newClient(cfg, src.Concurrency, src.Rate, version, log)
}

// SharedClient makes the one of the daemon; policies hold each Source to its own bounds.
func SharedClient(cfg *config.Config, version string, log *slog.Logger) *fetch.Client {
	return newClient(cfg, mostConcurrency, 0, version, log)
}

const mostConcurrency = 1024

func newClient(cfg *config.Config, concurrency int, rate float64, version string, log *slog.Logger) *fetch.Client {
	agent := cfg.Network.UserAgent
	if agent == "" {
		agent = "resyncd/" + version
		if cfg.Network.Contact != "" {
			agent += " (+" + cfg.Network.Contact + ")"
		}
	}
	return fetch.New(fetch.Options{
		UserAgent: agent, Allow: append([]netip.Prefix(nil), cfg.Network.Allow...), Concurrency: concurrency,
		Rate: rate, IdleTimeout: cfg.Network.IdleTimeout, Log: log,
	})
}

// Connect fills the target and gives it a client of its own; done closes that.
func (o *Opened) Connect() (done func()) {
	o.Fill()
	o.Target.Client = Client(o.Config, &o.Source, o.version, o.Engine.Log)
	o.Target.Policy = PolicyOf(&o.Source)
	return o.Target.Client.Close
}

// Fill fills the target from the configuration.
func (o *Opened) Fill() {
	s, t := &o.Source, &o.Target
	t.Name, t.URL, t.Sets = s.Name, s.URL, s.Sets
	t.Kind, t.Records, t.Follow, t.Hub, t.Topic = syncengine.Kind(s.Kind), s.Records, s.Follow, s.Hub, s.Topic
	t.Scope, t.Include, t.Exclude = s.Scope, s.Include, s.Exclude
	t.Delete, t.TrashFor, t.DeleteGuard = syncengine.DeleteMode(s.Delete), s.Trash, s.DeleteGuard.Share()
	if len(o.Config.Network.Allow) > 0 {
		t.Reach = fmt.Sprint(o.Config.Network.Allow)
	}
	t.GapPatience, t.MaxResource, t.Concurrency = s.GapPatience, int64(s.MaxResource), s.Concurrency
}

// PolicyOf allows the hosts that the operator wrote down whatever their addresses, and sends credentials to the
// Source's own origin only (CONTRIBUTING.md 8).
func PolicyOf(s *config.Source) *fetch.Policy {
	p := &fetch.Policy{Concurrency: s.Concurrency, Rate: s.Rate}
	for _, raw := range slices.Concat([]string{s.URL, s.Hub, s.Topic}, s.Sets, s.Scope) {
		if u, err := url.Parse(raw); err == nil && u.Host != "" {
			p.Trusted = append(p.Trusted, u.Host)
		}
	}
	a := fetch.Auth{Bearer: s.Auth.Bearer.Reveal(), BasicUser: s.Auth.BasicUser,
		BasicPassword: s.Auth.BasicPassword.Reveal()}
	for k, v := range s.Auth.Header {
		if a.Headers == nil {
			a.Headers = map[string]string{}
		}
		a.Headers[k] = v.Reveal()
	}
	if u, err := url.Parse(s.URL); err == nil && (a.Bearer != "" || a.BasicUser != "" || a.Headers != nil) {
		p.Auth, p.AuthOrigin = &a, u.Scheme+"://"+u.Host
	}
	return p
}
