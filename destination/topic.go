package destination

import (
	"context"
	"net/url"

	"resyncd/destination/feed"
	"resyncd/destination/rsdoc"
)

// KindFeed is the kind of a topic's channel beside those that Capability Lists name.
const KindFeed rsdoc.Kind = "feed"

// TopicOptions say how a topic is discovered.
type TopicOptions struct {
	// Hub and Topic override what is discovered (S-12), "" for none.
	Hub, Topic string
	// Allowed tells URLs beyond the host that was asked to which a self link or a feed link may lead (S-11); nil: none.
	Allowed func(*url.URL) bool
	// Recall is what the last reading of a URL told, nil for nothing. Whoever takes up a Topic remembers its States once
	// what they tell is recorded; a discovery by itself remembers nothing, or the next reading would miss it.
	Recall func(ctx context.Context, url string) (*TopicState, error)
}

// TopicState is what one reading of a URL told, as the next one begins with it. It is kept as JSON.
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
	// Feed is the feed that a page without hubs of its own links to (rel=alternate) and that is followed in its place, or
	// would be if it were allowed.
	Feed  string `json:"feed,omitempty"`
	Empty bool   `json:"empty,omitempty"` // a 2xx without a body (S-10)
	// Taken is the topic as whose Answer this state of the document was given, "" for none. A 304 that refers to a state which
	// was not given, because another document was taken then, or was given as another topic, because the operator has named
	// one since, says nothing about content that anybody recorded.
	Taken string `json:"taken,omitempty"`
}

// Topic is a topic and where it stands.
type Topic struct {
	// URL is the topic: its self link, what is subscribed to and polled.
	URL string
	// Hubs as advertised, preferred first; empty: it can only be polled.
	Hubs []string
	// SelfFrom, HubsFrom tell where these were found: link-header, html, feed, config, final-url.
	SelfFrom, HubsFrom string
	// States are the readings that this discovery made, to be remembered.
	States []TopicState
	// Answer is what the topic's own URL answered, or the URL that was asked for where the topic's does not answer.
	Answer TopicAnswer
}

// TopicAnswer is the answer of a topic, or of one page of it.
type TopicAnswer struct {
	TopicState
	NotModified bool
	// Body is a feed's whole document; nil for other formats and after a 304.
	Body []byte
	Date rsdoc.Micros // by the Source's clock, NoTime if it did not say
}
