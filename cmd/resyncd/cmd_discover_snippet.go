package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// usable are the sets that can be followed.
func (s *snippet) usable() []*destination.SetOffer {
	var out []*destination.SetOffer
	for i := range s.offer.Sets {
		if s.offer.Sets[i].Err == nil {
			out = append(out, &s.offer.Sets[i])
		}
	}
	return out
}

// isFeed reports that the URL is followed as a feed, or as another topic: there is no ResourceSync behind it.
func (s *snippet) isFeed() bool {
	return len(s.topics) > 0 && !slices.ContainsFunc(s.usable(),
		func(o *destination.SetOffer) bool { return o.Topic == nil })
}

// text is the entry in YAML. It stands alone as a configuration file, and passes `config check` as it is.
func (s *snippet) text() string {
	var b strings.Builder
	b.WriteString("# Put the entry below the `sources:` of your configuration, in place of a [] there; then: resyncd " +
		"config check\nsources:\n")
	fmt.Fprintf(&b, "  - name: %s\n    url: %s\n", s.name(), yamlText(s.asked))
	if s.isFeed() {
		b.WriteString("    kind: feed\n")
	}
	s.sets(&b)
	if len(s.scope) > 0 {
		b.WriteString("    # Resources lie here too; without these lines they are refused.\n    scope:\n")
		for _, prefix := range s.scope[:min(len(s.scope), originsShown)] {
			fmt.Fprintf(&b, "      - %s\n", yamlText(prefix))
		}
		if more := len(s.scope) - originsShown; more > 0 {
			fmt.Fprintf(&b, "      # and at %d places more: `resyncd ls --refused` lists them after the first run\n",
				more)
		}
	}
	s.hubs(&b)
	s.notes(&b)
	return b.String()
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

// sets offers the choice where there is one.
func (s *snippet) sets(b *strings.Builder) {
	sets := s.usable()
	if len(sets) < 2 {
		return
	}
	fmt.Fprintf(b, "    # It has %d sets, and all are followed. To follow some only, name them:\n    # sets:\n",
		len(sets))
	for _, set := range sets {
		var has []string
		for _, d := range documentsOf(set) {
			has = append(has, d.Capability)
		}
		if hasHub(set) {
			has = append(has, "push")
		}
		fmt.Fprintf(b, "    #   - %s  # %s\n", yamlText(set.ID), term.OneLine(strings.Join(has, ", ")))
	}
}

func hasHub(set *destination.SetOffer) bool {
	for _, c := range set.Channels() {
		if len(c.Hubs) > 0 {
			return true
		}
	}
	return false
}

// hubs says what to do where no hub is advertised; one that is, is found again by itself.
func (s *snippet) hubs(b *strings.Builder) {
	pushed := slices.ContainsFunc(s.usable(), hasHub) ||
		slices.ContainsFunc(s.topics, func(t topicView) bool { return len(t.Hubs) > 0 })
	if pushed {
		return
	}
	b.WriteString("    # No hub is advertised, so it is pulled by schedule. Where there is one after all, " +
		"name it and " +
		"its topic:\n" +
		"    # hub: https://hub.example/\n    # topic: https://lib.example/changes\n")
}

// notes are what the entry alone does not settle.
func (s *snippet) notes(b *strings.Builder) {
	if other, found := s.configured(); found {
		fmt.Fprintf(b, "# Your configuration has this URL already, as %s.\n", other)
	}
	if s.offer.Partial {
		b.WriteString("# A part of the Source Description could not be read: there may be more sets.\n")
	}
	if private := s.private(); len(private) > 0 {
		fmt.Fprintf(b, "# Some of what it names is at private addresses, which have to be allowed for all Sources "+
			"together:\n# network: { allow: [%s] }\n",
			strings.Join(private, ", "))
	}
}

func (s *snippet) configured() (name string, found bool) {
	for _, src := range s.cfg.Sources {
		if src.URL == s.asked {
			return src.Name, true
		}
	}
	return "", false
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
		kind := rsdoc.KindChangeList
		if list == set.ResourceList {
			kind = rsdoc.KindResourceList
		}
		look := &scout{scope: scope, found: found}
		if _, err := r.Walk(ctx, *list, kind, look); err != nil && !errors.Is(err, errEnough) {
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

// yamlText is a value of one line: as it is where YAML takes it for nothing else, else quoted.
func yamlText(text string) string {
	plain := func(r rune) bool {
		return r < 128 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("/._~%?=&+,;@!()*$-", r))
	}
	rest, isURL := strings.CutPrefix(text, "http://")
	if !isURL {
		rest, isURL = strings.CutPrefix(text, "https://")
	}
	host, path, _ := strings.Cut(rest, "/")
	if isURL && host != "" && !strings.ContainsFunc(strings.ReplaceAll(host, ":", ""),
		func(r rune) bool { return !plain(r) }) &&
		!strings.HasSuffix(host, ":") && !strings.ContainsFunc(path, func(r rune) bool { return !plain(r) }) {
		return text
	}
	return strconv.QuoteToASCII(text)
}
