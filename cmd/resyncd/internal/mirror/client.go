package mirror

import (
	"fmt"
	"log/slog"
	"net/url"
	"slices"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/destination/fetch"
	syncengine "resyncd/sync"
)

// mostConcurrency is more than the policy of a Source allows, which holds it to its own bounds.
const mostConcurrency = 1024

// Client makes the way to the network, for the requests of any Source under its policy.
func Client(cfg *config.Config, version string, log *slog.Logger) *fetch.Client {
	agent := cfg.Network.UserAgent
	if agent == "" {
		agent = "resyncd/" + version
		if cfg.Network.Contact != "" {
			agent += " (+" + cfg.Network.Contact + ")"
		}
	}
	return fetch.New(fetch.Options{
		UserAgent: agent, Allow: slices.Clone(cfg.Network.Allow), Concurrency: mostConcurrency,
		IdleTimeout: cfg.Network.IdleTimeout, Log: log,
	})
}

// Connect fills the target and gives it a client of its own; done closes that.
func (o *Opened) Connect() (done func()) {
	o.Fill()
	o.Target.Client = Client(o.Config, o.version, o.Engine.Log)
	o.Target.Policy = PolicyOf(&o.Source)
	return o.Target.Client.Close
}

// Fill fills the target from the configuration.
func (o *Opened) Fill() {
	s, t := &o.Source, &o.Target
	t.Name, t.URL, t.Sets = s.Name, s.URL, s.Sets
	t.Kind, t.Records, t.Follow, t.Hub, t.Topic = syncengine.Kind(s.Kind), s.Records, s.Follow, s.Hub, s.Topic
	t.Scope, t.Include, t.Exclude = s.Scope, texts(s.Include), texts(s.Exclude)
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

func texts(gs []config.Glob) []string {
	out := make([]string, len(gs))
	for i, g := range gs {
		out[i] = string(g)
	}
	return out
}
