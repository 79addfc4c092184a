package e2e_test

import (
	"io"
	"strings"
)

// hostileAnswers are sound documents and resources that come in bad HTTP.
func hostileAnswers() []badSource {
	sound := resourceList(entries("/r/a", "/r/b"))
	list := func(p page) pages { return pages{"/list.xml": p} }
	// resource is a Source with two resources, the first of which is bad.
	resource := func(p page) pages { return pages{"/list.xml": {body: sound}, "/r/a": p} }
	// declared is the same with a declared length and hash of the first.
	declared := func(md string, p page) pages {
		return pages{"/list.xml": {body: resourceList(`<url><loc>{base}/r/a</loc><rs:md ` + md + `/></url>` + entries("/r/b"))}, "/r/a": p}
	}
	raw := func(head string) page { return page{raw: "HTTP/1.1 200 OK\r\nConnection: close\r\n" + head} }
	endless := page{raw: "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n", more: writeForEver}
	bad := []badSource{
		// Of a list.
		{name: "a list with 204", pages: list(page{status: 204}), want: notUsed("204")},
		{name: "a list with 206", pages: list(page{status: 206, header: []string{"Content-Range", "bytes 0-9/10"}, body: sound}), want: notUsed("206")},
		{name: "a list with 300", pages: list(page{status: 300, body: sound}), want: notUsed("300")},
		{name: "a list with 304 unasked", pages: list(page{status: 304}), want: notUsed("304")},
		{name: "a list with 401", pages: list(page{status: 401, header: []string{"WWW-Authenticate", `Basic realm="x"`}, body: sound}), want: notUsed("401")},
		{name: "a list with 410", pages: list(page{status: 410, body: sound}), want: notUsed("410")},
		{name: "a list with 429 for ever", pages: list(page{status: 429, header: []string{"Retry-After", "99999999999999999999"}}), want: notUsed("429")},
		{name: "a list with 500", pages: list(page{status: 500, body: sound}), want: notUsed("500")},
		{name: "a list with 503 before all time", pages: list(page{status: 503, header: []string{"Retry-After", "Mon, 01 Jan 0001 00:00:00 GMT"}}), want: notUsed("503")},
		{name: "a list with 999", pages: list(page{status: 999, body: sound}), want: notUsed("999")},
		{name: "a redirect to itself", pages: list(page{status: 302, header: []string{"Location", "{base}/list.xml"}}), want: notUsed("redirect")},
		{name: "a redirect nowhere", pages: list(page{status: 302}), want: notUsed("302")},
		{name: "a redirect to no address", pages: list(page{status: 302, header: []string{"Location", "http://[::"}}), want: notUsed("")},
		{name: "a redirect to a file", pages: list(page{status: 302, header: []string{"Location", "file:///etc/passwd"}}), want: notUsed("")},
		{name: "a redirect to gopher", pages: list(page{status: 302, header: []string{"Location", "gopher://127.0.0.1/1"}}), want: notUsed("")},
		{name: "a redirect to data", pages: list(page{status: 302, header: []string{"Location", "data:text/xml,x"}}), want: notUsed("")},
		{name: "a redirect to a script", pages: list(page{status: 302, header: []string{"Location", "javascript:alert(1)"}}), want: notUsed("")},
		{name: "a redirect with a password", pages: list(page{status: 302, header: []string{"Location", "http://u:p@{host}/other.xml"}}), want: notUsed("")},
		{name: "a redirect with a line break", pages: list(page{raw: "HTTP/1.1 302 Found\r\nLocation: /a\rX: y\r\nContent-Length: 0\r\n\r\n"}), want: notUsed("")},
		{name: "an endless redirect", pages: list(page{status: 302, header: []string{"Location", "/" + times("x", 20_000)}}), want: notUsed("")},
		{name: "a refresh header", pages: list(page{status: 200, header: []string{"Refresh", "0; url=file:///etc/passwd"}, body: sound}), want: fine(2)},
		{name: "a list said to be a picture", pages: list(page{header: []string{"Content-Type", "image/png"}, body: sound}), want: fine(2)},
		{name: "a list said to be Latin 1", pages: list(page{header: []string{"Content-Type", "application/xml; charset=iso-8859-1"}, body: sound}), want: fine(2)},
		{name: "a list with a broken type", pages: list(page{header: []string{"Content-Type", ";;;=\"\""}, body: sound}), want: fine(2)},
		{name: "a list packed and said so", pages: list(page{header: []string{"Content-Encoding", "gzip"}, body: zipped(resourceList(""))}), want: fine(0)},
		{name: "a list packed and not said so", pages: list(page{body: zipped(resourceList(""))}), want: fine(0)},
		{name: "a list said to be packed", pages: list(page{header: []string{"Content-Encoding", "gzip"}, body: sound}), want: fine(2)},
		{name: "a list in a foreign coding", pages: list(page{header: []string{"Content-Encoding", "br"}, body: sound}), want: notUsed("")},
		{name: "a list in ten codings", pages: list(page{header: []string{"Content-Encoding", strings.Repeat("gzip, ", 9) + "gzip"}, body: sound}), want: notUsed("")},
		{name: "a bomb of a list", pages: list(page{header: []string{"Content-Encoding", "gzip"}, body: zipped(listHead + "<x>" + times("<y/>", 1_000_000))}), want: notUsed("")},
		{name: "a bomb in a comment", pages: list(page{body: zipped(listHead + "<!--" + times(" ", 10_000_000))}), want: notUsed("")},
		{name: "a list in a packed list", pages: list(page{header: []string{"Content-Encoding", "gzip"}, body: zipped(zipped(resourceList("")))}), want: fine(0)},
		{name: "a list cut while packed", pages: list(page{body: zipped(sound)[:40]}), want: notUsed("")},
		{name: "more than was said", pages: list(raw("Content-Length: 5\r\n\r\n" + sound)), want: notUsed("")},
		{name: "a negative length", pages: list(raw("Content-Length: -1\r\n\r\n" + sound)), want: notUsed("")},
		{name: "a chunk of no size", pages: list(raw("Transfer-Encoding: chunked\r\n\r\nzz\r\n")), want: notUsed("")},
		{name: "a header of ten megabytes", pages: list(raw("X: " + times("x", 10<<20) + "\r\n\r\n")), want: notUsed("")},
		{name: "a header without a colon", pages: list(raw("no colon\r\n\r\n")), want: notUsed("")},
		{name: "an upgrade", pages: list(page{raw: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"}), want: notUsed("")},
		{name: "links without end", pages: list(page{header: []string{"Link", times("<{base}/>; rel=hub, ", 500) + "<", "Link", `<>; rel="`}, body: sound}), want: fine(2)},
		{name: "a tag without end", pages: list(page{header: []string{"ETag", `W/"` + times("x", 5000), "Last-Modified", "never"}, body: sound}), want: fine(2)},
		{name: "a date before all time", pages: list(page{header: []string{"Date", "Mon, 01 Jan 0001 00:00:00 GMT"}, body: sound}), want: fine(2)},
		// Of a resource.
		{name: "a resource with 204", pages: resource(page{status: 204}), want: owes(1, 1)},
		{name: "a resource with 206", pages: resource(page{status: 206, header: []string{"Content-Range", "bytes 0-0/100"}, body: "x"}), want: owes(1, 1)},
		{name: "a resource with 304 unasked", pages: resource(page{status: 304}), want: owes(1, 1)},
		{name: "a resource with 403", pages: resource(page{status: 403, body: "no"}), want: owes(1, 1)},
		{name: "a resource with 404", pages: resource(page{status: 404, body: "no"}), want: owes(1, 1)},
		{name: "a resource with 410", pages: resource(page{status: 410, body: "no"}), want: owes(1, 1)},
		{name: "a resource with 500", pages: resource(page{status: 500, body: "no"}), want: owes(1, 1)},
		{name: "a resource with 599", pages: resource(page{status: 599, body: "no"}), want: owes(1, 1)},
		{name: "a resource that moves for ever", pages: resource(page{status: 307, header: []string{"Location", "{base}/r/a"}}), want: owes(1, 1)},
		{name: "a resource that moves to a file", pages: resource(page{status: 302, header: []string{"Location", "file:///etc/passwd"}}), want: owes(1, 1)},
		{name: "a resource that moves out of scope", pages: resource(page{status: 302, header: []string{"Location", "http://localhost.example/"}}), want: owes(1, 1)},
		{name: "a resource that moves within", pages: resource(page{status: 302, header: []string{"Location", "/r/elsewhere"}}), want: fine(2)},
		{name: "a resource said to be packed", pages: resource(page{header: []string{"Content-Encoding", "gzip"}, body: "x"}), want: owes(1, 1)},
		{name: "a resource in a foreign coding", pages: resource(page{header: []string{"Content-Encoding", "br"}, body: "x"}), want: owes(1, 1)},
		{name: "a resource too short", pages: declared(`length="5"`, page{body: "1234"}), want: owes(1, 1)},
		{name: "a resource too long", pages: declared(`length="5"`, page{body: "123456"}), want: owes(1, 1)},
		{name: "a resource of the wrong hash", pages: declared(`hash="sha-256:`+times("0", 64)+`"`, page{body: "x"}), want: owes(1, 1)},
		{name: "a resource of the wrong md5", pages: declared(`hash="md5:`+times("0", 32)+`"`, page{body: "x"}), want: owes(1, 1)},
		{name: "a bomb of a resource", pages: declared(`length="10" hash="md5:`+times("0", 32)+`"`, page{header: []string{"Content-Encoding", "gzip"}, body: zipped(times(" ", 50_000_000))}), want: owes(1, 1)},
		{name: "a resource larger than allowed", pages: resource(page{body: times("x", 1<<20+1)}), want: owes(1, 1)},
		{name: "an endless resource", pages: resource(endless), want: owes(1, 1)},
		{name: "an endless resource of a known length", pages: declared(`length="10"`, endless), want: owes(1, 1)},
		{name: "a resource declared immense", pages: declared(`length="9223372036854775807"`, page{body: "x"}), want: owes(1, 1)},
		{name: "a resource cut short", pages: resource(raw("Content-Length: 100\r\n\r\nx")), want: owes(1, 1)},
		{name: "a resource with a broken header", pages: resource(raw("no colon\r\n\r\n")), want: owes(1, 1)},
	}
	if !soak {
		return bad
	}
	return append(bad,
		badSource{name: "two lengths", pages: list(raw("Content-Length: 5\r\nContent-Length: 6\r\n\r\n" + sound)), want: notUsed("")},
		badSource{name: "a length beyond all numbers", pages: list(raw("Content-Length: 99999999999999999999\r\n\r\n" + sound)), want: notUsed("")},
		badSource{name: "length and chunks", pages: list(raw("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")), want: notUsed("")},
		badSource{name: "an unknown transfer", pages: list(raw("Transfer-Encoding: pigeon\r\n\r\n" + sound)), want: notUsed("")},
		badSource{name: "a chunk beyond all numbers", pages: list(raw("Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n")), want: notUsed("")},
		badSource{name: "a hundred thousand headers", pages: list(raw(times("X: y\r\n", 100_000) + "\r\n")), want: notUsed("")},
		badSource{name: "a header with a NUL", pages: list(raw("X: a\x00b\r\nContent-Length: 0\r\n\r\n")), want: notUsed("")},
		badSource{name: "no HTTP at all", pages: list(page{raw: "SSH-2.0-OpenSSH_9.9\r\n"}), want: notUsed("")},
		badSource{name: "HTTP 3 in words", pages: list(page{raw: "HTTP/3.0 200 OK\r\n\r\n"}), want: notUsed("")},
		badSource{name: "a status without a number", pages: list(page{raw: "HTTP/1.1 OK\r\n\r\n"}), want: notUsed("")},
		badSource{name: "a thousand informations", pages: list(page{raw: times("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 1000)}), want: notUsed("")},
		badSource{name: "a resource cut in a chunk", pages: resource(raw("Transfer-Encoding: chunked\r\n\r\n5\r\nab")), want: owes(1, 1)},
	)
}

// writeForEver ends when nobody listens any more.
func writeForEver(w io.Writer) (n int) {
	chunk := []byte(times("0123456789abcdef", 4096))
	for {
		m, err := w.Write(chunk)
		n += m
		if err != nil {
			return n
		}
	}
}
