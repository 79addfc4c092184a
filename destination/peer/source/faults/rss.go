package faults

import (
	"encoding/xml"
	"io"
	"strings"
	"text/template"
	"time"

	"resyncd/destination/feed"
)

// rss is RSS 2.0 with the links of Atom in it, as much software writes it. It has no word for a deletion, and its times
// have whole seconds.
var rss = template.Must(template.New("rss").Funcs(template.FuncMap{"xml": escape, "time": rssTime}).Parse(
	`<?xml version="1.0" encoding="UTF-8"?>
<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom" xmlns:fh="http://purl.org/syndication/history/1.0">
  <channel>
    <title>{{xml .Title}}</title>
    <link>{{xml .Site}}</link>
    <description>{{xml .Title}}</description>
    <lastBuildDate>{{time .Updated}}</lastBuildDate>
{{if .Archive}}    <fh:archive></fh:archive>
{{end}}{{range .Links}}{{if .Href}}    <atom:link rel="{{.Rel}}" href="{{xml .Href}}"></atom:link>
{{end}}{{end}}{{range .Entries}}{{if not .Deleted}}    <item>
      <title>{{xml .Title}}</title>
      <link>{{xml .ID}}</link>
      <guid>{{xml .ID}}</guid>
{{with time .Updated}}      <pubDate>{{.}}</pubDate>
{{end}}      <description>{{xml .Summary}}</description>
{{range .Links}}{{if eq .Rel "enclosure" -}}
{{"      "}}<enclosure url="{{xml .Href}}" length="{{.Length}}" type="{{xml .Type}}"></enclosure>
{{end}}{{end}}    </item>
{{end}}{{end}}  </channel>
</rss>
`))

// writeRSS writes a document of the feed of changes; site is the page that it belongs to.
func writeRSS(w io.Writer, d *feed.Document, site string) error {
	links := []feed.Link{
		{Rel: "self", Href: d.Self}, {Rel: "current", Href: d.Current},
		{Rel: "prev-archive", Href: d.PrevArchive}, {Rel: "next-archive", Href: d.NextArchive},
	}
	for _, hub := range d.Hubs {
		links = append(links, feed.Link{Rel: "hub", Href: hub})
	}
	return rss.Execute(w, struct {
		*feed.Document
		Site  string
		Links []feed.Link
	}{d, site, links})
}

func escape(text string) (string, error) {
	var out strings.Builder
	err := xml.EscapeText(&out, []byte(text))
	return out.String(), err
}

func rssTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC1123Z)
}
