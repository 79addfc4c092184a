package subscribe

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"resyncd/destination/fetch"
	"resyncd/store"
)

// Each hub of each channel may get a record (P8).
const (
	hubsMost     = 5
	channelsMost = 8
	warnedMost   = 1024
)

// target is a channel that is wanted, with its hubs in order.
type target struct {
	kind  store.ChannelKind
	topic string
	hubs  []string
}

// targets applies overrides (S-12), puts https hubs first (S-05), and drops channels without a usable hub.
func (k *Keeper) targets(set int64, p Plan, chs []Channel) []target {
	if !p.Push {
		return nil
	}
	// A Source whose hub and topic are configured need not offer a channel.
	news := func(c Channel) bool { return c.Kind == store.ChannelChange || c.Kind == store.ChannelFeed }
	if p.HubOverride != "" && p.TopicOverride != "" && !slices.ContainsFunc(chs, news) {
		chs = append(slices.Clone(chs), Channel{Kind: store.ChannelChange})
	}
	var out []target
	for _, c := range chs {
		t := target{kind: c.Kind, topic: c.Topic, hubs: ordered(c.Hubs)}
		if p.HubOverride != "" {
			t.hubs = []string{p.HubOverride}
		}
		if p.TopicOverride != "" && news(c) {
			t.topic = p.TopicOverride
		}
		if t.topic == "" || len(t.hubs) == 0 {
			k.o.Log.Debug("channel names no usable hub, so its set is followed by pulls alone", "source", p.Name,
				"set", set, "kind", string(c.Kind), "topic", fetch.RedactURL(c.Topic))
			continue
		}
		if len(t.hubs) > hubsMost {
			t.hubs = t.hubs[:hubsMost]
		}
		if len(out) < channelsMost &&
			!slices.ContainsFunc(out, func(o target) bool { return o.kind == t.kind && o.topic == t.topic }) {
			out = append(out, t)
		}
	}
	return out
}

func ordered(hubs []string) []string {
	var out []string
	for _, scheme := range []string{"https", "http"} {
		for _, h := range hubs {
			u, err := url.Parse(h)
			if err == nil && u.Host != "" && strings.EqualFold(u.Scheme, scheme) && !slices.Contains(out, h) {
				out = append(out, h)
			}
		}
	}
	return out
}

func (t *target) fits(s *store.Subscription, secret bool) bool {
	return s.Kind == t.kind && s.Topic == t.topic && slices.Contains(t.hubs, s.Hub) && (s.Secret != "") == secret
}

func (t *target) after(hub string) []string {
	i := slices.Index(t.hubs, hub)
	if i < 0 {
		return t.hubs
	}
	return slices.Concat(t.hubs[i+1:], t.hubs[:i])
}

// warn says once for each hub that its secret travels unencrypted (S-24).
func (k *Keeper) warn(s *store.Subscription) {
	if s.Secret == "" {
		return
	}
	u, err := url.Parse(s.Hub)
	if err != nil || !strings.EqualFold(u.Scheme, "http") || loopback(u.Hostname()) {
		return
	}
	k.mu.Lock()
	known := k.warned[s.Hub]
	if len(k.warned) >= warnedMost {
		clear(k.warned)
	}
	k.warned[s.Hub] = true
	k.mu.Unlock()
	if !known {
		k.logger(s).Warn("the hub is reached over http: whoever listens learns the secret and can sign notifications")
	}
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
