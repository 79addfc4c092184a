package callback_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"resyncd/destination/subscribe"
	"resyncd/destination/websub"
	"resyncd/store"
)

const atom = `<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><id>urn:a</id><entry><id>urn:b</id></entry></feed>`

// TestTopicContent: what topics of any kind bring is kept as it came, and nothing about it is malformed (S-61, S-63,
// S-65, Q-04, Q-07).
func TestTopicContent(t *testing.T) {
	t.Parallel()
	r, h, s := subscribed(t, inside(http.StatusAccepted, "lease_seconds", "86400"))
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(atom))
	_ = z.Close()
	for _, tc := range []struct {
		name, body, contentType, kept string
		headers                       []string
	}{
		{name: "Atom", body: atom, contentType: "application/atom+xml; charset=utf-8"},
		{name: "RSS", body: "<rss version='2.0'><channel/></rss>", contentType: "application/rss+xml"},
		{name: "Atom as HTML", body: atom + " ", contentType: "text/html"},
		{name: "Atom as a form", body: atom + "  ", contentType: "application/x-www-form-urlencoded"},
		{name: "no type", body: "<html></html>"},
		{name: "a type that is none", body: "{}", contentType: ";;;"},
		{name: "JSON", body: `{"version":"https://jsonfeed.org/version/1.1"}`, contentType: "application/feed+json"},
		{name: "bytes", body: "\x00\xff\xfe\x89PNG", contentType: "image/png"},
		{name: "Latin-1", body: "<?xml version='1.0' encoding='iso-8859-1'?><feed>\xe9</feed>", contentType: "text/xml; charset=iso-8859-1"},
		{name: "no XML after all", body: "<feed", contentType: "application/atom+xml"},
		{name: "a ResourceSync document", body: `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"/>`, contentType: "application/xml"},
		{name: "aggregated", body: atom + "<!--source-->", contentType: "application/atom+xml", headers: []string{"X-Hub-On-Behalf-Of", "12"}},
		{name: "another topic's links", body: atom + "<!---->", headers: []string{"Link", `<http://other.example/>; rel=self, <http://h/>; rel=hub`}},
		{name: "links that cannot be read", body: atom + "<!--l-->", headers: []string{"Link", `<`}},
		{name: "packed", body: packed.String(), kept: atom, headers: []string{"Content-Encoding", "gzip"}},
		{name: "go and look (S-69)", body: ""},
	} {
		before := len(r.inbox())
		kept := tc.kept
		if kept == "" {
			kept = tc.body
		}
		headers := tc.headers
		if tc.contentType != "" {
			headers = append(headers, "Content-Type", tc.contentType)
		}
		for _, m := range []websub.Method{websub.SHA1, websub.SHA256, websub.SHA384, websub.SHA512} {
			if got := h.deliver(m, tc.body, headers...); !slices.Equal(got, []int{http.StatusOK}) {
				t.Errorf("%s: %v", tc.name, got)
			}
		}
		all := r.inbox()
		if len(all) != before+4 {
			t.Fatalf("%s: %d kept", tc.name, len(all)-before)
		}
		d := all[len(all)-1]
		if string(d.Body) != kept || !d.Signed || d.Type != tc.contentType || d.Kind != store.ChannelFeed ||
			d.SubscriptionID != s.ID || d.SetID != r.set || d.From.Known() || d.Until.Known() {
			t.Errorf("%s: kept %+v", tc.name, d)
		}
	}
	if n := r.sub(); int(n.Delivered) != len(r.inbox()) || n.Duplicates != 0 {
		t.Errorf("counted %+v", shown(n))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if int(r.wakes.Load()) != len(r.inbox()) || len(r.rejected) > 0 {
		t.Errorf("the engine was woken %d times; rejected: %q", r.wakes.Load(), r.rejected)
	}
}

