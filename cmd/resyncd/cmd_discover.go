package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/destination"
	"resyncd/destination/feed"
	"resyncd/destination/rsdoc"
	"resyncd/destination/websub"
)

// snippetFlag is the one flag that may also stand behind the argument: that is where people add it to what they typed.
const snippetFlag = "config-snippet"

func (sh *shell) discover() error {
	given := sh.c.Args().Slice()
	rawURL, asSnippet := given[0], len(given) > 1 || sh.c.Bool(snippetFlag)
	if asSnippet && sh.c.Bool("json") {
		return exit.Usage("discover prints one thing: leave out --json or --config-snippet")
	}
	if asSnippet && !utf8.ValidString(rawURL) {
		return exit.Usage("the URL is not UTF-8, and YAML cannot hold it: percent-encode the bytes that are not")
	}
	cfg, err := sh.mirrors.Config()
	if err != nil {
		return err
	}
	src, err := cfg.Adhoc("discover", rawURL)
	if err != nil {
		return exit.Usage("the URL %w", err)
	}
	for _, s := range cfg.Sources {
		if s.URL == rawURL {
			src = s // its credentials too
		}
	}
	f := mirror.Client(cfg, version, sh.log)
	defer f.Close()
	o := destination.TopicOptions{Hub: src.Hub, Topic: src.Topic}
	if scope, err := destination.NewScope(src.URL, src.Scope); err == nil {
		o.Allowed = func(u *url.URL) bool { return scope.Contains(u.String()) }
	}
	reader := destination.NewReader(destination.ReaderOptions{Client: f, Policy: mirror.PolicyOf(&src), Topic: o,
		Log: sh.log})
	offer, err := destination.Discover(sh.c.Context, reader, rawURL)
	topics := topicsOf(sh.c.Context, reader, offer, o)
	view := offerOf(offer, topics)
	for i := range offer.Sets {
		if err := view.Sets[i].lookAtDumps(sh.c.Context, reader, &offer.Sets[i], &src.Policy); err != nil {
			return err
		}
	}
	if _, nothing := errors.AsType[*destination.Error](err); nothing && len(topics) > 0 {
		err = nil
	}
	switch {
	case sh.c.Bool("json"):
		return errors.Join(err, term.JSON(sh.Out).Encode(view))
	case err != nil: // it lists all that was asked
		return err
	case !asSnippet:
		return term.Write(sh.Out, "offer", view)
	}
	s := snippet{cfg: cfg, offerView: view}
	if s.scope, err = elsewhere(sh.c.Context, reader, offer); err != nil {
		return err
	}
	return s.write(sh.Out)
}

// offerView is the JSON of discover.
type offerView struct {
	Asked       string             `json:"asked"`
	Description *string            `json:"description"`
	Sets        []setView          `json:"sets"`
	Topics      []topicView        `json:"topics"`
	Partial     bool               `json:"partial"` // a part of the Source Description could not be read
	Trail       []destination.Step `json:"trail"`
}

type setView struct {
	ID          string         `json:"id"`
	Bare        bool           `json:"bare"` // a list without a Capability List
	Found       string         `json:"found"`
	Problem     *string        `json:"problem"`
	DescribedBy *string        `json:"describedby"`
	Documents   []documentView `json:"documents"`
	Dumps       []dumpView     `json:"dumps"`
	// FirstBaseline is what is made of the Resource Dump for a first baseline, null without one.
	FirstBaseline *string `json:"first_baseline"`

	Channels []destination.Channel `json:"channels"`

	isTopic bool
}

type documentView struct {
	Capability string `json:"capability"`
	URL        string `json:"url"`
	Found      string `json:"found"` // capability-list, link, given
}

