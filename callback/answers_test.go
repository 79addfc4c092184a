package callback

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"resyncd/destination/websub"
	"resyncd/store"
)

// query is that of a verification.
func query(mode, topic, challenge string, more ...string) string {
	q := url.Values{"hub.mode": {mode}, "hub.topic": {topic}, "hub.challenge": {challenge}}
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	return "?" + q.Encode()
}

// TestAnswers is the table of websub.md section 10, and the rules that it sums up.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const good = "aZ0-._~+/=:"
	next := change("2026-01-01T00:00:10Z", "2026-01-01T00:00:20Z")
	for name, tc := range map[string]struct {
		method, path, body string
		headers            []string
		unwanted           websub.Mode
		keeper             error // what it fails with
		store              func(*fakeStore)
		notReady           bool

		status int
		answer string // "" of a 200; others are not compared
	}{
		"subscribe":                         {method: "GET", path: tokenOf + query("subscribe", topic, good, "hub.lease_seconds", "864000"), status: 200, answer: good},
		"unsubscribe":                       {method: "GET", path: tokenOf + query("unsubscribe", topic, good), status: 200, answer: good},
		"while our own POST is open (S-36)": {method: "GET", path: "pending-token" + query("subscribe", topic, good), status: 200, answer: good},
		"joined with a second ? (S-22)":     {method: "GET", path: tokenOf + "?" + query("subscribe", topic, good), status: 200, answer: good},
		"a 0.3 hub (Q-04)":                  {method: "GET", path: tokenOf + query("subscribe", topic, good, "hub.verify_token", "x"), status: 200, answer: good},
		"unwanted":                          {method: "GET", path: tokenOf + query("subscribe", topic, good), unwanted: websub.ModeSubscribe, status: 404},
		"unasked unsubscribe (S-93)":        {method: "GET", path: tokenOf + query("unsubscribe", topic, good), unwanted: websub.ModeUnsubscribe, status: 404},
		"tombstone, subscribe (S-92)":       {method: "GET", path: "gone-token" + query("subscribe", topic, good), status: 404},
		"tombstone, unsubscribe (S-92)":     {method: "GET", path: "gone-token" + query("unsubscribe", topic, good), status: 200, answer: good},
		"another topic":                     {method: "GET", path: tokenOf + query("subscribe", topic+"/", good), status: 404},
		"topic escaped twice (S-39)":        {method: "GET", path: tokenOf + query("subscribe", url.QueryEscape(topic), good), status: 404},
		"no topic":                          {method: "GET", path: tokenOf + query("subscribe", "", good), status: 404},
		"unknown token, verification":       {method: "GET", path: "nobody" + query("subscribe", topic, good), status: 404},
		"no query":                          {method: "GET", path: tokenOf, status: 404},
		"unknown mode":                      {method: "GET", path: tokenOf + query("hello", topic, good), status: 404},
		"publish is no hub's mode":          {method: "GET", path: tokenOf + query("publish", topic, good), status: 404},
		"no challenge":                      {method: "GET", path: tokenOf + query("subscribe", topic, ""), status: 404},
		"script (S-34)":                     {method: "GET", path: tokenOf + query("subscribe", topic, "<script>alert(1)</script>"), status: 404},
		"header splitting (S-34)":           {method: "GET", path: tokenOf + query("subscribe", topic, "a\r\nSet-Cookie: x"), status: 404},
		"quote (S-34)":                      {method: "GET", path: tokenOf + query("subscribe", topic, `a"b`), status: 404},
		"longest challenge":                 {method: "GET", path: tokenOf + query("subscribe", topic, strings.Repeat("a", 1024)), status: 200, answer: strings.Repeat("a", 1024)},
		"too long a challenge (S-34)":       {method: "GET", path: tokenOf + query("subscribe", topic, strings.Repeat("a", 1025)), status: 404},
		"the keeper fails":                  {method: "GET", path: tokenOf + query("subscribe", topic, good), keeper: errors.New("disk"), status: 503},
		"the keeper finds nothing":          {method: "GET", path: tokenOf + query("subscribe", topic, good), keeper: store.ErrNotFound, status: 404},
		"the store fails":                   {method: "GET", path: tokenOf + query("subscribe", topic, good), store: func(f *fakeStore) { f.failing = errors.New("disk") }, status: 503},

		"denied":                       {method: "GET", path: tokenOf + query("denied", topic, "", "hub.reason", "no"), status: 200},
		"denied, another topic":        {method: "GET", path: tokenOf + query("denied", topic+"x", "", "hub.reason", "no"), status: 404},
		"denied, unknown token (S-41)": {method: "GET", path: "nobody" + query("denied", topic, ""), status: 404},
		"denied, tombstone":            {method: "GET", path: "gone-token" + query("denied", topic, ""), status: 200},
		"denied, the keeper fails":     {method: "GET", path: tokenOf + query("denied", topic, ""), keeper: errors.New("disk"), status: 503},

		"content":                        {method: "POST", path: tokenOf, body: next, headers: []string{"X-Hub-Signature", sign(next)}, status: 200},
		"content, with a query":          {method: "POST", path: tokenOf + "?a=b&hub.mode=denied", body: next, headers: []string{"X-Hub-Signature", sign(next)}, status: 200},
		"content, sha1 (S-83)":           {method: "POST", path: tokenOf, body: next, headers: []string{"X-Hub-Signature", websub.Sign(websub.SHA1, secret, []byte(next))}, status: 200},
		"content, sha512, upper (F28)":   {method: "POST", path: tokenOf, body: next, headers: []string{"X-Hub-Signature", strings.ToUpper(websub.Sign(websub.SHA512, secret, []byte(next)))}, status: 200},
		"content, not verified (S-70)":   {method: "POST", path: "pending-token", body: next, headers: []string{"X-Hub-Signature", sign(next)}, status: 200},
		"content, form type":             {method: "POST", path: tokenOf, body: next, headers: []string{"X-Hub-Signature", sign(next), "Content-Type", "application/x-www-form-urlencoded"}, status: 200},
		"content, second signature":      {method: "POST", path: tokenOf, body: next, headers: []string{"X-Hub-Signature", "sha3=00", "X-Hub-Signature", sign(next)}, status: 200},
		"unsigned, none required (S-87)": {method: "POST", path: "unsigned-token", body: next, status: 200},
		"signed, none required (S-86)":   {method: "POST", path: "unsigned-token", body: next, headers: []string{"X-Hub-Signature", "sha1=00"}, status: 200},
		"garbage, signed (S-61)":         {method: "POST", path: tokenOf, body: "garbage", headers: []string{"X-Hub-Signature", sign("garbage")}, status: 200},
		"empty, signed (S-69)":           {method: "POST", path: tokenOf, headers: []string{"X-Hub-Signature", sign("")}, status: 200},
		"empty, none required (S-69)":    {method: "POST", path: "unsigned-token", status: 200},
		"empty, unsigned":                {method: "POST", path: tokenOf, status: 403},
		"signature missing (S-81)":       {method: "POST", path: tokenOf, body: next, status: 403},
		"signature wrong":                {method: "POST", path: tokenOf, body: next, headers: []string{"X-Hub-Signature", sign(next + " ")}, status: 403},
		"another secret":                 {method: "POST", path: tokenOf, body: next, headers: []string{"X-Hub-Signature", websub.Sign(websub.SHA256, "x", []byte(next))}, status: 403},
		"signature cut (S-82)":           {method: "POST", path: tokenOf, body: next, headers: []string{"X-Hub-Signature", sign(next)[:60]}, status: 403},
		"signature of another method":    {method: "POST", path: tokenOf, body: next, headers: []string{"X-Hub-Signature", strings.Replace(sign(next), "sha256", "md5", 1)}, status: 403},
		"no hex":                         {method: "POST", path: tokenOf, body: next, headers: []string{"X-Hub-Signature", "sha256=" + strings.Repeat("zz", 32)}, status: 403},
		"tombstone (S-68)":               {method: "POST", path: "gone-token", body: next, headers: []string{"X-Hub-Signature", sign(next)}, status: 410},
		"switched off (S-92)":            {method: "POST", path: "off-token", body: next, headers: []string{"X-Hub-Signature", sign(next)}, status: 410},
		"being switched off":             {method: "POST", path: "leaving-token", body: next, headers: []string{"X-Hub-Signature", sign(next)}, status: 200},
		"switched off, unsubscribe":      {method: "GET", path: "off-token" + query("unsubscribe", topic, good), status: 200, answer: good},
		"unknown token":                  {method: "POST", path: "nobody", body: next, headers: []string{"X-Hub-Signature", sign(next)}, status: 404},
		"token in another case":          {method: "POST", path: strings.ToLower(tokenOf), body: next, headers: []string{"X-Hub-Signature", sign(next)}, status: 404},
		"too large (S-69)":               {method: "POST", path: tokenOf, body: strings.Repeat("x", 70_000), status: 413},
		"as large as allowed":            {method: "POST", path: tokenOf, body: strings.Repeat("x", 64<<10), headers: []string{"X-Hub-Signature", sign(strings.Repeat("x", 64<<10))}, status: 200},
		"the store is full (F7)":         {method: "POST", path: tokenOf, body: next, headers: []string{"X-Hub-Signature", sign(next)}, store: func(f *fakeStore) { f.deliver = func([]*store.Delivery) error { return store.ErrFull } }, status: 503},
		"the store panics (F5)":          {method: "POST", path: tokenOf, body: next, headers: []string{"X-Hub-Signature", sign(next)}, store: func(f *fakeStore) { f.deliver = func([]*store.Delivery) error { panic("bug") } }, status: 503},
		"lookups fail":                   {method: "POST", path: tokenOf, body: next, headers: []string{"X-Hub-Signature", sign(next)}, store: func(f *fakeStore) { f.failing = errors.New("disk") }, status: 503},

		"not ready, verification":      {method: "GET", path: tokenOf + query("subscribe", topic, good), notReady: true, status: 503},
		"not ready, content":           {method: "POST", path: tokenOf, body: next, headers: []string{"X-Hub-Signature", sign(next)}, notReady: true, status: 503},
		"not ready, unknown token":     {method: "POST", path: "nobody", notReady: true, status: 503},
		"not ready, tombstone (S-68)":  {method: "POST", path: "gone-token", notReady: true, status: 503},
		"PUT":                          {method: "PUT", path: tokenOf, body: next, status: 405},
		"HEAD is another method":       {method: "HEAD", path: tokenOf + query("subscribe", topic, good), status: 405},
		"OPTIONS":                      {method: "OPTIONS", path: tokenOf, status: 405},
		"DELETE, unknown token":        {method: "DELETE", path: "nobody", status: 405},
		"GET in lower case":            {method: "get", path: tokenOf + query("subscribe", topic, good), status: 405},
		"base path":                    {method: "GET", path: "", status: 404},
		"below the token":              {method: "POST", path: tokenOf + "/", body: next, headers: []string{"X-Hub-Signature", sign(next)}, status: 404},
		"two slashes":                  {method: "POST", path: "/" + tokenOf, body: next, headers: []string{"X-Hub-Signature", sign(next)}, status: 404},
		"dots":                         {method: "POST", path: "x/../" + tokenOf, body: next, headers: []string{"X-Hub-Signature", sign(next)}, status: 404},
		"escaped":                      {method: "POST", path: "%61" + tokenOf[1:], body: next, headers: []string{"X-Hub-Signature", sign(next)}, status: 404},
		"elsewhere":                    {method: "GET", path: "../other/" + tokenOf, status: 404},
		"elsewhere, by another method": {method: "PUT", path: "../", status: 404},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(o *Options) { o.MaxBody = 64 << 10 })
			s.keeper.unwanted, s.keeper.err = tc.unwanted, tc.keeper
			if tc.store != nil {
				tc.store(s.store)
			}
			s.SetReady(!tc.notReady)
			resp, got := ask(t, client(t), tc.method, s.base+tc.path, tc.body, tc.headers...)
			if resp.StatusCode != tc.status {
				t.Fatalf("answered %s, want %d", resp.Status, tc.status)
			}
			checkAnswer(t, resp, got, tc.answer)
			kept := len(s.store.deliveries())
			if want := tc.method == "POST" && tc.status == 200; (kept == 1) != want || kept > 1 {
				t.Errorf("%d deliveries kept", kept)
			}
			if tc.status != 200 && len(s.keeper.denied) > 0 && tc.keeper == nil {
				t.Error("the keeper was told of a denial")
			}
			asked := len(s.keeper.verified) > 0
			if want := tc.method == "GET" && (tc.status == 200 || tc.unwanted != "" || tc.keeper != nil) && !strings.Contains(tc.path, "denied") && !strings.Contains(tc.path, "gone-"); asked != want {
				t.Errorf("the keeper was asked: %v", asked)
			}
		})
	}
}

