package destination

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"

	"resyncd/destination/feed"
	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/destination/websub"
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

type reading struct {
	TopicAnswer
	feeds []string
	err   error
	// inPlace says that the document was a feed and is none.
	inPlace bool
}

var errNoFeed = errors.New("there is no Atom or RSS feed at its address")

// Page reads a page or an archive of a feed (RFC 5005) whole and unconditionally. The caller must know that the page
// belongs to the feed.
func (r *Reader) Page(ctx context.Context, url string) (*TopicAnswer, error) {
	rd, err := r.readTopic(ctx, url, nil, r.newWindow())
	if err == nil && rd.Format == feed.None {
		err = errNoFeed
	}
	if err != nil {
		return nil, fmt.Errorf("read page %s of a feed: %w", fetch.RedactURL(url), err)
	}
	return &rd.TopicAnswer, nil
}

func (r *Reader) readTopic(ctx context.Context, url string, known *TopicState,
	p *retryWindow) (rd *reading, err error) {
	var m Meta
	if known != nil {
		m = Meta{ETag: known.ETag, LastModified: known.LastModified}
	}
	req := r.request(url, m)
	req.NoContent = true // topics may say everything in the header (S-10)
	err = r.take(ctx, p, req, func(a *answer) (err error) {
		if a.NotModified {
			rd = unchangedTopic(known, a)
			return nil
		}
		rd, err = r.takeTopic(url, a)
		return err
	})
	return rd, err
}

// takeTopic reads a feed whole, of a page the head, and of anything else only its header.
func (r *Reader) takeTopic(url string, a *answer) (*reading, error) {
	rd := &reading{TopicAnswer: TopicAnswer{Date: a.meta().Date, TopicState: TopicState{
		URL: url, Final: a.URL, ETag: a.ETag, LastModified: a.LastModified, ContentType: a.Type,
	}}}
	body, err := unpacked(a.Body)
	if err != nil {
		return nil, fmt.Errorf("inflate the answer: %w", cutShort(err))
	}
	start, err := body.Peek(sniffed)
	if err != nil && err != io.EOF && len(start) == 0 {
		return nil, cutShort(err) // the beginning of a page may do
	}
	rd.Empty = len(start) == 0
	rd.Format = feed.Sniff(a.Type, start)
	var text io.Reader = body
	if rd.Format != feed.None {
		if rd.Body, err = r.wholeFeed(body); err != nil {
			return nil, err
		}
		text = bytes.NewReader(rd.Body)
	}
	links, err := websub.DiscoverTopic(a.Header.Values("Link"), a.Type, text, a.base)
	if err != nil {
		return nil, cutShort(err)
	}
	rd.Self, rd.SelfFrom, rd.Hubs, rd.HubsFrom = links.Self, links.SelfFrom, links.Hubs, links.HubsFrom
	rd.feeds = links.Feeds
	return rd, nil
}

func (r *Reader) wholeFeed(body io.Reader) ([]byte, error) {
	limit := r.limits.feedBytes
	all, err := io.ReadAll(io.LimitReader(body, limit+1))
	switch {
	case err != nil:
		return nil, cutShort(err)
	case int64(len(all)) > limit:
		return nil, fmt.Errorf("the feed is larger than the %d bytes that are held of one", limit)
	}
	return all, nil
}

// unchangedTopic is the known state after a 304. Self and hubs in its header are newer all the same (S-13).
func unchangedTopic(known *TopicState, a *answer) *reading {
	rd := &reading{TopicAnswer: TopicAnswer{TopicState: *known, NotModified: true, Date: a.meta().Date}}
	rd.Final = a.URL
	now, _ := websub.DiscoverTopic(a.Header.Values("Link"), "", nil, a.base) // without a body nothing can fail
	if now.SelfFrom == websub.FromHeader || rd.SelfFrom == websub.FromURL {
		rd.Self, rd.SelfFrom = now.Self, now.SelfFrom
	}
	if len(now.Hubs) > 0 {
		rd.Hubs, rd.HubsFrom = now.Hubs, now.HubsFrom
	}
	return rd
}

// cutShort marks a body that broke off as worth another attempt, also where only its packing shows the cut.
func cutShort(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return &brokenOff{err}
	}
	return broken(err)
}
