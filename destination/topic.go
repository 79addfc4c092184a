package destination

import (
	"context"
	"net/url"

	"resyncd/destination/feed"
	"resyncd/destination/rsdoc"
)

// KindFeed is the kind of a topic's channel, beside those of Capability Lists.
const KindFeed rsdoc.Kind = "feed"

// TopicOptions say how a topic is discovered.
type TopicOptions struct {
	// Hub and Topic override what is discovered (S-12).
	Hub, Topic string
	// Allowed reports URLs beyond the requested host to which a link may lead (S-11); may be nil.
	Allowed func(*url.URL) bool
	// Recall returns the last reading of a URL, nil for none. A Topic's States are to be remembered only once their
	// content is recorded: a 304 would hide content that never was.
	Recall func(ctx context.Context, url string) (*TopicState, error)
}

// TopicState is the result of one reading of a URL, with which the next one begins, kept as JSON.
type TopicState struct {
	URL          string    `json:"url"`
	Final        string    `json:"final,omitempty"` // after redirects
	ETag         string    `json:"etag,omitempty"`
	LastModified string    `json:"last_modified,omitempty"`
	ContentType  string    `json:"content_type,omitempty"`
	Format       feed.Kind `json:"format,omitempty"`
	Self         string    `json:"self,omitempty"`
	SelfFrom     string    `json:"self_from,omitempty"`
	Hubs         []string  `json:"hubs,omitempty"`
	HubsFrom     string    `json:"hubs_from,omitempty"`
	// Feed is the allowed feed that replaces a page without hubs (rel=alternate).
	Feed  string `json:"feed,omitempty"`
	Empty bool   `json:"empty,omitempty"` // S-10
	// Taken is the topic whose Answer this state was. A 304 that refers to another state proves nothing about recorded
	// content.
	Taken string `json:"taken,omitempty"`
}

func (s TopicState) unconditional() *TopicState {
	s.ETag, s.LastModified = "", ""
	return &s
}

// Topic is a topic and its present state.
type Topic struct {
	// URL is what is subscribed to and polled.
	URL string
	// Hubs as advertised; empty: it can only be polled.
	Hubs []string
	// SelfFrom and HubsFrom are link-header, html, feed, config or final-url.
	SelfFrom, HubsFrom string
	// States are the readings of this discovery, to be remembered.
	States []TopicState
	// Answer is that of the topic's own URL, or of the requested URL where the topic's does not answer.
	Answer TopicAnswer
}

// TopicAnswer is the answer of a topic, or of one page of it.
type TopicAnswer struct {
	TopicState
	NotModified bool
	// Body is a feed's whole document, else nil.
	Body []byte
	Date rsdoc.Micros // the Source's clock
}
