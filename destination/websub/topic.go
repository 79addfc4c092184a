package websub

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
)

// Where a topic's links were found.
const (
	FromHeader = "link-header"
	FromHTML   = "html"
	FromFeed   = "feed"
	FromURL    = "final-url" // no self anywhere: the requested URL is taken (S-11)
)

// MaxHubs is the number of hubs of one topic that are kept (P8).
const MaxHubs = 20

// TopicLinks are a topic's links about itself.
type TopicLinks struct {
	Self string // the topic to subscribe to (S-04); never empty where the final URL is known
	Hubs []string
	// SelfFrom and HubsFrom are FromHeader, FromHTML, FromFeed or, for Self, FromURL; "" for
	// nothing found.
	SelfFrom, HubsFrom string
	// Feeds are the feeds that an HTML page names as other forms of itself (rel=alternate), in
	// order. They are not read where the headers are complete.
	Feeds []string
}

// DiscoverTopic finds self and hubs of a topic in the answer to a GET or HEAD (S-01 to S-11): in
// its Link headers, and the rest in its body, a feed or the head of a page by its content, whatever
// contentType claims. final is the URL of the answer, after redirects. body may be nil or empty; at
// most 512 KiB of it are read, and nothing if the headers are complete.
//
// A broken body counts as far as it can be read, and a topic without hubs is no error. Only a
// failed read is one, and what was found before it is returned with it.
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
	var all []string
	for _, target := range Targets(links, rel) {
		if OnWeb(target) {
			all = append(all, target)
		}
	}
	return all
}

// sniffed is how much of a body decides what it is.
const sniffed = 4 << 10

// bodyLinks finds the links of a body, and what kind of body it was.
func bodyLinks(body io.Reader, contentType string, final *url.URL) ([]Link, string, error) {
	r := bufio.NewReaderSize(io.LimitReader(body, maxHead), sniffed)
	start, err := r.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) && len(start) == 0 {
		return nil, "", fmt.Errorf("read a topic: %w", err)
	}
	switch sniff(string(start), contentType) {
	case FromFeed:
		links, err := feedLinks(r, final)
		return links, FromFeed, err
	case FromHTML:
		links, err := HTMLLinks(r, final)
		return links, FromHTML, err
	}
	return nil, "", nil
}

// sniff separates a feed from a page by the first element, behind whatever precedes it; where the
// start shows none, by the declared type. "" is neither.
func sniff(start, contentType string) string {
	start = strings.TrimPrefix(start, "\ufeff")
	for {
		start = strings.TrimLeft(start, " \t\r\n\f")
		var end string
		switch {
		case strings.HasPrefix(start, "<!--"):
			end = "-->"
		case strings.HasPrefix(start, "<?"):
			end = "?>"
		case strings.HasPrefix(start, "<!"):
			if isHTMLDoctype(start) {
				return FromHTML
			}
			end = ">"
		case strings.HasPrefix(start, "]"): // the end of a DOCTYPE whose declarations were skipped
			end = ">"
		case start == "":
			return byType(contentType)
		case start[0] != '<':
			return ""
		default:
			return byRoot(start[1:], contentType)
		}
		_, rest, ok := strings.Cut(start, end)
		if !ok {
			return byType(contentType)
		}
		start = rest
	}
}

func isHTMLDoctype(s string) bool {
	const head, name = "<!doctype", "html"
	if len(s) < len(head) || !strings.EqualFold(s[:len(head)], head) {
		return false
	}
	s = strings.TrimLeft(s[len(head):], blanks)
	return len(s) >= len(name) && strings.EqualFold(s[:len(name)], name)
}

// byRoot decides by the name of the first element.
func byRoot(tag, contentType string) string {
	name := tag
	if i := strings.IndexAny(tag, " \t\r\n/>"); i >= 0 {
		name = tag[:i]
	}
	_, local, prefixed := strings.Cut(name, ":")
	if !prefixed {
		local = name
	}
	if local == "feed" || local == "rss" || local == "RDF" {
		return FromFeed
	}
	switch strings.ToLower(local) { // a page may leave out its first tags
	case "html", "head", "title", "meta", "link", "base", "script", "style":
		return FromHTML
	}
	if strings.Contains(strings.ToLower(contentType), "html") {
		return FromHTML
	}
	return ""
}

func byType(contentType string) string {
	switch t := strings.ToLower(contentType); {
	case strings.Contains(t, "html"):
		return FromHTML
	case strings.Contains(t, "xml"):
		return FromFeed
	}
	return ""
}
