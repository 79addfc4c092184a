package destination

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"resyncd/destination/feed"
	"resyncd/destination/fetch"
	"resyncd/destination/websub"
)

const (
	howSelf    = "self"   // the self link led there
	howTopic   = "topic"  // the operator named it
	fromConfig = "config" // S-12
)

// DiscoverTopic finds the topic that a URL stands for, and reads it (S-01 to S-13). The document names self and hubs;
// an HTML page without hubs that links to a feed stands for that feed; anything else is a topic that can only be
// polled. The Offer has one set, whose ID is the topic's URL.
//
// What o.Recall knows is requested conditionally. A readable document is an Answer even where other URLs fail. The
// Offer is never nil. Where nothing could be read the error is an *Error; others are those of ctx and of o.Recall.
func DiscoverTopic(ctx context.Context, r *Reader, asked string, o TopicOptions) (*Offer, error) {
	s, u, err := newSearch(r, asked)
	if err != nil {
		return s.offer, err
	}
	f := &topicFinder{search: s, o: o, own: []string{hostname(u)}, read: map[string]*reading{}}
	return f.offer, f.run(ctx)
}

type topicFinder struct {
	search
	o     TopicOptions
	own   []string            // hosts of the Source, redirect targets too
	read  map[string]*reading // nothing is requested twice
	order []string            // of read
}

func (f *topicFinder) run(ctx context.Context) error {
	at, err := f.look(ctx, f.offer.Asked, howGiven)
	if err != nil {
		return err
	}
	f.owns(at)
	found := howGiven
	switch {
	case f.o.Topic != "" && at.err != nil:
		if at, err = f.look(ctx, f.o.Topic, howTopic); err != nil {
			return err
		}
	case f.o.Topic == "" && at.err == nil && at.Format == feed.None && len(at.Hubs) == 0 && !at.inPlace:
		linked, err := f.linked(ctx, at)
		if err != nil {
			return err
		}
		if linked != nil {
			at, found = linked, howHTMLLink
			f.owns(at)
		}
	}
	if at.err != nil {
		return f.failed(at.err, "Check the address; the topic itself may be given as topic: in the configuration.")
	}
	t := f.topicOf(at)
	content, err := f.content(ctx, t, at)
	if err != nil {
		return err
	}
	content.Taken = t.URL
	t.Answer = content.TopicAnswer
	for _, at := range f.order {
		if rd := f.read[at]; rd.err == nil {
			t.States = append(t.States, rd.TopicState)
		}
	}
	f.offer.Sets = []SetOffer{{ID: t.URL, Bare: true, Found: found, Topic: t}}
	return nil
}

func (f *topicFinder) owns(rd *reading) {
	if u, err := url.Parse(rd.Final); err == nil && rd.err == nil {
		f.own = append(f.own, hostname(u))
	}
}

// look reads a URL once. Its error is fatal; failures of the URL are in the reading.
func (f *topicFinder) look(ctx context.Context, at, how string) (*reading, error) {
	if rd, ok := f.read[at]; ok {
		return rd, nil
	}
	known, err := f.recall(ctx, at)
	if err != nil {
		return nil, err
	}
	rd, err := f.ask(ctx, at, how, known)
	if err == nil {
		f.order = append(f.order, at)
	}
	return rd, err
}

func (f *topicFinder) reread(ctx context.Context, rd *reading, how string) (*reading, error) {
	return f.ask(ctx, rd.URL, how, rd.unconditional())
}

func (f *topicFinder) ask(ctx context.Context, at, how string, known *TopicState) (*reading, error) {
	rd, err := f.r.readTopic(ctx, at, known, f.window)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err == nil && known != nil && known.Format != feed.None && rd.Format == feed.None && !isXML(rd.ContentType) {
		// A page of maintenance, or of an error with status 200 (F58), has replaced the followed document. Another
		// document of the Source would be XML.
		rd.inPlace, rd.feeds = true, nil
		rd.Self, rd.SelfFrom, rd.Hubs, rd.HubsFrom = known.Self, known.SelfFrom, known.Hubs, known.HubsFrom
	}
	if err != nil {
		rd = &reading{err: err}
		rd.URL = at
	}
	f.read[at] = rd
	f.step(at, how, rd.result(), rd.err == nil)
	return rd, nil
}

func isXML(contentType string) bool {
	return strings.Contains(contentType, "xml") && !strings.Contains(contentType, "html")
}

func (f *topicFinder) recall(ctx context.Context, at string) (*TopicState, error) {
	if f.o.Recall == nil {
		return nil, nil
	}
	known, err := f.o.Recall(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("recall topic %s: %w", fetch.RedactURL(at), err)
	}
	if known == nil || known.URL != at {
		return nil, nil
	}
	if f.r.uncached {
		return known.unconditional(), nil
	}
	return known, nil
}

// allowed reports whether a link may lead the topic to a URL (S-11). Only host names count, because software behind a
// proxy advertises another scheme or port.
func (f *topicFinder) allowed(target string) bool {
	u, err := url.Parse(target)
	if err != nil {
		return false
	}
	return slices.Contains(f.own, hostname(u)) || f.o.Allowed != nil && f.o.Allowed(u)
}

func hostname(u *url.URL) string { return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".") }

func (f *topicFinder) topicOf(at *reading) *Topic {
	t := &Topic{URL: at.Self, SelfFrom: at.SelfFrom, Hubs: at.Hubs, HubsFrom: at.HubsFrom}
	switch {
	case f.o.Topic != "":
		t.URL, t.SelfFrom = f.o.Topic, fromConfig
	case t.SelfFrom != websub.FromURL && !f.allowed(t.URL):
		f.step(t.URL, howSelf, "refused: the self link leads to another host; "+
			"if that is right, give topic: or add the host to scope:", false)
		t.URL, t.SelfFrom = withoutFragment(at.Final), websub.FromURL
	case t.SelfFrom == websub.FromURL && len(t.Hubs) > 0 && !at.NotModified:
		f.r.o.Log.Info("topic names a hub but no self link; its own URL is taken for it",
			"url", fetch.RedactURL(at.URL))
	}
	if f.o.Hub != "" {
		t.Hubs, t.HubsFrom = []string{f.o.Hub}, fromConfig
	}
	return t
}

func (rd *reading) result() string {
	if rd.err != nil {
		return shortly(rd.err)
	}
	var b strings.Builder
	switch {
	case rd.Format == feed.Atom:
		b.WriteString("Atom feed")
	case rd.Format == feed.RSS:
		b.WriteString("RSS feed")
	case rd.Empty:
		b.WriteString("nothing but a header")
	default:
		media, _, _ := strings.Cut(rd.ContentType, ";")
		fmt.Fprintf(&b, "document of type %.60q", cmp.Or(strings.TrimSpace(media), "unknown"))
	}
	if rd.NotModified {
		b.WriteString(" (unchanged)")
	}
	if rd.SelfFrom != websub.FromURL {
		b.WriteString(", self by " + rd.SelfFrom)
	}
	if n := len(rd.Hubs); n > 0 {
		fmt.Fprintf(&b, ", %d hubs by %s", n, rd.HubsFrom)
	}
	return b.String()
}

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