func offerOf(o *destination.Offer, topics []topicView) offerView {
	v := offerView{Asked: o.Asked, Description: opt(o.Description), Sets: []setView{}, Topics: topics,
		Partial: o.Partial, Trail: append([]destination.Step{}, o.Trail...)}
	for i := range o.Sets {
		s := &o.Sets[i]
		sv := setView{ID: s.ID, Bare: s.Bare, Found: s.Found, DescribedBy: opt(s.DescribedBy),
			Documents: documentsOf(s), Dumps: []dumpView{}, Channels: []destination.Channel{}, isTopic: s.Topic != nil}
		if s.Err != nil {
			sv.Problem = opt(s.Err.Error())
		}
		for _, c := range s.Channels() {
			c.Hubs = append([]string{}, c.Hubs...)
			sv.Channels = append(sv.Channels, c)
		}
		v.Sets = append(v.Sets, sv)
	}
	return v
}

// documentsOf are the capability documents of a set and how each was found: the Capability List names them; a list that
// is a set by itself was come to, and links to others.
func documentsOf(s *destination.SetOffer) []documentView {
	refs := []*destination.Ref{
		s.ResourceList, s.ChangeList, s.ResourceDump, s.ChangeDump,
		s.ResourceListArchive, s.ChangeListArchive, s.ResourceDumpArchive, s.ChangeDumpArchive,
	}
	for i := range s.Also {
		refs = append(refs, &s.Also[i])
	}
	out := []documentView{}
	for _, ref := range refs {
		if ref == nil {
			continue
		}
		found := "capability-list"
		switch {
		case s.Bare && ref.URL == s.ID:
			found = s.Found
		case s.Bare:
			found = "link"
		}
		out = append(out, documentView{Capability: cmp.Or(string(ref.Kind), "unknown"), URL: ref.URL, Found: found})
	}
	return out
}

// dumpView is a dump with the size of its packages and the time that it covers.
type dumpView struct {
	Capability string  `json:"capability"`
	URL        string  `json:"url"`
	Packages   int     `json:"packages"`
	Bytes      *int64  `json:"bytes"`    // null where a package has no length
	Contents   int     `json:"contents"` // packages whose manifest can be read by itself
	At         *string `json:"at"`
	From       *string `json:"from"`
	Until      *string `json:"until"`
	Problem    *string `json:"problem"`
}

// lookAtDumps reads the dumps of a set, but none of their packages. Of what covers them the widest counts.
func (v *setView) lookAtDumps(
	ctx context.Context, r *destination.Reader, s *destination.SetOffer, as *config.Policy,
) error {
	for _, ref := range []*destination.Ref{s.ResourceDump, s.ChangeDump} {
		if ref == nil || s.Err != nil {
			continue
		}
		d, err := r.Dump(ctx, *ref)
		if err != nil {
			return err
		}
		dv := dumpView{Capability: string(ref.Kind), URL: ref.URL, Packages: len(d.Packages), Bytes: new(int64)}
		at, from, until, large := d.Head.At, d.Head.From, d.Head.Until, 0
		if d.Problem != nil {
			dv.Problem, at, from, until = opt(d.Problem.Error()), rsdoc.NoTime, rsdoc.NoTime, rsdoc.NoTime
		}
		for i := range d.Packages {
			p := &d.Packages[i]
			if p.Length < 0 {
				dv.Bytes = nil
			} else if dv.Bytes != nil {
				*dv.Bytes += p.Length
			}
			if most := int64(as.MaxDump); as.Dumps == "off" || most > 0 && p.Length > most {
				large++
			}
			if p.Link(rsdoc.RelContents) != "" {
				dv.Contents++
			}
			until = max(until, p.Until)
		}
		dv.At, dv.From, dv.Until = instant(at), instant(from), instant(until)
		v.Dumps = append(v.Dumps, dv)
		if ref == s.ResourceDump {
			v.FirstBaseline = new(firstBaseline(len(d.Packages), large, s.ResourceList == nil))
		}
	}
	return nil
}

