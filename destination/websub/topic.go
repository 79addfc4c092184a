package websub

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"resyncd/destination/feed"
)

// Where a topic's links were found.
const (
	FromHeader = "link-header"
	FromHTML   = "html"
	FromFeed   = "feed"
	FromURL    = "final-url" // no self anywhere (S-11)
)

// MaxHubs is the number of hubs of one topic that are kept (P8).
const MaxHubs = 20

// TopicLinks are a topic's links about itself.
type TopicLinks struct {
	Self string // S-04; never empty where the final URL is known
	Hubs []string
	// SelfFrom and HubsFrom are one of the above; "" for nothing found.
	SelfFrom, HubsFrom string
	// Feeds are the feeds that an HTML page names as other forms of itself. They are not read where the headers are
	// complete.
	Feeds []string
}

// DiscoverTopic finds self and hubs of a topic (S-01 to S-11): in its Link headers, and the rest in its body, a feed or
// the head of a page by its content. final is the URL of the answer. body may be nil or empty, and is not read if the
// headers are complete; the caller bounds it.
//
// A broken body counts as far as it can be read. Only a failed read is an error, beside what was found before it.
func DiscoverTopic(linkHeaders []string, contentType string, body io.Reader, final *url.URL) (TopicLinks, error) {
	var t TopicLinks
	header := ParseLinks(linkHeaders, final)
	t.fill(header, FromHeader)
	var err error
	if body != nil && (t.Self == "" || len(t.Hubs) == 0) {
		var links []Link
		var from string
		links, from, err = bodyLinks(body, contentType, final)
		t.fill(links, from)
		if from == FromHTML {
			t.Feeds = FeedTargets(slices.Concat(header, links))
		}
	}
	if t.Self == "" && final != nil {
		own := *final
		own.Fragment, own.RawFragment = "", ""
		t.Self, t.SelfFrom = own.String(), FromURL
	}
	return t, err
}

func (t *TopicLinks) fill(links []Link, from string) {
	if t.Self == "" {
		if self := webTargets(links, "self"); len(self) > 0 {
			t.Self, t.SelfFrom = self[0], from
		}
	}
	if len(t.Hubs) == 0 {
		if hubs := webTargets(links, "hub"); len(hubs) > 0 {
			t.Hubs, t.HubsFrom = hubs[:min(len(hubs), MaxHubs)], from
		}
	}
}

func webTargets(links []Link, rel string) []string {
	return slices.DeleteFunc(Targets(links, rel), func(target string) bool { return !OnWeb(target) })
}

const sniffed = 4 << 10

func bodyLinks(body io.Reader, contentType string, final *url.URL) ([]Link, string, error) {
	r := bufio.NewReaderSize(body, sniffed)
	start, err := r.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) && len(start) == 0 {
		return nil, "", fmt.Errorf("read a topic: %w", err)
	}
	switch sniff(start, contentType) {
	case FromFeed:
		links, err := feedLinks(r, contentType, final)
		return links, FromFeed, err
	case FromHTML:
		links, err := HTMLLinks(r, final)
		return links, FromHTML, err
	}
	return nil, "", nil
}

func feedLinks(body io.Reader, contentType string, final *url.URL) (links []Link, err error) {
	self, hubs, err := feed.Links(body, feed.Options{Base: final, ContentType: contentType})
	if _, broken := errors.AsType[*feed.Error](err); broken {
		err = nil
	}
	if self != "" {
		links = append(links, Link{Target: self, Rels: []string{"self"}})
	}
	for _, hub := range hubs {
		links = append(links, Link{Target: hub, Rels: []string{"hub"}})
	}
	return links, err
}

// sniff separates a feed from a page by the first element, else by the declared type.
func sniff(start []byte, contentType string) string {
	if feed.Sniff(contentType, start) != feed.None {
		return FromFeed
	}
	declared, kind := strings.ToLower(contentType), ""
	if strings.Contains(declared, "html") {
		kind = FromHTML
	}
	z := html.NewTokenizer(bytes.NewReader(start))
	for {
		switch z.Next() {
		case html.ErrorToken:
			if kind == "" && strings.Contains(declared, "xml") {
				return FromFeed
			}
			return kind
		case html.TextToken:
			if strings.Trim(string(z.Raw()), markupBlanks) != "" {
				return ""
			}
		case html.DoctypeToken:
			if name, _, _ := strings.Cut(z.Token().Data, " "); strings.EqualFold(name, "html") {
				return FromHTML
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			switch atom.Lookup(name) { // a page may leave out its first tags
			case atom.Html, atom.Head, atom.Title, atom.Meta, atom.Link, atom.Base, atom.Script, atom.Style:
				kind = FromHTML
			}
			return kind
		}
	}
}
