// Command rshub is a WebSub hub. It knows its flags; everything else is in destination/peer/hub.
package main

import (
	_ "embed" // the help
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/netip"
	"strings"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/internal/companion"
	"resyncd/cmd/internal/usage"
	"resyncd/destination/fetch"
	"resyncd/destination/peer/hub"
	"resyncd/destination/peer/hub/hubdb"
	"resyncd/destination/websub"
)

//go:embed help.yaml
var helpPage string

// help is the page with what only the code knows.
func help() *usage.Command {
	return usage.Read(helpPage, map[string]any{
		"RetryBase": hub.DefaultRetryBase, "MaxLease": hub.DefaultMaxLease, "MinLease": hub.DefaultMinLease,
		"QueueCap": hub.DefaultQueueCap, "MaxPerPeer": hub.DefaultMaxPerPeer,
	})
}

func main() {
	log.SetOutput(io.Discard) // net/http writes there what peers sent, unescaped
	companion.Main(help(), serve)
}

// serve runs until the context of c ends.
func serve(c *cli.Context, log *slog.Logger) (err error) {
	s, err := settingsOf(c)
	if err != nil {
		return companion.Usage(err)
	}
	state, err := hubdb.Open(c.Context, c.String("state"), log)
	if err != nil {
		if c.Context.Err() != nil {
			return nil
		}
		return err
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	listener, base, err := companion.Listen(c)
	if err != nil {
		return err
	}
	client := fetch.New(fetch.Options{UserAgent: "rshub", Allow: s.allow, Log: log})
	defer client.Close()
	topics := fetch.New(fetch.Options{UserAgent: "rshub", Allow: s.allowTopics, Log: log})
	defer topics.Close()
	s.hub.Base, s.hub.Log, s.hub.State, s.hub.Client, s.hub.TopicClient = base, log, state, client, topics
	h, err := hub.New(s.hub)
	if err != nil {
		listener.Close()
		return companion.Usage(err)
	}
	fmt.Fprintln(c.App.Writer, base)
	log.Info("serving", "listen", listener.Addr().String(), "hub", base)
	return companion.Serve(c.Context, h, listener)
}

// settings are the flags, read.
type settings struct {
	allow, allowTopics []netip.Prefix
	hub                hub.Options
}

// settingsOf reads the flags and names the first one that is wrong.
func settingsOf(c *cli.Context) (settings, error) {
	s := settings{hub: hub.Options{
		Base: c.String("url"), RetryBase: c.Duration("retry-base"),
		MaxLease: c.Duration("max-lease"), MinLease: c.Duration("min-lease"),
		QueueCap: c.Int("queue"), MaxPerTopic: c.Int("max-per-topic"), MaxPerHost: c.Int("max-per-host"),
		TrustTopics: c.Bool("trust-topics"),
	}}
	if c.String("listen") == "" {
		return s, errors.New("--listen is missing: say where to answer, e.g. --listen 127.0.0.1:8889")
	}
	if c.String("state") == "" {
		return s, errors.New("--state is missing: say where to keep subscriptions, e.g. --state ./hub.db")
	}
	for name, wrong := range map[string]bool{
		"retry-base": s.hub.RetryBase <= 0, "max-lease": s.hub.MaxLease <= 0,
		"min-lease": s.hub.MinLease <= 0, "queue": s.hub.QueueCap <= 0,
		"max-per-topic": s.hub.MaxPerTopic <= 0, "max-per-host": s.hub.MaxPerHost <= 0,
	} {
		if wrong {
			return s, fmt.Errorf("--%s %v: want more than 0", name, c.String(name))
		}
	}
	if !c.IsSet("min-lease") {
		s.hub.MinLease = min(s.hub.MinLease, s.hub.MaxLease)
	}
	var ok bool
	if s.hub.Signature, ok = websub.ParseMethod(c.String("signature")); !ok {
		return s, fmt.Errorf("--signature %q: want sha1, sha256, sha384 or sha512", c.String("signature"))
	}
	s.hub.TopicPrefixes = list(c.String("topics"))
	var err error
	if s.allow, err = networks(c, "allow"); err != nil {
		return s, err
	}
	s.allowTopics = s.allow
	if c.IsSet("allow-topics") {
		if s.allowTopics, err = networks(c, "allow-topics"); err != nil {
			return s, err
		}
	}
	if s.hub.PublisherToken, err = companion.Token(c); err != nil {
		return s, err
	}
	return s, s.hub.Check()
}

// networks reads a flag that lists networks.
func networks(c *cli.Context, flag string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, v := range list(c.String(flag)) {
		p, err := netip.ParsePrefix(v)
		if err != nil {
			return nil, fmt.Errorf("--%s %q: want a network such as 127.0.0.0/8", flag, v)
		}
		out = append(out, p)
	}
	return out, nil
}

// list splits at commas.
func list(v string) []string {
	return strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' })
}
