package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"unicode/utf8"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/destination"
	"resyncd/destination/feed"
	"resyncd/destination/websub"
)

// snippetFlag is the one flag that may also stand behind the argument: that is where people add it to what they typed.
const snippetFlag = "config-snippet"

func (sh *shell) discover() error {
	given := sh.c.Args()
	rawURL, asSnippet := given[0], len(given) > 1 || sh.c.Bool(snippetFlag)
	if asSnippet && sh.c.Bool("json") {
		return exit.Usage("discover prints one thing: leave out --json or --config-snippet")
	}
	if asSnippet && !utf8.ValidString(rawURL) {
		return exit.Usage("the URL is not UTF-8, and YAML cannot hold it: percent-encode the bytes that are not")
	}
	cfg, err := sh.config()
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
	o := topicOptions(&src)
	reader := destination.NewReader(destination.ReaderOptions{Client: f, Policy: mirror.PolicyOf(&src), Topic: o,
		Log: sh.log})
	offer, err := destination.Discover(sh.ctx, reader, rawURL)
	topics := topicsOf(sh.ctx, reader, offer, o)
	if _, nothing := errors.AsType[*destination.Error](err); nothing && len(topics) > 0 {
		err = nil
	}
	switch {
	case sh.c.Bool("json"):
		return errors.Join(err, sh.JSON().Encode(offerJSON(offer, topics)))
	case err != nil: // it lists all that was asked
		return err
	case asSnippet:
		s := snippet{cfg: cfg, asked: rawURL, offer: offer, topics: topics}
		if s.scope, err = elsewhere(sh.ctx, reader, offer); err != nil {
			return err
		}
		return s.write(sh.Out)
	}
	return term.Write(sh.Out, "offer", offerJSON(offer, topics))
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
	Channels    []channelView  `json:"channels"`
}

type documentView struct {
	Capability string `json:"capability"`
	URL        string `json:"url"`
	Found      string `json:"found"` // capability-list, link, given
}

type channelView struct {
	Kind  string   `json:"kind"`
	Topic string   `json:"topic"`
	Hubs  []string `json:"hubs"`
}

func offerJSON(o *destination.Offer, topics []topicView) offerView {
	v := offerView{Asked: o.Asked, Description: opt(o.Description), Sets: []setView{}, Topics: topics,
		Partial: o.Partial, Trail: append([]destination.Step{}, o.Trail...)}
	for i := range o.Sets {
		s := &o.Sets[i]
		sv := setView{ID: s.ID, Bare: s.Bare, Found: s.Found, DescribedBy: opt(s.DescribedBy),
			Documents: documentsOf(s), Channels: []channelView{}}
		if s.Err != nil {
			sv.Problem = opt(s.Err.Error())
		}
		for _, c := range s.Channels() {
			sv.Channels = append(sv.Channels,
				channelView{Kind: string(c.Kind), Topic: c.Topic, Hubs: append([]string{}, c.Hubs...)})
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

// topicOptions are those of a Source as its configuration has it.
func topicOptions(src *config.Source) destination.TopicOptions {
	o := destination.TopicOptions{Hub: src.Hub, Topic: src.Topic}
	if scope, err := destination.NewScope(src.URL, src.Scope); err == nil {
		o.Allowed = func(u *url.URL) bool { return scope.Contains(u.String()) }
	}
	return o
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

func topicOf(s *destination.SetOffer) topicView {
	t := s.Topic
	v := topicView{
		Topic: t.URL, SelfFrom: t.SelfFrom, Hubs: append([]string{}, t.Hubs...), HubsFrom: opt(t.HubsFrom),
		Format: opt(string(t.Answer.Format)), ContentType: opt(t.Answer.ContentType), Found: s.Found,
		Content: t.Answer.URL,
		Paging:  map[string]string{},
	}
	if t.Answer.Format != feed.None {
		v.read(&t.Answer)
	}
	return v
}

// read counts the entries of a feed and looks where it goes on.
func (v *topicView) read(a *destination.TopicAnswer) {
	base, _ := url.Parse(a.Final) // without one relative links stay unresolved
	entries := 0
	head, err := feed.Read(bytes.NewReader(a.Body), feed.Options{Base: base, ContentType: a.ContentType},
		func(*feed.Entry) error {
			entries++
			return nil
		})
	v.Entries = &entries
	if err != nil {
		v.Problem = opt(err.Error())
	}
	for rel, href := range map[string]string{
		"first": head.First, "last": head.Last, "next": head.Next, "previous": head.Previous,
		"current": head.Current, "prev-archive": head.PrevArchive, "next-archive": head.NextArchive,
	} {
		if href != "" {
			v.Paging[rel] = href
		}
	}
	if v.Problem == nil && len(head.Problems) > 0 {
		v.Problem = opt(fmt.Sprintf("%d entries skipped: %s", head.Skipped, head.Problems[0]))
	}
}
