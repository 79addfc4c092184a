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
	// Hub and Topic override what is discovered (S-12), "" for none.
	Hub, Topic string
	// Allowed reports URLs beyond the requested host to which a self link or a feed link may lead
	// (S-11); nil: none.
	Allowed func(*url.URL) bool
	// Recall returns the last reading of a URL, nil for none. The caller remembers a Topic's States
	// once their content is recorded: remembered earlier, a 304 would hide content that was never
	// recorded.
	Recall func(ctx context.Context, url string) (*TopicState, error)
}

// TopicState is the result of one reading of a URL, with which the next one begins. It is kept as
// JSON.
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
	// Feed is the feed that a page without hubs of its own links to (rel=alternate) and that
	// replaces it if allowed.
	Feed  string `json:"feed,omitempty"`
	Empty bool   `json:"empty,omitempty"` // a 2xx without a body (S-10)
	// Taken is the topic whose Answer this state of the document was, "" for none. A 304 that
	// refers to a state that was not taken, or was taken for another topic, proves nothing about
	// recorded content.
	Taken string `json:"taken,omitempty"`
}

func (s TopicState) unconditional() *TopicState {
	s.ETag, s.LastModified = "", ""
	return &s
}

// Topic is a topic and its present state.
type Topic struct {
	// URL is the topic: its self link, what is subscribed to and polled.
	URL string
	// Hubs as advertised, preferred first; empty: it can only be polled.
	Hubs []string
	// SelfFrom and HubsFrom say where these were found: link-header, html, feed, config, final-url.
	SelfFrom, HubsFrom string
	// States are the readings of this discovery, to be remembered.
	States []TopicState
	// Answer is the answer of the topic's own URL, or of the requested URL where the topic's does
	// not answer.
	Answer TopicAnswer
}

// TopicAnswer is the answer of a topic, or of one page of it.
type TopicAnswer struct {
	TopicState
	NotModified bool
	// Body is a feed's whole document; nil for other formats and after a 304.
	Body []byte
	Date rsdoc.Micros // by the Source's clock, NoTime if unknown
}
