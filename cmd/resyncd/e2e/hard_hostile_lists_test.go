package e2e_test

import "strings"

// root is the start tag of a list with one rs:md, an index where it is said so.
func root(element, md string) string {
	return "<" + element + " " + nsOfBoth + "><rs:md " + md + "/>"
}

func urlset(md, inner string) string  { return root("urlset", md) + inner + "</urlset>" }
func mapsets(md, inner string) string { return root("sitemapindex", md) + inner + "</sitemapindex>" }

// parts are entries of an index.
func parts(paths ...string) string {
	return strings.NewReplacer("<url>", "<sitemap>", "</url>", "</sitemap>").Replace(entries(paths...))
}

// hostileLists are well-formed documents that say too much, too little or something impossible: lists, indexes, Capability
// Lists and Source Descriptions.
func hostileLists() []badSource {
	const asList, at = `capability="resourcelist"`, `capability="resourcelist" at="2026-01-02T00:00:00Z"`
	sound := resourceList(entries("/r/a", "/r/b"))
	list := func(body string) pages { return pages{"/list.xml": {body: body}} }
	index := func(body string, more pages) pages {
		more["/list.xml"] = page{body: body}
		return more
	}
	capability := func(inner string) pages {
		return pages{"/cap.xml": {body: urlset(`capability="capabilitylist"`, inner)}, "/list.xml": {body: sound}}
	}
	offer := func(path, kind string) string {
		return "<url><loc>{base}" + path + `</loc><rs:md capability="` + kind + `"/></url>`
	}
	return []badSource{
		// Lists.
		{name: "an empty list", pages: list(resourceList("")), want: fine(0)},
		{name: "a list without a time", pages: list(urlset(asList, entries("/r/a"))), want: fine(1)},
		{name: "a list from the future", pages: list(urlset(asList+` at="2999-01-01"`, entries("/r/a"))), want: fine(1)},
		{name: "a list before all time", pages: list(urlset(asList+` at="0000-01-01"`, entries("/r/a"))), want: fine(1)},
		{name: "a list at no time", pages: list(urlset(asList+` at="yesterday"`, entries("/r/a"))), want: fine(1)},
		{name: "a list completed before it began", pages: list(urlset(at+` completed="2020-01-01"`, entries("/r/a"))), want: fine(1)},
		{name: "an entry twice", pages: list(resourceList(entries("/r/a", "/r/a"))), want: fine(1)},
		{name: "an entry a thousand times", pages: list(resourceList(times(entries("/r/a"), 1000))), want: fine(1)},
		{name: "an entry in an entry", pages: list(resourceList("<url><loc>{base}/r/a</loc>" + entries("/r/x") + "</url>" + entries("/r/b"))), want: skips(2, "an entry inside an entry")},
		{name: "an index's entry in a list", pages: list(resourceList(parts("/list2.xml") + entries("/r/a"))), want: behind(1, "wrong shape")},
		{name: "foreign elements", pages: list(resourceList(`<x xmlns="u"><url><loc>{base}/r/x</loc></url></x>` + entries("/r/a"))), want: fine(1)},
		{name: "an entry of another namespace", pages: list(resourceList(`<url xmlns="u"><loc>{base}/r/x</loc></url>` + entries("/r/a"))), want: fine(1)},
		{name: "a loc of another namespace", pages: list(resourceList(`<url><loc xmlns="u">{base}/r/x</loc></url>` + entries("/r/a"))), want: behind(1, "no loc")},
		{name: "sitemap links abound", pages: list(resourceList(`<rs:ln rel="up" href="javascript:alert(1)"/><rs:ln rel="index" href="file:///etc/passwd"/><rs:ln rel="describedby" href="//"/>` + entries("/r/a"))), want: fine(1)},
		{name: "an up link to itself", pages: list(resourceList(`<rs:ln rel="up" href="{base}/list.xml"/>` + entries("/r/a"))), want: fine(1)},
		{name: "a lone Change List of deletions", pages: list(urlset(`capability="changelist" from="2026-01-01" until="2026-01-02"`, `<url><loc>{base}/r/a</loc><rs:md change="deleted" datetime="2026-01-01T12:00:00Z"/></url>`)), want: fine(0)},
		{name: "a Change List that runs backwards", pages: list(urlset(`capability="changelist" from="2026-01-02" until="2026-01-01"`, `<url><loc>{base}/r/a</loc><rs:md change="created" datetime="2026-01-01T12:00:00Z"/></url>`)), want: fine(1)},
		{name: "unknown changes", pages: list(urlset(`capability="changelist" from="2026-01-01" until="2026-01-02"`, `<url><loc>{base}/r/a</loc><rs:md change="exploded" datetime="2026-01-01T12:00:00Z"/></url>`)), want: skips(1, "an unknown change")},
		// Indexes.
		{name: "an empty index", pages: list(indexHead + indexTail), want: fine(0)},
		{name: "an index of itself", pages: list(indexHead + parts("/list.xml") + indexTail), want: behind(0, "")},
		{name: "two indexes in a ring", pages: index(indexHead+parts("/2.xml")+indexTail, pages{"/2.xml": {body: indexHead + parts("/list.xml") + indexTail}}), want: behind(0, "")},
		{name: "indexes too deep", pages: index(indexHead+parts("/2.xml")+indexTail, pages{
			"/2.xml": {body: indexHead + parts("/3.xml") + indexTail}, "/3.xml": {body: indexHead + parts("/4.xml") + indexTail},
			"/4.xml": {body: indexHead + parts("/5.xml") + indexTail}, "/5.xml": {body: sound},
		}), want: behind(0, "")},
		{name: "a missing part", pages: index(indexHead+parts("/1.xml", "/2.xml")+indexTail, pages{"/1.xml": {body: sound}}), want: behind(2, "404")},
		{name: "a part of another kind", pages: index(indexHead+parts("/1.xml", "/2.xml")+indexTail, pages{"/1.xml": {body: sound}, "/2.xml": {body: urlset(`capability="changelist" from="2026-01-01"`, "")}}), want: behind(2, "wrong kind")},
		{name: "a part that is a page", pages: index(indexHead+parts("/1.xml", "/2.xml")+indexTail, pages{"/1.xml": {body: sound}, "/2.xml": {body: "<!DOCTYPE html><title>x</title>"}}), want: behind(2, "forbidden markup")},
		{name: "a part twice", pages: index(indexHead+parts("/1.xml", "/1.xml")+indexTail, pages{"/1.xml": {body: sound}}), want: fine(2)},
		{name: "parts that name one resource", pages: index(indexHead+parts("/1.xml", "/2.xml")+indexTail, pages{"/1.xml": {body: sound}, "/2.xml": {body: sound}}), want: fine(2)},
		{name: "a part without a loc", pages: index(indexHead+"<sitemap/>"+parts("/1.xml")+indexTail, pages{"/1.xml": {body: sound}}), want: behind(2, "")},
		{name: "a part in a file", pages: index(indexHead+"<sitemap><loc>file:///etc/passwd</loc></sitemap>"+parts("/1.xml")+indexTail, pages{"/1.xml": {body: sound}}), want: behind(2, "")},
		{name: "a part in data", pages: index(indexHead+"<sitemap><loc>data:text/xml,&lt;urlset/></loc></sitemap>"+parts("/1.xml")+indexTail, pages{"/1.xml": {body: sound}}), want: behind(2, "")},
		{name: "a list's entry in an index", pages: index(indexHead+entries("/r/x")+parts("/1.xml")+indexTail, pages{"/1.xml": {body: sound}}), want: behind(2, "wrong shape")},
		// Capability Lists.
		{name: "an empty Capability List", start: "/cap.xml", pages: capability(""), want: notUsed("")},
		{name: "a Capability List of nothing known", start: "/cap.xml", pages: capability(offer("/list.xml", "teleport")), want: notUsed("")},
		{name: "a Capability List of itself", start: "/cap.xml", pages: capability(offer("/cap.xml", "resourcelist")), want: notUsed("wrong kind")},
		{name: "two Resource Lists", start: "/cap.xml", pages: capability(offer("/list.xml", "resourcelist") + offer("/other.xml", "resourcelist")), want: behind(2, "")},
		{name: "a Resource List that is not there", start: "/cap.xml", pages: capability(offer("/gone.xml", "resourcelist")), want: notUsed("404")},
		{name: "a Change List that is a Resource List", start: "/cap.xml", pages: capability(offer("/list.xml", "resourcelist") + offer("/list.xml", "changelist")), want: behind(2, "wrong kind")},
		{name: "a Change List that is not there", start: "/cap.xml", pages: capability(offer("/list.xml", "resourcelist") + offer("/gone.xml", "changelist")), want: behind(2, "404")},
		{name: "an offer without a kind", start: "/cap.xml", pages: capability("<url><loc>{base}/x.xml</loc></url>" + offer("/list.xml", "resourcelist")), want: fine(2)},
		{name: "an offer in a file", start: "/cap.xml", pages: capability(`<url><loc>file:///etc/passwd</loc><rs:md capability="resourcelist"/></url>`), want: notUsed("")},
		{name: "an offer without a loc", start: "/cap.xml", pages: capability(`<url><rs:md capability="resourcelist"/></url>`), want: notUsed("")},
		{name: "an index of Capability Lists", start: "/cap.xml", pages: pages{"/cap.xml": {body: mapsets(`capability="capabilitylist"`, parts("/cap.xml"))}}, want: notUsed("")},
		{name: "hubs that are no addresses", start: "/cap.xml", pages: capability(`<rs:ln rel="hub" href="javascript:x"/>` + offer("/list.xml", "resourcelist") + `<url><loc>{base}/ch</loc><rs:md capability="change-notification"/><rs:ln rel="hub" href="::"/></url>`), want: fine(2)},
		// Source Descriptions.
		{name: "a Source Description of itself", start: "/sd.xml", pages: pages{"/sd.xml": {body: urlset(`capability="description"`, offer("/sd.xml", "capabilitylist"))}}, want: notUsed("")},
		{name: "Source Descriptions in a ring", start: "/sd.xml", pages: pages{
			"/sd.xml": {body: mapsets(`capability="description"`, parts("/sd2.xml"))}, "/sd2.xml": {body: mapsets(`capability="description"`, parts("/sd.xml"))},
		}, want: notUsed("")},
		{name: "a Source Description of nothing", start: "/sd.xml", pages: pages{"/sd.xml": {body: urlset(`capability="description"`, "")}}, want: notUsed("")},
		{name: "a page that links to itself", start: "/", pages: pages{"/": {header: []string{"Link", `<{base}/>; rel="resourcesync"`, "Content-Type", "text/html"}, body: "<html><head><link rel=resourcesync href=/></head></html>"}}, want: notUsed("")},
		{name: "a page of a thousand links", start: "/", pages: pages{"/": {header: []string{"Content-Type", "text/html"}, body: "<html><head>" + strings.Join(numbered("<link rel=resourcesync href=/x%d>", 1000), "") + "</head></html>"}}, want: notUsed("")},
		{name: "a page with an endless head", start: "/", pages: pages{"/": {header: []string{"Content-Type", "text/html"}, body: "<html><head>" + times("<meta name=a content=b>", 100_000)}}, want: notUsed("")},
		{name: "robots that lead astray", start: "/", pages: pages{"/robots.txt": {body: times("Sitemap: file:///etc/passwd\nSitemap: {base}/x.xml\n", 1000)}}, want: notUsed("")},
	}
}
