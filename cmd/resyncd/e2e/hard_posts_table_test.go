package e2e_test

import (
	"crypto/hmac"
	"crypto/md5"
	"fmt"
	"strings"

	"resyncd/destination/websub"
)

// hostilePost is one request to a callback, and the status that answers it.
type hostilePost struct {
	name   string
	method string // POST if empty
	token  string // instead of the callback's own
	query  string
	header []string
	body   string
	sign   func(secret, body string) []string // the values of X-Hub-Signature
	status int
}

// hostilePosts are what strangers and a hub send. What is signed is acknowledged whatever it is (S-61): it is kept, and
// nothing but a look at the Source follows from it.
func hostilePosts() []hostilePost {
	var all []hostilePost
	const interval = `capability="change-notification" from="2026-01-01T00:00:00Z" until="2026-01-01T00:00:10Z"`
	change := func(loc, md string) string { return urlset(interval, "<url><loc>"+loc+"</loc><rs:md "+md+"/></url>") }
	gone, made := `change="deleted" datetime="2026-01-01T00:00:05Z"`, `change="created" datetime="2026-01-01T00:00:05Z"`
	next := change("{base}/a.txt", made)

	// Documents with the right signature: every bad document, and notifications that say what is not so.
	for _, row := range hostileXML {
		if body := strings.TrimPrefix(row.body, "+"); len(body) < 60_000 {
			all = append(all, hostilePost{name: "signed: " + row.name, body: body, sign: right, status: 200})
		}
	}
	for name, body := range map[string]string{
		"a deletion that is none": change("{base}/a.txt", gone), "a creation that is none": change("{base}/nowhere.txt", made),
		"a change elsewhere": change("http://evil.example/x", made), "a change in a file": change("file:///etc/passwd", made),
		"a change outside": change("{base}/../../etc/passwd", gone), "a change inside": change("http://127.0.0.1:1/x", made),
		"no until":                 urlset(`capability="change-notification" from="2026-01-01T00:00:00Z"`, ""),
		"until for ever":           urlset(`capability="change-notification" from="2026-01-01T00:00:00Z" until="9999-12-31T23:59:59Z"`, ""),
		"backwards":                urlset(`capability="change-notification" from="2027-01-01T00:00:00Z" until="2026-01-01T00:00:00Z"`, ""),
		"before all time":          urlset(`capability="change-notification" from="0000-01-01T00:00:00Z" until="0001-01-01T00:00:00Z"`, ""),
		"a hash that is not so":    change("{base}/a.txt", made+` hash="sha-256:`+strings.Repeat("0", 64)+`"`),
		"a length that is not so":  change("{base}/a.txt", made+` length="9223372036854775807"`),
		"a change of no kind":      change("{base}/a.txt", `change="eaten"`),
		"a list in its place":      resourceList(""),
		"an index in its place":    indexHead + indexTail,
		"a hundred deletions":      urlset(interval, strings.Repeat("<url><loc>{base}/a.txt</loc><rs:md "+gone+"/></url>", 100)),
		"a deletion in the future": change("{base}/a.txt", `change="deleted" datetime="2999-01-01T00:00:00Z"`),
	} {
		all = append(all, hostilePost{name: "signed: " + name, body: body, sign: right, status: 200})
	}

	// Signatures.
	signed := func(status int, name string, sign func(secret, body string) []string) {
		all = append(all, hostilePost{name: "signature: " + name, body: next, sign: sign, status: status})
	}
	literal := func(values ...string) func(string, string) []string {
		return func(string, string) []string { return values }
	}
	signed(403, "none", nil)
	for _, v := range []string{"", " ", "sha256", "sha256=", "sha256=00", "sha256=zz", "=", "sha256=" + strings.Repeat("0", 64), "sha1=" + strings.Repeat("0", 40), "none=", "sha512=" + strings.Repeat("f", 128), "sha256=" + strings.Repeat("0", 5000)} {
		signed(403, fmt.Sprintf("%.20q", v), literal(v))
	}
	signed(403, "of another secret", func(_, body string) []string { return []string{websub.Sign(websub.SHA256, "guess", []byte(body))} })
	signed(403, "of no secret", func(_, body string) []string { return []string{websub.Sign(websub.SHA256, "", []byte(body))} })
	signed(403, "of another body", func(secret, _ string) []string { return right(secret, "x") })
	signed(403, "by md5", func(secret, body string) []string {
		m := hmac.New(md5.New, []byte(secret))
		_, _ = m.Write([]byte(body)) // a hash takes all
		return []string{fmt.Sprintf("md5=%x", m.Sum(nil))}
	})
	signed(403, "without its method", func(secret, body string) []string {
		return []string{strings.TrimPrefix(right(secret, body)[0], "sha256=")}
	})
	signed(403, "under another method", func(secret, body string) []string {
		return []string{strings.Replace(right(secret, body)[0], "sha256", "sha1", 1)}
	})
	signed(403, "cut", func(secret, body string) []string { s := right(secret, body)[0]; return []string{s[:len(s)-2]} })
	signed(403, "and more", func(secret, body string) []string { return []string{right(secret, body)[0] + "00"} })

	// Everything around.
	return append(all,
		hostilePost{name: "no body", sign: right, status: 200},
		hostilePost{name: "too large", body: strings.Repeat("x", 64<<10+1), sign: right, status: 413},
		hostilePost{name: "a bomb", body: zipped(strings.Repeat(" ", 8<<20)), header: []string{"Content-Encoding", "gzip"}, sign: right, status: 413},
		hostilePost{name: "a coding that is a lie", body: next, header: []string{"Content-Encoding", "gzip"}, sign: right, status: 200},
		hostilePost{name: "an unknown coding", body: next, header: []string{"Content-Encoding", "br"}, sign: right, status: 200},
		hostilePost{name: "a type that is a lie", body: next, header: []string{"Content-Type", "image/png; ;;"}, sign: right, status: 200},
		hostilePost{name: "a link to another hub", body: next, header: []string{"Link", `<http://127.0.0.1:1/>; rel=hub, <http://127.0.0.1:1/>; rel=self`}, sign: right, status: 200},
		hostilePost{name: "links without end", body: next, header: []string{"Link", strings.Repeat("<x>; rel=self, ", 500)}, sign: right, status: 200},
		hostilePost{name: "headers too large", body: next, header: []string{"X", strings.Repeat("x", 100<<10)}, sign: right, status: 431},
		hostilePost{name: "an unknown token", token: strings.Repeat("A", 43), body: next, sign: right, status: 404},
		hostilePost{name: "a short token", token: "x", body: next, sign: right, status: 404},
		hostilePost{name: "a token that climbs", token: "..%2f..%2fetc%2fpasswd", body: next, sign: right, status: 404},
		hostilePost{name: "a token of a NUL", token: "%00", body: next, sign: right, status: 404},
		hostilePost{name: "a long token", token: strings.Repeat("x", 8000), body: next, sign: right, status: 404},
		hostilePost{name: "PUT", method: "PUT", body: next, sign: right, status: 405},
		hostilePost{name: "DELETE", method: "DELETE", status: 405},
		hostilePost{name: "TRACE", method: "TRACE", status: 405},
		hostilePost{name: "a method of its own", method: "BREW", status: 405},
		hostilePost{name: "a question for nothing", method: "GET", status: 404},
		hostilePost{name: "a verification nobody asked for", method: "GET", query: "?hub.mode=subscribe&hub.topic=http://evil.example/&hub.challenge=x", status: 404},
		hostilePost{name: "an unsubscription nobody asked for", method: "GET", query: "?hub.mode=unsubscribe&hub.topic={topic}&hub.challenge=x", status: 404},
		hostilePost{name: "a challenge of markup", method: "GET", query: "?hub.mode=subscribe&hub.topic={topic}&hub.challenge=%3Cscript%3E", status: 404},
		hostilePost{name: "a challenge of a line break", method: "GET", query: "?hub.mode=subscribe&hub.topic={topic}&hub.challenge=a%0d%0aX:y", status: 404},
		hostilePost{name: "an endless challenge", method: "GET", query: "?hub.mode=subscribe&hub.topic={topic}&hub.challenge=" + strings.Repeat("c", 8000), status: 404},
		hostilePost{name: "no challenge", method: "GET", query: "?hub.mode=subscribe&hub.topic={topic}", status: 404},
		hostilePost{name: "a mode of its own", method: "GET", query: "?hub.mode=publish&hub.topic={topic}&hub.challenge=x", status: 404},
		hostilePost{name: "a query of nothing", method: "GET", query: "?%zz&&&===", status: 404},
		hostilePost{name: "a denial by a stranger", method: "GET", query: "?hub.mode=denied&hub.topic={topic}&hub.reason=%1b%5b31m", status: 200},
	)
}