// TestTopicGoesBack: a document that comes back to what it was is news. Feeds and pages have no interval to tell a repeat
// by, and a pull may have been in between, so nothing of them is taken for one: the engine merges, which a repeat does not
// hurt (S-67).
func TestTopicGoesBack(t *testing.T) {
	t.Parallel()
	r, h, _ := subscribed(t, inside(http.StatusAccepted, "lease_seconds", "86400"))
	bodies := []string{"A", "B", "A", "A"}
	for _, b := range bodies {
		if got := h.deliver(websub.SHA256, b); !slices.Equal(got, []int{http.StatusOK}) {
			t.Fatal(got)
		}
	}
	var kept []string
	for _, d := range r.inbox() {
		kept = append(kept, string(d.Body))
	}
	if !slices.Equal(kept, bodies) || r.sub().Duplicates != 0 {
		t.Errorf("kept %q", kept)
	}
}

// TestSignatures: what a hub may get wrong (S-80 to S-86, Q-06, Q-19).
func TestSignatures(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		plan   subscribe.Plan
		sign   func(secret string) string
		status int
		signed bool
	}{
		"in upper case":                         {signed, func(k string) string { return strings.ToUpper(websub.Sign(websub.SHA1, k, []byte(atom))) }, 200, true},
		"hex in upper case":                     {signed, func(k string) string { return upperHex(websub.Sign(websub.SHA256, k, []byte(atom))) }, 200, true},
		"missing (S-81)":                        {signed, func(string) string { return "" }, 403, false},
		"with another secret (Q-19)":            {signed, func(string) string { return websub.Sign(websub.SHA256, "WSO2", []byte(atom)) }, 403, false},
		"with no secret (Q-06)":                 {signed, func(string) string { return websub.Sign(websub.SHA1, "", []byte(atom)) }, 403, false},
		"md5":                                   {signed, func(string) string { return "md5=d41d8cd98f00b204e9800998ecf8427e" }, 403, false},
		"without a method":                      {signed, func(k string) string { return websub.Sign(websub.SHA1, k, []byte(atom))[5:] }, 403, false},
		"of other bytes":                        {signed, func(k string) string { return websub.Sign(websub.SHA256, k, []byte(atom+"\n")) }, 403, false},
		"no secret sent, signed all the same":   {subscribe.Plan{}, func(string) string { return websub.Sign(websub.SHA1, "", []byte(atom)) }, 200, false},
		"no secret sent, signed with something": {subscribe.Plan{}, func(string) string { return "sha1=zz" }, 200, false},
		"no secret sent, none":                  {subscribe.Plan{}, func(string) string { return "" }, 200, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, h, s := subscribedAs(t, tc.plan, inside(http.StatusAccepted, "lease_seconds", "86400"))
			var headers []string
			if v := tc.sign(s.Secret); v != "" {
				headers = []string{websub.SignatureHeader, v}
			}
			for range 3 {
				if got := h.post(h.holds()[0], atom, headers...); got != tc.status {
					t.Errorf("answered %d, want %d", got, tc.status)
				}
			}
			kept := r.inbox()
			if tc.status == 200 && (len(kept) != 3 || kept[0].Signed != tc.signed) || tc.status != 200 && len(kept) != 0 {
				t.Errorf("kept %+v", kept)
			}
			want := 0
			if tc.status == http.StatusForbidden {
				want = 1 // of three: a hint, and a rare one
				r.await("the count", func(s store.Subscription) bool { return s.RejectedSignature == 3 })
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.doubtful != want {
				t.Errorf("%d pulls asked for, want %d (S-85)", r.doubtful, want)
			}
		})
	}
}

func upperHex(signature string) string {
	method, digits, _ := strings.Cut(signature, "=")
	return method + "=" + strings.ToUpper(digits)
}

