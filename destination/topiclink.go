package destination

import (
	"context"
	"net"
	"net/url"
	"strings"

	"resyncd/destination/feed"
	"resyncd/destination/fetch"
)

// linked is the feed that a page stands for: the first link on an allowed host that is a feed. One that does not answer
// now is no reason to take the next, which is another topic.
func (f *topicFinder) linked(ctx context.Context, page *reading) (*reading, error) {
	feeds := page.feeds
	if page.NotModified && page.Feed != "" {
		feeds = []string{page.Feed}
	}
	rd, err := f.firstFeed(ctx, page, feeds)
	if rd != nil || err != nil {
		return rd, err
	}
	if page.NotModified && len(feeds) > 0 && f.allowed(feeds[0]) {
		// The first feed is gone; the page's others are unknown.
		fresh, err := f.reread(ctx, page, howGiven)
		if err != nil || fresh.err != nil {
			return nil, err
		}
		*page = *fresh
		f.read[page.URL] = page
		return f.firstFeed(ctx, page, page.feeds)
	}
	return nil, nil
}

func (f *topicFinder) firstFeed(ctx context.Context, page *reading, feeds []string) (*reading, error) {
	page.Feed = ""
	for _, target := range feeds[:min(len(feeds), pageFeeds)] {
		switch {
		case sameDocument(target, page):
			continue
		case !f.allowed(target):
			f.step(target, howHTMLLink, "refused: the page links to a feed on another host; "+
				"if that is right, give that or add the host to scope:", false)
			if page.Feed == "" {
				page.Feed = target // so that a 304 shows it too
			}
			continue
		}
		rd, err := f.look(ctx, target, howHTMLLink)
		switch {
		case err != nil:
			return nil, err
		case rd.err != nil && fetch.KindOf(rd.err) != fetch.Gone,
			rd.err == nil && (rd.Format != feed.None || rd.inPlace):
			page.Feed = target
			return rd, nil
		}
	}
	return nil, nil
}

// content is the document with the topic's content: that of its self link where it answers. The requested document
// stays the content where the self link leads from a feed to something else (T-02), and where the operator names the
// topic of a feed, because one URL is polled and the other subscribed to.
func (f *topicFinder) content(ctx context.Context, t *Topic, at *reading) (*reading, error) {
	content, how := at, howSelf
	place := contentURL(t.URL, at)
	if t.SelfFrom == fromConfig {
		how, place = howTopic, t.URL
		if at.Format != feed.None || sameDocument(t.URL, at) {
			place = ""
		}
	}
	if place != "" {
		own, err := f.look(ctx, place, how)
		if err != nil {
			return nil, err
		}
		if own.err == nil && (own.Format != feed.None || at.Format == feed.None) {
			content = own
		}
		if own.err == nil && len(t.Hubs) == 0 {
			t.Hubs, t.HubsFrom = own.Hubs, own.HubsFrom
		}
	}
	if content.NotModified && content.Taken != t.URL {
		// Nobody recorded the content of the reading that the 304 refers to.
		if content == at {
			how = howGiven
		}
		fresh, err := f.reread(ctx, content, how)
		if err != nil {
			return nil, err
		}
		if fresh.err != nil {
			return nil, f.failed(fresh.err, "It will be asked for again.")
		}
		fresh.Feed = content.Feed
		content = fresh
	}
	return content, nil
}

// contentURL is "" where the content is read already. A document must not lead from https to http (F60): such a self
// link mostly comes from software behind a proxy, and names the same document.
func contentURL(topic string, at *reading) string {
	if sameDocument(topic, at) {
		return ""
	}
	if !strings.HasPrefix(at.Final, "https:") {
		return topic
	}
	u, err := url.Parse(topic)
	if err != nil || u.Scheme == "https" {
		return topic
	}
	if port := u.Port(); port != "" && port != "80" {
		return "" // the https spelling of it is unknown
	}
	u.Scheme, u.Host = "https", strings.TrimSuffix(u.Host, ":80")
	if sameDocument(u.String(), at) {
		return ""
	}
	return u.String()
}

// sameDocument reports whether a URL is one of a document's, however it is spelt.
func sameDocument(target string, rd *reading) bool {
	spelt := canonical(target)
	return spelt == canonical(rd.URL) || spelt == canonical(rd.Final)
}

func canonical(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return raw
	}
	c := *u
	c.Scheme, c.Host, c.Fragment, c.RawFragment = strings.ToLower(u.Scheme), hostname(u), "", ""
	if port := u.Port(); port != "" && !(port == "80" && c.Scheme == "http") &&
		!(port == "443" && c.Scheme == "https") {
		c.Host = net.JoinHostPort(c.Host, port)
	}
	if c.Path == "" {
		c.Path = "/"
	}
	return c.String()
}

func withoutFragment(raw string) string {
	whole, _, _ := strings.Cut(raw, "#")
	return whole
}