// firstBaseline is what is done where nothing is mirrored yet, and why; large are packages that may not be read.
func firstBaseline(packages, large int, alone bool) string {
	switch {
	case packages == large && alone:
		return "impossible: there is no Resource List, and no package that may be read"
	case packages == large:
		return "each resource is asked for: no package may be read"
	case large > 0:
		return fmt.Sprintf("%d packages are read, as all that they hold is owed; %d are larger than max_dump",
			packages-large, large)
	}
	return fmt.Sprintf("%d packages are read, as all that they hold is owed", packages)
}

func instant(m rsdoc.Micros) *string {
	if !m.Known() {
		return nil
	}
	return opt(m.String())
}

func opt(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// topicView is a topic that a URL stands for: a feed, or anything that names a hub.
type topicView struct {
	Topic       string            `json:"topic"`
	SelfFrom    string            `json:"self_from"` // link-header, html, feed, config, final-url
	Hubs        []string          `json:"hubs"`
	HubsFrom    *string           `json:"hubs_from"`
	Format      *string           `json:"format"` // atom, rss
	ContentType *string           `json:"content_type"`
	Found       string            `json:"found"` // given, html-link
	Content     string            `json:"content"`
	Entries     *int              `json:"entries"`
	Paging      map[string]string `json:"paging"` // RFC 5005: relation to URL
	Problem     *string           `json:"problem"`
}

// topicsOf are the topics among an offer's sets, else that which the URL itself stands for; its way is added to the
// trail then. A document that is neither feed nor names a hub is none worth telling.
func topicsOf(ctx context.Context, r *destination.Reader, offer *destination.Offer,
	o destination.TopicOptions) []topicView {
	views := []topicView{}
	for i := range offer.Sets {
		if s := &offer.Sets[i]; s.Topic != nil {
			views = append(views, topicOf(s))
		}
	}
	if len(views) > 0 {
		return views
	}
	own, err := destination.DiscoverTopic(ctx, r, offer.Asked, o)
	if err != nil { // that there is no ResourceSync, or no answer, was told already
		return views
	}
	s := &own.Sets[0]
	if s.Topic.Answer.Format != feed.None || len(s.Topic.Hubs) > 0 || s.Topic.SelfFrom != websub.FromURL {
		views = append(views, topicOf(s))
		offer.Trail = append(offer.Trail, own.Trail...)
	}
	return views
}

// topicOf counts the entries of a feed and looks where it goes on.
func topicOf(s *destination.SetOffer) topicView {
	t := s.Topic
	v := topicView{
		Topic: t.URL, SelfFrom: t.SelfFrom, Hubs: append([]string{}, t.Hubs...), HubsFrom: opt(t.HubsFrom),
		Format: opt(string(t.Answer.Format)), ContentType: opt(t.Answer.ContentType), Found: s.Found,
		Content: t.Answer.URL, Paging: map[string]string{},
	}
	if t.Answer.Format == feed.None {
		return v
	}
	base, _ := url.Parse(t.Answer.Final) // without one relative links stay unresolved
	v.Entries = new(int)
	head, err := feed.Read(bytes.NewReader(t.Answer.Body),
		feed.Options{Base: base, ContentType: t.Answer.ContentType}, func(*feed.Entry) error {
			*v.Entries++
			return nil
		})
	v.Paging = map[string]string{
		"first": head.First, "last": head.Last, "next": head.Next, "previous": head.Previous,
		"current": head.Current, "prev-archive": head.PrevArchive, "next-archive": head.NextArchive,
	}
	maps.DeleteFunc(v.Paging, func(_, href string) bool { return href == "" })
	switch {
	case err != nil:
		v.Problem = opt(err.Error())
	case len(head.Problems) > 0:
		v.Problem = opt(fmt.Sprintf("%d entries skipped: %s", head.Skipped, head.Problems[0]))
	}
	return v
}

// sampled is how many entries of a set's lists are looked at to see where its resources lie.
const sampled = 2000

// originsShown is how many of the places are named where resources lie.
const originsShown = 20

// snippet is an entry of `sources:`, as discovery suggests it.
type snippet struct {
	offerView
	cfg   *config.Config
	scope []string // origins beyond the sets' own that resources lie at
}

// write writes the entry in YAML. It stands alone as a configuration file, and passes `config check` as it is.
func (s *snippet) write(w io.Writer) error {
	usable := s.usable()
	hasHub := func(set setView) bool {
		return slices.ContainsFunc(set.Channels, func(c destination.Channel) bool { return len(c.Hubs) > 0 })
	}
	type choice struct{ ID, Has string }
	var choices []choice
	for _, set := range usable {
		var has []string
		for _, d := range set.Documents {
			has = append(has, d.Capability)
		}
		if hasHub(set) {
			has = append(has, "push")
		}
		choices = append(choices, choice{set.ID, term.OneLine(strings.Join(has, ", "))})
	}
	if len(choices) == 1 {
		choices = nil
	}
	other := ""
	if i := slices.IndexFunc(s.cfg.Sources, func(src config.Source) bool { return src.URL == s.Asked }); i >= 0 {
		other = s.cfg.Sources[i].Name
	}
	return term.Write(w, "snippet.tmpl", map[string]any{
		"Name": s.name(), "Asked": s.Asked, "Other": other, "Private": strings.Join(s.private(), ", "),
		"Partial": s.Partial, "Sets": choices,
		"Scope": s.scope[:min(len(s.scope), originsShown)], "More": max(0, len(s.scope)-originsShown),
		"Pushed": slices.ContainsFunc(usable, hasHub) ||
			slices.ContainsFunc(s.Topics, func(t topicView) bool { return len(t.Hubs) > 0 }),
		// There is no ResourceSync behind it.
		"IsFeed": len(s.Topics) > 0 && !slices.ContainsFunc(usable, func(set setView) bool { return !set.isTopic }),
	})
}

func (s *snippet) usable() []setView {
	return slices.DeleteFunc(slices.Clone(s.Sets), func(set setView) bool { return set.Problem != nil })
}

// unnameable is what the name of a Source does not hold.
var unnameable = regexp.MustCompile(`[^a-z0-9._-]`)

// name is the Source's: that of its host, if no other Source has it.
func (s *snippet) name() string {
	base := "source"
	if u, err := url.Parse(s.Asked); err == nil && u.Host != "" {
		base = strings.Trim(unnameable.ReplaceAllString(strings.ToLower(u.Host), "_"), "._-")
	}
	if !config.ValidName(base+"-99") || !config.ValidName(base) { // too long, or reserved
		base = "source"
	}
	name := base
	for n := 2; ; n++ {
		if other, taken := s.cfg.Source(name); !taken || other.URL == s.Asked {
			return name
		}
		name = base + "-" + strconv.Itoa(n)
	}
}

// private are the private addresses, as networks, that hubs, documents and resources are at, beside the address that
// was asked for and what the configuration allows already.
func (s *snippet) private() []string {
	own, err := url.Parse(s.Asked)
	if err != nil {
		return nil
	}
	var urls []string
	for _, set := range s.usable() {
		urls = append(urls, set.ID)
		for _, d := range set.Documents {
			urls = append(urls, d.URL)
		}
		for _, c := range set.Channels {
			urls = append(append(urls, c.Topic), c.Hubs...)
		}
	}
	for _, t := range s.Topics {
		urls = append(append(urls, t.Topic), t.Hubs...)
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
func (*scout) Enter(context.Context, *destination.Part) (bool, error) { return true, nil }

// List implements destination.Visitor.
func (s *scout) List(_ context.Context, _ *destination.Part, l *destination.List) error {
	return l.Each(s.entry)
}

func (s *scout) entry(e *rsdoc.Entry) error {
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

// Failed implements destination.Visitor.
func (*scout) Failed(context.Context, *destination.Part, error) error { return nil }
