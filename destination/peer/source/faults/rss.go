package faults

import (
	"encoding/xml"
	"io"
	"time"

	"resyncd/destination/feed"
)

// rssFeed is RSS 2.0 with the links of Atom in it, as much software writes it. It has no word for a deletion.
type rssFeed struct {
	XMLName xml.Name   `xml:"rss"`
	Version string     `xml:"version,attr"`
	Atom    string     `xml:"xmlns:atom,attr"`
	History string     `xml:"xmlns:fh,attr"`
	Channel rssChannel `xml:"channel"`
}

type rssChannel struct {
	Title       string    `xml:"title"`
	Link        string    `xml:"link"`
	Description string    `xml:"description"`
	Built       string    `xml:"lastBuildDate"`
	Archive     *struct{} `xml:"fh:archive"`
	Links       []rssLink `xml:"atom:link"`
	Items       []rssItem `xml:"item"`
}

type rssLink struct {
	Rel  string `xml:"rel,attr"`
	Href string `xml:"href,attr"`
}

type rssItem struct {
	Title       string        `xml:"title"`
	Link        string        `xml:"link"`
	GUID        string        `xml:"guid"`
	Published   string        `xml:"pubDate,omitempty"`
	Description string        `xml:"description"`
	Enclosure   *rssEnclosure `xml:"enclosure"`
}

type rssEnclosure struct {
	URL    string `xml:"url,attr"`
	Length int64  `xml:"length,attr"`
	Type   string `xml:"type,attr"`
}

// writeRSS writes a document of the feed of changes as RSS, whose times have whole seconds. site is the page that it
// belongs to.
func writeRSS(w io.Writer, d *feed.Document, site string) error {
	out := rssFeed{Version: "2.0", Atom: "http://www.w3.org/2005/Atom", History: "http://purl.org/syndication/history/1.0"}
	c := &out.Channel
	c.Title, c.Link, c.Description, c.Built = d.Title, site, d.Title, d.Updated.Format(time.RFC1123Z)
	if d.Archive {
		c.Archive = &struct{}{}
	}
	link := func(rel, href string) {
		if href != "" {
			c.Links = append(c.Links, rssLink{rel, href})
		}
	}
	for _, hub := range d.Hubs {
		link("hub", hub)
	}
	link("self", d.Self)
	link("current", d.Current)
	link("prev-archive", d.PrevArchive)
	link("next-archive", d.NextArchive)
	for i := range d.Entries {
		if e := &d.Entries[i]; !e.Deleted {
			c.Items = append(c.Items, newRSSItem(e))
		}
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(out); err != nil {
		return err
	}
	return encoder.Close()
}

func newRSSItem(e *feed.NewEntry) rssItem {
	item := rssItem{Title: e.Title, Link: e.ID, GUID: e.ID, Description: e.Summary}
	if !e.Updated.IsZero() {
		item.Published = e.Updated.Format(time.RFC1123Z)
	}
	for _, l := range e.Links {
		if l.Rel == "enclosure" {
			item.Enclosure = &rssEnclosure{l.Href, l.Length, l.Type}
		}
	}
	return item
}
