package destination

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"resyncd/destination/feed"
	"resyncd/destination/fetch"
	"resyncd/destination/websub"
)

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