// TestMangledCallbacks: a callback that has no query survives what hubs do to queries (S-22, S-39, Q-04, Q-05).
func TestMangledCallbacks(t *testing.T) {
	t.Parallel()
	challenges := []string{"a+b/c==", "0", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "-_~.:", strings.Repeat("x", 1024)}
	for i, join := range []string{"?", "??", "?&", "?x=1&", "?hub.verify=sync&", "?k=v?"} {
		t.Run(join, func(t *testing.T) {
			t.Parallel()
			r, h, _ := subscribed(t, func(h *hub, a ask) (int, string) {
				if !h.verifyAs(join, a.get("mode"), a, challenges[i%len(challenges)], "lease_seconds", "600", "verify_token", "t;k?&=") {
					return http.StatusConflict, ""
				}
				h.hold(a, false)
				return http.StatusNoContent, ""
			})
			cb := h.holds()[0]
			for _, to := range []string{cb, cb + "?", cb + "??hub.mode=x", cb + "?a=b&hub.topic=y;z"} {
				if got := h.post(to, atom, websub.SignatureHeader, websub.Sign(websub.SHA1, r.sub().Secret, []byte(atom))); got != http.StatusOK {
					t.Errorf("content to …%s: %d", strings.TrimPrefix(to, cb), got)
				}
			}
		})
	}
}

// TestMethods: HEAD and the like are none of ours (websub.md 10).
func TestMethods(t *testing.T) {
	t.Parallel()
	_, h, _ := subscribed(t, inside(http.StatusAccepted, "lease_seconds", "86400"))
	for _, method := range []string{http.MethodHead, http.MethodPut, http.MethodOptions, http.MethodDelete, http.MethodPatch} {
		req, err := http.NewRequest(method, h.holds()[0]+"?hub.mode=subscribe&hub.challenge=x&hub.topic="+url.QueryEscape(topic), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := h.out.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "GET, POST" {
			t.Errorf("%s: %s, Allow %q", method, resp.Status, resp.Header.Get("Allow"))
		}
	}
}

// TestOldWire: HTTP/1.0, pipelines, chunks, and bodies beyond the cap (S-60, S-69).
func TestOldWire(t *testing.T) {
	t.Parallel()
	r, h, s := subscribed(t, inside(http.StatusAccepted, "lease_seconds", "86400"))
	u, err := url.Parse(h.holds()[0])
	if err != nil {
		t.Fatal(err)
	}
	head := func(version string, more string) string {
		return "POST " + u.Path + " HTTP/" + version + "\r\nHost: " + u.Host + "\r\n" + more +
			websub.SignatureHeader + ": " + websub.Sign(websub.SHA1, s.Secret, []byte("news")) + "\r\n"
	}
	whole := "Content-Length: 4\r\n\r\nnews"
	verification := "GET " + u.Path + "?hub.mode=subscribe&hub.challenge=c&hub.topic=" + url.QueryEscape(topic) + " HTTP/1.1\r\nHost: h\r\n\r\n"
	for name, tc := range map[string]struct {
		wire string
		want []int
	}{
		"HTTP/1.0":             {head("1.0", "") + whole, []int{200}},
		"HTTP/1.0, keep-alive": {head("1.0", "Connection: keep-alive\r\n") + whole + head("1.0", "") + whole, []int{200, 200}},
		"a pipeline":           {head("1.1", "") + whole + verification + head("1.1", "") + whole + head("1.1", "") + whole, []int{200, 200, 200, 200}},
		"chunks":               {head("1.1", "") + "Transfer-Encoding: chunked\r\n\r\n2\r\nne\r\n2;x=y\r\nws\r\n0\r\nX: y\r\n\r\n", []int{200}},
		"too large":            {head("1.1", "") + "Content-Length: 2000000\r\n\r\n" + strings.Repeat("x", 2_000_000), []int{413}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := exchange(t, u.Host, tc.wire, len(tc.want)); !slices.Equal(got, tc.want) {
				t.Errorf("answered %v, want %v", got, tc.want)
			}
		})
	}
	r.eventually("a pull for what was too large", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.large == 1 })
	if n := len(r.inbox()); n != 7 {
		t.Errorf("%d deliveries kept", n)
	}
}

// exchange sends bytes and reads n answers.
func exchange(t *testing.T, addr, wire string, n int) (statuses []int) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, wire); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	for range n {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(fmt.Errorf("after %v: %w", statuses, err))
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		statuses = append(statuses, resp.StatusCode)
	}
	return statuses
}
