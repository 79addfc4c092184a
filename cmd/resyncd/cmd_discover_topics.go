package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/destination"
	"resyncd/destination/feed"
	"resyncd/destination/websub"
)

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

func printTopics(w io.Writer, topics []topicView) {
	for i := range topics {
		v := &topics[i]
		fmt.Fprintf(w, "Topic               %s  (self: %s, found: %s)\n", v.Topic, v.SelfFrom, v.Found)
		hubs := "none, it can only be polled"
		if v.HubsFrom != nil {
			hubs = fmt.Sprintf("%s  (found: %s)", strings.Join(v.Hubs, " "), *v.HubsFrom)
		}
		fmt.Fprintf(w, "  %-20s %s\n", "hubs", hubs)
		if v.Content != v.Topic {
			fmt.Fprintf(w, "  %-20s %s\n", "content", v.Content)
		}
		kind := "unknown"
		if v.ContentType != nil {
			kind = strconv.Quote(*v.ContentType) // the peer's text
		}
		if v.Format != nil {
			kind = fmt.Sprintf("%s, %d entries, sent as %s", *v.Format, *v.Entries, kind)
		}
		fmt.Fprintf(w, "  %-20s %s\n", "format", kind)
		for _, rel := range []string{"current", "first", "previous", "next", "last", "prev-archive", "next-archive"} {
			if v.Paging[rel] != "" {
				fmt.Fprintf(w, "  %-20s %s\n", rel, v.Paging[rel])
			}
		}
		if v.Problem != nil {
			fmt.Fprintf(w, "  %-20s %s\n", "problem", *v.Problem)
		}
	}
}
