package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/internal/companion"
	"resyncd/destination/peer/hub"
	"resyncd/destination/websub"
)

const description = `   rshub --listen 127.0.0.1:8889 --state ./hub.db --allow 127.0.0.0/8
   rshub --listen 127.0.0.1:8889 --url https://hub.example/ --state /var/lib/rshub/hub.db ` +
	`--topics https://data.example/ --publisher-token-file token

The first line on stdout is the hub's URL, written as soon as connections are taken; topics are to advertise exactly
that one. It takes subscribe, unsubscribe, pings (hub.mode=publish with hub.url or hub.topic, repeated) and content: a
POST of the payload whose Link header names the topic with rel="self". SIGINT and SIGTERM end the program orderly.

It speaks WebSub, and PubSubHubbub 0.3 to whoever does: with hub.verify=sync the answer is 204 or 409 and comes ` +
	`after the
verification, hub.verify_token comes back, content is signed with sha1, and before a lease is over the hub asks again. A
ping that knows hub.url only is answered 204, any other 202. A pinged topic is read, and relayed if it has changed.

Subscriptions and undelivered notifications are in the state file and outlive the program, whatever ends it. A
publisher's 2xx means that its notification is there. Only 410, the end of its lease and its own wish end a ` +
	`subscription.

Callbacks and topics may be on public addresses only; --allow 127.0.0.0/8,::1/128 adds this machine, and --allow-topics
sets another list for topics. A hub reads topics for anybody who subscribes, so one that strangers reach needs --topics
beside --allow. Without --publisher-token-file content is taken from publishers on this machine only, and not through a
proxy on it; with one, from whoever sends "Authorization: Bearer TOKEN". With --trust-topics it is also taken from
anybody, for topics that name this hub when they are read: who knows of such a topic can then push what he likes. Pings
are taken from everybody, because their topic is read.

Exit codes: 0 ended by a signal; 1 failed (address taken, state unusable); 2 bad usage.`

func flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "listen", Usage: "`ADDR` to answer on, e.g. 127.0.0.1:8889; port 0 takes a free one"},
		&cli.StringFlag{Name: "url",
			Usage: "`BASE` URL as the outside sees it", DefaultText: "http:// and the address"},
		&cli.StringFlag{Name: "state", Usage: "keep subscriptions and the queue in `FILE`, made if it is missing"},
		&cli.StringFlag{Name: "publisher-token-file", Usage: "`FILE` with the token that publishers of content show"},
		&cli.StringFlag{Name: "topics", Usage: "`PREFIX,…` of the topics that are served", DefaultText: "all"},
		&cli.StringFlag{Name: "allow", Usage: "`CIDR,…` that may be reached beyond public addresses"},
		&cli.StringFlag{Name: "allow-topics",
			Usage: "`CIDR,…` that topics may be on instead, \"\" for public addresses only", DefaultText: "as --allow"},
		&cli.BoolFlag{Name: "trust-topics", Usage: "take content from anybody for topics that name this hub"},
		&cli.DurationFlag{Name: "retry-base", Value: hub.DefaultRetryBase,
			Usage: "`WAIT` before a failed delivery is tried again; then 2, 6, 24 and 120 times as long"},
		&cli.DurationFlag{Name: "max-lease", Value: hub.DefaultMaxLease, Usage: "longest `LEASE` that is granted"},
		&cli.DurationFlag{Name: "min-lease", Value: hub.DefaultMinLease, Usage: "shortest `LEASE` that is granted"},
		&cli.IntFlag{Name: "queue", Value: hub.DefaultQueueCap,
			Usage: "notifications `N` that wait for one subscriber; beyond, the oldest are dropped"},
		&cli.IntFlag{Name: "max-per-topic", Value: hub.DefaultMaxPerPeer, Usage: "subscriptions `N` to one topic"},
		&cli.IntFlag{Name: "max-per-host", Value: hub.DefaultMaxPerPeer,
			Usage: "subscriptions `N` of one callback host"},
		&cli.StringFlag{Name: "signature", Value: websub.SHA256.String(),
			Usage: "sign with `METHOD` sha1, sha256, sha384 or sha512 for subscribers of WebSub"},
		&cli.StringFlag{Name: "log-level", Value: "info", Usage: "`LEVEL` of what is logged on stderr"},
	}
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
			return s, fmt.Errorf("--%s %v: want more than 0", name, c.Value(name))
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
