package destination

import (
	"fmt"
	"strings"

	"resyncd/destination/rsdoc"
)

// library is a Source with two sets.
func library() map[string]page {
	return map[string]page{
		"/.well-known/resourcesync": xml(urlset(rootMD(`capability="description"`) + link("describedby", "/about") +
			"<url><loc>SITE/a/cap.xml</loc><rs:md capability=\"capabilitylist\"/>" + link("describedby", "/a/about") + "</url>" +
			"<url><loc>SITE/b/cap.xml</loc></url>")),
		"/a/cap.xml": xml(urlset(rootMD(`capability="capabilitylist"`) + link("up", "/.well-known/resourcesync") +
			capability("/a/list.xml", "resourcelist") + capability("/a/changes.xml", "changelist") +
			capability("/a/archive.xml", "changelist-archive") + capability("/a/list2.xml", "resourcelist") +
			capability("/a/strange.xml", "x-strange") +
			"<url><loc>SITE/a/topic</loc><rs:md capability=\"change-notification\"/>" +
			`<rs:ln rel="hub" href="https://slow.example/hub"/><rs:ln rel="hub" href="https://hub.example/" pri="1"/></url>`)),
		"/b/cap.xml": xml(urlset(link("up", "/.well-known/resourcesync") + capability("/b/list.xml", "resourcelist") +
			rootMD(`capability="capabilitylist"`))),
		"/a/list.xml": xml(urlset(rootMD(`capability="resourcelist" at="2026-01-01T00:00:00Z"`) + link("up", "/a/cap.xml") +
			entry("/a/1", `length="1"`))),
		"/a/changes-1.xml": xml(urlset(rootMD(`capability="changelist" from="2026-01-01T00:00:00Z" until="2026-01-02T00:00:00Z"`) +
			link("up", "/a/cap.xml") + link("index", "/a/changes.xml"))),
		"/a/changes.xml": xml(indexOf(rootMD(`capability="changelist" from="2026-01-01T00:00:00Z"`) + link("up", "/a/cap.xml") +
			part("/a/changes-1.xml", `from="2026-01-01T00:00:00Z" until="2026-01-02T00:00:00Z"`))),
		"/lone.xml":    xml(urlset(rootMD(`capability="changelist" from="2026-01-01T00:00:00Z"`) + link("up", "/a/cap.xml") + link("archives", "/old.xml"))),
		"/sitemap.xml": xml(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>SITE/x</loc></url></urlset>`),
	}
}

// shown is an offer in a form that a test can write down.
func shown(s *site, o *Offer) []string {
	var out []string
	cut := func(u string) string { return strings.ReplaceAll(u, s.URL, "") }
	for _, set := range o.Sets {
		line := fmt.Sprintf("%s %s", cut(set.ID), set.Found)
		if set.Bare {
			line += " bare"
		}
		for _, k := range []rsdoc.Kind{
			rsdoc.KindResourceList, rsdoc.KindChangeList, rsdoc.KindResourceDump, rsdoc.KindChangeDump,
			rsdoc.KindResourceListArchive, rsdoc.KindChangeListArchive,
		} {
			if ref := *set.refField(k); ref != nil {
				line += fmt.Sprintf(" %s=%s", k, cut(ref.URL))
			}
		}
		if c := set.ChangeChannel; c != nil {
			line += " topic=" + cut(c.Topic) + "@" + strings.Join(c.Hubs, ",")
		}
		for _, ref := range set.Also {
			line += " also=" + cut(ref.URL)
		}
		if set.DescribedBy != "" {
			line += " about=" + cut(set.DescribedBy)
		}
		if set.Err != nil {
			line += " ERR"
		}
		out = append(out, line)
	}
	return out
}
