package subscribe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"resyncd/destination"
	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/store"
)

// SetChannels records what a set offers now. A channel that moved is subscribed to there before the old pair is
// unsubscribed (S-13, F32). A channel that is no longer named is unsubscribed, because the caller has seen that twice
// (F71). One that the operator cancelled stays off.
func (k *Keeper) SetChannels(ctx context.Context, sourceID, setID int64, chs []destination.Channel) error {
	own := slices.Clone(chs)
	for i := range own {
		own[i].Hubs = slices.Clone(own[i].Hubs)
	}
	k.mu.Lock()
	s := k.source(sourceID)
	p, planned := s.plan, s.planned
	if planned {
		s.offers[setID] = own
	}
	k.mu.Unlock()
	if !planned {
		return fmt.Errorf("set channels of source %d: it has no plan", sourceID)
	}
	if err := k.reconcile(ctx, sourceID, setID); err != nil {
		return fmt.Errorf("set channels of %s: %w", p.Name, err)
	}
	return nil
}

// followPlans reconciles the channels of Sources whose plan changed.
func (k *Keeper) followPlans(ctx context.Context) {
	k.mu.Lock()
	changed := slices.Sorted(maps.Keys(k.replan))
	clear(k.replan)
	k.mu.Unlock()
	for _, id := range changed {
		if err := k.reconcile(ctx, id, 0); err != nil && ctx.Err() == nil {
			k.o.Log.Warn("subscriptions cannot be brought in line with the configuration yet",
				"source", k.sourceName(id), "err", err)
			k.mu.Lock()
			k.replan[id] = true
			k.mu.Unlock()
		}
	}
}

// reconcile brings the subscriptions of a Source in line with what a set offers, or all of its sets (0).
func (k *Keeper) reconcile(ctx context.Context, sourceID, setID int64) error {
	k.chainMu.Lock()
	defer k.chainMu.Unlock()
	all, err := k.o.Store.Subscriptions(ctx, sourceID, false)
	if err != nil {
		return err
	}
	k.mu.Lock()
	of := k.source(sourceID)
	p, planned, offers := of.plan, of.planned, maps.Clone(of.offers)
	k.mu.Unlock()
	if !planned {
		return nil
	}
	maps.DeleteFunc(offers, func(set int64, _ []destination.Channel) bool { return setID != 0 && set != setID })
	if !p.Push {
		// What a set offers is unknown before its first discovery, which need not be waited for to leave.
		for _, s := range all {
			offers[s.SetID] = nil
		}
	}
	var errs []error
	for set, chs := range offers {
		want := k.targets(set, p, chs)
		for _, kind := range []store.ChannelKind{store.ChannelChange, store.ChannelFramework, store.ChannelFeed} {
			f := channelKey{sourceID, set, kind}
			c := chainOf(all, f)
			i := slices.IndexFunc(want, func(t target) bool { return t.kind == kind })
			if i < 0 || off(all, f) {
				errs = append(errs, k.endAll(ctx, c))
			} else {
				errs = append(errs, k.reconcileChannel(ctx, f, p, &want[i], c))
			}
		}
	}
	return errors.Join(errs...)
}

func off(all []store.Subscription, f channelKey) bool {
	return slices.ContainsFunc(all,
		func(s store.Subscription) bool { return channelOf(&s) == f && s.State == store.SubOff })
}

func (k *Keeper) reconcileChannel(ctx context.Context, f channelKey, p Plan, t *target, c chain) error {
	heads := c.heads()
	if len(heads) == 0 {
		return k.add(ctx, newRecord(f, t.topic, t.hubs[0], p.Secret, k.moment()))
	}
	// A crash or another process may leave several heads.
	slices.SortStableFunc(heads, func(a, b *store.Subscription) int { return rank(b, t, p) - rank(a, t, p) })
	for _, h := range heads[1:] {
		if err := k.endAll(ctx, append(below(c, h), h)); err != nil {
			return err
		}
	}
	top := heads[0]
	if t.fits(top, p.Secret) {
		return nil
	}
	hub := t.hubs[0]
	if slices.Contains(t.hubs, top.Hub) {
		hub = top.Hub
	}
	return k.replace(ctx, c, top, t.at(hub), p.Secret)
}

func rank(s *store.Subscription, t *target, p Plan) int {
	n := 0
	if t.fits(s, p.Secret) {
		n += 2
	}
	if s.Live() {
		n++
	}
	return n
}

func (k *Keeper) endAll(ctx context.Context, c chain) error {
	m := k.moment()
	for _, seen := range c {
		_, err := k.change(ctx, seen.ID, func(s *store.Subscription) error {
			if !counts(s) && (s.State != store.SubOff || seen.State != store.SubOff) { // cancelled meanwhile
				return errKeep
			}
			end(s, m)
			return nil
		})
		if err := ignore(err, store.ErrNotFound); err != nil {
			return err
		}
	}
	return nil
}

func ignore(err, harmless error) error {
	if errors.Is(err, harmless) {
		return nil
	}
	return err
}

const (
	hubsMost   = 5 // of a channel: each may get a record (P8)
	warnedMost = 1024
)

// target is a channel that is wanted, with its hubs in order.
type target struct {
	kind  store.ChannelKind
	topic string
	hubs  []string
}

// targets applies overrides (S-12), puts https hubs first (S-05), and drops channels without a usable hub. A set has
// one channel of a kind.
func (k *Keeper) targets(set int64, p Plan, chs []destination.Channel) []target {
	if !p.Push {
		return nil
	}
	// A Source whose hub and topic are configured need not offer a channel.
	news := func(c destination.Channel) bool { return kindOf(c) != store.ChannelFramework }
	if p.HubOverride != "" && p.TopicOverride != "" && !slices.ContainsFunc(chs, news) {
		chs = append(slices.Clone(chs), destination.Channel{Kind: rsdoc.KindChangeNotification})
	}
	var out []target
	for _, c := range chs {
		t := target{kind: kindOf(c), topic: c.Topic, hubs: ordered(c.Hubs)}
		if p.HubOverride != "" {
			t.hubs = []string{p.HubOverride}
		}
		if p.TopicOverride != "" && news(c) {
			t.topic = p.TopicOverride
		}
		if t.topic == "" || len(t.hubs) == 0 {
			k.o.Log.Debug("channel names no usable hub, so its set is followed by pulls alone", "source", p.Name,
				"set", set, "kind", string(t.kind), "topic", fetch.RedactURL(c.Topic))
			continue
		}
		if len(t.hubs) > hubsMost {
			t.hubs = t.hubs[:hubsMost]
		}
		if !slices.ContainsFunc(out, func(o target) bool { return o.kind == t.kind }) {
			out = append(out, t)
		}
	}
	return out
}

func kindOf(c destination.Channel) store.ChannelKind {
	switch c.Kind {
	case rsdoc.KindFrameworkNotification:
		return store.ChannelFramework
	case destination.KindFeed:
		return store.ChannelFeed
	}
	return store.ChannelChange
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

func (t *target) at(hub string) target { return target{t.kind, t.topic, []string{hub}} }

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
