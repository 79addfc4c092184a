package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/destination"
	"resyncd/destination/rsdoc"
)

// sampled is how many entries of a set's lists are looked at to see where its resources lie.
const sampled = 2000

// originsShown is how many of the places are named where resources lie.
const originsShown = 20

// snippet is an entry of `sources:`, as discovery suggests it.
type snippet struct {
	cfg    *config.Config
	asked  string
	offer  *destination.Offer
	topics []topicView
	scope  []string // origins beyond the sets' own that resources lie at
}

// choice is a set that may be named in an entry.
type choice struct{ ID, Has string }

// write writes the entry in YAML. It stands alone as a configuration file, and passes `config check` as it is.
func (s *snippet) write(w io.Writer) error {
	usable := s.usable()
	data := struct {
		Name, Asked, Other, Private string
		IsFeed, Pushed, Partial     bool
		Sets                        []choice // where there is one
		Scope                       []string
		More                        int
	}{
		Name: s.name(), Asked: s.asked, Private: strings.Join(s.private(), ", "), Partial: s.offer.Partial,
		Scope: s.scope[:min(len(s.scope), originsShown)], More: max(0, len(s.scope)-originsShown),
		Pushed: slices.ContainsFunc(usable, hasHub) ||
			slices.ContainsFunc(s.topics, func(t topicView) bool { return len(t.Hubs) > 0 }),
		IsFeed: len(s.topics) > 0 && !slices.ContainsFunc(usable,
			func(o *destination.SetOffer) bool { return o.Topic == nil }), // no ResourceSync behind it
	}
	for _, set := range usable {
		if len(usable) > 1 {
			data.Sets = append(data.Sets, choice{set.ID, whatItHas(set)})
		}
	}
	for _, src := range slices.Backward(s.cfg.Sources) {
		if src.URL == s.asked {
			data.Other = src.Name
		}
	}
	return term.Write(w, "snippet.tmpl", data)
}

func (s *snippet) usable() []*destination.SetOffer {
	var out []*destination.SetOffer
	for i := range s.offer.Sets {
		if s.offer.Sets[i].Err == nil {
			out = append(out, &s.offer.Sets[i])
		}
	}
	return out
}

// whatItHas names the documents of a set, and says whether it is pushed.
func whatItHas(set *destination.SetOffer) string {
	var has []string
	for _, d := range documentsOf(set) {
		has = append(has, d.Capability)
	}
	if hasHub(set) {
		has = append(has, "push")
	}
	return term.OneLine(strings.Join(has, ", "))
}

func hasHub(set *destination.SetOffer) bool {
	return slices.ContainsFunc(set.Channels(), func(c destination.Channel) bool { return len(c.Hubs) > 0 })
}

// name is the Source's: that of its host, if no other Source has it.
func (s *snippet) name() string {
	u, err := url.Parse(s.asked)
	base := "source"
	if err == nil && u.Host != "" {
		base = strings.TrimFunc(strings.Map(func(r rune) rune {
			if r < 128 && (r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_') {
				return r
			}
			return '_'
		}, strings.ToLower(u.Host)), func(r rune) bool { return strings.ContainsRune("._-", r) })
	}
	if !config.ValidName(base+"-99") || !config.ValidName(base) { // too long, or reserved
		base = "source"
	}
	name := base
	for n := 2; ; n++ {
		if other, taken := s.cfg.Source(name); !taken || other.URL == s.asked {
			return name
		}
		name = base + "-" + strconv.Itoa(n)
	}
}

// private are the private addresses, as networks, that hubs, documents and resources are at, beside the address that
// was asked for and what the configuration allows already.
func (s *snippet) private() []string {
	own, err := url.Parse(s.asked)
	if err != nil {
		return nil
	}
	var urls []string
	for _, set := range s.usable() {
		urls = append(urls, set.ID)
		for _, d := range documentsOf(set) {
			urls = append(urls, d.URL)
		}
		for _, c := range set.Channels() {
			urls = append(append(urls, c.Topic), c.Hubs...)
		}
	}
	for i := range s.topics {
		urls = append(append(urls, s.topics[i].Topic), s.topics[i].Hubs...)
	}
	var out []string
	for _, raw := range urls {
		u, err := url.Parse(raw)
		if err != nil || u.Host == own.Host {
			continue
		}
		ip, err := netip.ParseAddr(u.Hostname())
		if err != nil || !ip.IsPrivate() && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() ||
			slices.ContainsFunc(s.cfg.Network.Allow, func(p netip.Prefix) bool { return p.Contains(ip) }) {
			continue
		}
		out = append(out, netip.PrefixFrom(ip.WithZone(""), ip.BitLen()).String())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// elsewhere looks where the resources of an offer's sets lie, by the first entries of a list of each, and returns the
// origins that are not those of the sets. A list that cannot be read tells nothing.
func elsewhere(ctx context.Context, r *destination.Reader, offer *destination.Offer) ([]string, error) {
	found := map[string]bool{}
	for i := range offer.Sets {
		set := &offer.Sets[i]
		list := cmp.Or(set.ResourceList, set.ChangeList)
		if set.Err != nil || set.Topic != nil || list == nil {
			continue
		}
		scope, err := destination.NewScope(set.ID, nil)
		if err != nil {
			continue // the set's own address is odd: every run will tell
		}
		look := &scout{scope: scope, found: found}
		if _, err := r.Walk(ctx, *list, list.Kind, look); err != nil && !errors.Is(err, errEnough) {
			return nil, err
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// scout is a destination.Visitor that notes the origins of entries outside a scope.
type scout struct {
	scope *destination.Scope
	found map[string]bool
	seen  int
}

// Enter implements destination.Visitor.
func (*scout) Enter(context.Context, *destination.Part) (destination.Verdict, error) {
	return destination.Read, nil
}

// Unchanged implements destination.Visitor.
func (*scout) Unchanged(context.Context, *destination.Part) error { return nil }

// Begin implements destination.Visitor.
func (*scout) Begin(context.Context, *destination.Part, *rsdoc.Head) error { return nil }

// Entry implements destination.Visitor.
func (s *scout) Entry(_ context.Context, _ *destination.Part, e *rsdoc.Entry) error {
	if !s.scope.Contains(e.Loc) {
		u, err := url.Parse(e.Loc)
		if err == nil && u.Host != "" && utf8.ValidString(u.Host) && (u.Scheme == "http" || u.Scheme == "https") {
			s.found[u.Scheme+"://"+u.Host+"/"] = true
		}
	}
	if s.seen++; s.seen >= sampled {
		return errEnough
	}
	return nil
}

// End implements destination.Visitor.
func (*scout) End(context.Context, *destination.Part, *rsdoc.Head, int64, error) error { return nil }

// Failed implements destination.Visitor.
func (*scout) Failed(context.Context, *destination.Part, error) error { return nil }
