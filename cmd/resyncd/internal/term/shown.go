package term

import (
	"net/url"
	"slices"
	"strings"

	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/store"
	syncengine "resyncd/sync"
	"resyncd/sync/report"
)

// URLs of Sources, documents, hubs and topics may carry tokens, so they are shown shortened (P10). URIs of resources
// stay as they are: users ask for them by name.

// URL is raw unless it carries a token: then a mark that tells two apart stands for its query and user (P10).
func URL(raw string) string {
	u, err := url.Parse(raw)
	if err == nil && u.User == nil && !telling(u.RawQuery) {
		return raw
	}
	return logging.URI(raw).String()
}

// telling reports whether a query has a parameter whose name says that it is secret.
func telling(query string) bool {
	for pair := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, _, _ := strings.Cut(strings.ToLower(pair), "=")
		for _, word := range []string{"token", "key", "secret", "pass", "pwd", "auth", "sig", "cred", "session", "jwt",
			"sid"} {
			if strings.Contains(name, word) {
				return true
			}
		}
	}
	return false
}

// Status is a status whose URLs carry no token.
func Status(s report.SourceStatus) report.SourceStatus {
	s = Copied(s)
	s.URL, s.Problem = URL(s.URL), redacted(s.Problem)
	for i := range s.Sets {
		set := &s.Sets[i]
		set.CapabilityList, set.Problem = URL(set.CapabilityList), redacted(set.Problem)
		set.Channels = slices.Clone(set.Channels)
		for j := range set.Channels {
			set.Channels[j] = Channel(set.Channels[j])
		}
	}
	return s
}

// Channel is a channel whose URLs carry no token.
func Channel(c report.ChannelStatus) report.ChannelStatus {
	c.Topic, c.Hub, c.Reason = URL(c.Topic), URL(c.Hub), redacted(c.Reason)
	return c
}

// Result is a result whose URL carries no token.
func Result(r *syncengine.Result) *syncengine.Result {
	out := *r
	out.Set, out.Problem = URL(r.Set), logging.Redact(r.Problem)
	return &out
}

func redacted(text *string) *string {
	if text == nil {
		return nil
	}
	short := logging.Redact(*text)
	return &short
}

// TopicNamed is the topic among subs that is called given, as it is or as it is shown; else given.
func TopicNamed(subs []store.Subscription, given string) string {
	for i := range subs {
		if subs[i].Topic == given || URL(subs[i].Topic) == given {
			return subs[i].Topic
		}
	}
	return given
}

// Copied is a status whose sets may be changed.
func Copied(s report.SourceStatus) report.SourceStatus {
	s.Sets = slices.Clone(s.Sets)
	return s
}