// checkAnswer checks what all answers have in common.
func checkAnswer(t *testing.T, resp *http.Response, got, want string) {
	t.Helper()
	h := resp.Header
	if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" || h.Get("Content-Security-Policy") != "default-src 'none'" {
		t.Errorf("headers: %v", h)
	}
	if resp.StatusCode == 200 {
		if got != want || resp.ContentLength != int64(len(want)) {
			t.Errorf("body %q (length %d), want %q", got, resp.ContentLength, want)
		}
		if want != "" && h.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("Content-Type %q", h.Get("Content-Type"))
		}
		return
	}
	if resp.Request.Method != http.MethodHead && got != http.StatusText(resp.StatusCode)+"\n" {
		t.Errorf("body %q", got)
	}
	if (h.Get("Retry-After") != "") != (resp.StatusCode == 503) {
		t.Errorf("Retry-After %q", h.Get("Retry-After"))
	}
	if (h.Get("Allow") == "GET, POST") != (resp.StatusCode == 405) {
		t.Errorf("Allow %q", h.Get("Allow"))
	}
}

// TestNoOracle: all that is not there looks the same, to the byte.
func TestNoOracle(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	c := client(t)
	var first string
	for _, url := range []string{
		s.base + "nobody", s.base + tokenOf, s.base + tokenOf + query("subscribe", "http://other/", "abc"), s.base + "gone-token" + query("subscribe", topic, "abc"),
		s.base, s.base + "a/b", s.base + "%00", s.base + strings.Repeat("a", 300), "http://" + s.addr + "/", "http://" + s.addr + "/favicon.ico",
	} {
		resp, body := ask(t, c, "GET", url, "")
		resp.Header.Del("Date")
		var b strings.Builder
		b.WriteString(resp.Status + "\n")
		_ = resp.Header.Write(&b)
		b.WriteString(body)
		if first == "" {
			first = b.String()
		}
		if b.String() != first || resp.StatusCode != 404 {
			t.Errorf("%s: %q, another one %q", url, b.String(), first)
		}
	}
}

func TestKeeperHears(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	c := client(t)
	ask(t, c, "GET", s.base+tokenOf+query("subscribe", topic, "abc", "hub.lease_seconds", "300"), "")
	ask(t, c, "GET", s.base+tokenOf+query("denied", topic, "", "hub.reason", "not here"), "")
	if v := s.keeper.verified; len(v) != 1 || v[0].Lease != 300 || v[0].Mode != websub.ModeSubscribe {
		t.Errorf("verified %+v", v)
	}
	if d := s.keeper.denied; len(d) != 1 || d[0] != "not here" {
		t.Errorf("denied %q", d)
	}
}
