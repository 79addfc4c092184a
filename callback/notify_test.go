package callback

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/websub"
	"resyncd/store"
)

func gzipped(t testing.TB, s string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func instant(t *testing.T, s string) store.Micros {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return store.MicrosOf(at)
}

// TestDelivered: what is kept of a notification.
func TestDelivered(t *testing.T) {
	t.Parallel()
	const (
		early, at, late = "2026-01-01T00:00:05Z", "2026-01-01T00:00:10Z", "2026-01-01T00:00:20Z"
		later           = "2026-01-01T00:00:30Z"
	)
	next := change(at, late)
	as := func(kind string) string { return strings.Replace(next, "change-notification", kind, 1) }
	for name, tc := range map[string]struct {
		token, body string
		unsigned    bool
		from, until string
		malformed   bool
	}{
		"next":                            {body: next, from: at, until: late},
		"stale":                           {body: change(early, at), from: early, until: at},
		"gap":                             {body: change(late, later), from: late, until: later},
		"from after until (F39)":          {body: change(later, late), from: later, until: late},
		"no until (F39)":                  {body: strings.Replace(next, `until="`+late+`"`, "", 1), from: at},
		"unreadable from (F39)":           {body: strings.Replace(next, `from="`+at+`"`, `from="yesterday"`, 1), until: late},
		"without entries (F44)":           {body: next[:strings.Index(next, "<url>")] + "</urlset>", from: at, until: late},
		"changelist (R-07)":               {body: as("changelist"), from: at, until: late},
		"no capability (S-65)":            {body: strings.Replace(next, `capability="change-notification"`, "", 1), from: at, until: late},
		"unsigned (S-87)":                 {token: "unsigned-token", unsigned: true, body: next, from: at, until: late},
		"framework":                       {token: "framework-token", body: as("framework-notification"), from: at, until: late},
		"framework on the change channel": {body: as("framework-notification"), malformed: true},
		"change on the framework channel": {token: "framework-token", body: next, malformed: true},
		"resource list":                   {body: as("resourcelist"), malformed: true},
		"index (R-06)":                    {body: strings.ReplaceAll(next, "urlset", "sitemapindex"), malformed: true},
		"HTML (F58)":                      {body: "<!DOCTYPE html><html><body>Not found</body></html>", malformed: true},
		"JSON":                            {body: `{"a":1}`, malformed: true},
		"UTF-16":                          {body: "\xff\xfe<\x00", malformed: true},
		"cut in its head":                 {body: next[:100], malformed: true},
		"cut behind its head":             {body: next[:len(next)-20], from: at, until: late},
		"entities":                        {body: `<!DOCTYPE x [<!ENTITY a "b">]>` + next, malformed: true},
		"feed":                            {token: "feed-token", body: "<feed/>"},
		"empty (S-69)":                    {body: ""},
		"packed":                          {body: gzipped(t, next), from: at, until: late},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC)
			s := serve(t, func(o *Options) { o.Now = func() time.Time { return now } })
			if tc.token == "" {
				tc.token = tokenOf
			}
			headers := []string{"Content-Type", "text/html; charset=x"} // no matter (S-65)
			if !tc.unsigned {
				headers = append(headers, "X-Hub-Signature", sign(tc.body))
			}
			if resp, _ := ask(t, client(t), "POST", s.base+tc.token, tc.body, headers...); resp.StatusCode != 200 {
				t.Fatal(resp.Status)
			}
			sub := s.store.subs[tc.token]
			want := store.Delivery{
				SubscriptionID: sub.ID, SourceID: sub.SourceID, SetID: sub.SetID, Kind: sub.Kind, Received: store.MicrosOf(now),
				Signed: !tc.unsigned, Digest: sha256.Sum256([]byte(tc.body)), Type: "text/html; charset=x",
				From: store.NoTime, Until: store.NoTime, Body: []byte(tc.body),
			}
			if tc.from != "" {
				want.From = instant(t, tc.from)
			}
			if tc.until != "" {
				want.Until = instant(t, tc.until)
			}
			if diff := cmp.Diff([]store.Delivery{want}, s.store.deliveries()); diff != "" {
				t.Error(diff)
			}
			var malformed int64
			if tc.malformed {
				malformed = 1
			}
			if tc.malformed {
				eventually(t, "the tally", func() bool { return s.store.tally(sub.ID).RejectedMalformed == malformed })
			}
		})
	}
}

// TestCodings: S-84. Signatures are over the raw bytes, or else over the decoded ones; what is kept is decoded.
func TestCodings(t *testing.T) {
	t.Parallel()
	next := change("2026-01-01T00:00:10Z", "2026-01-01T00:00:20Z")
	packed := gzipped(t, next)
	var deflated bytes.Buffer
	z := zlib.NewWriter(&deflated)
	_, _ = z.Write([]byte(next))
	_ = z.Close()
	bomb := gzipped(t, strings.Repeat(" ", 9<<20))
	for name, tc := range map[string]struct {
		coding, body, signature string
		status                  int
		kept                    string
	}{
		"signed raw":                       {"gzip", packed, sign(packed), 200, next},
		"signed decoded":                   {"gzip", packed, sign(next), 200, next},
		"x-gzip":                           {"X-GZip", packed, sign(packed), 200, next},
		"deflate":                          {"deflate", deflated.String(), sign(deflated.String()), 200, next},
		"identity":                         {"identity", next, sign(next), 200, next},
		"forged":                           {"gzip", packed, sign("x"), 403, ""},
		"unsigned":                         {"gzip", packed, "", 403, ""},
		"unknown coding, signed raw":       {"br", next, sign(next), 200, next},
		"unknown coding, forged":           {"br", next, sign("x"), 403, ""},
		"coding is a lie, signed":          {"gzip", next, sign(next), 200, next},
		"coding is a lie, forged":          {"gzip", next, sign("x"), 403, ""},
		"cut, signed raw":                  {"gzip", packed[:len(packed)-9], sign(packed[:len(packed)-9]), 200, packed[:len(packed)-9]},
		"cut, signed decoded":              {"gzip", packed[:len(packed)-9], sign(next), 403, ""},
		"bomb, signed":                     {"gzip", bomb, sign(bomb), 413, ""},
		"bomb, forged":                     {"gzip", bomb, sign("x"), 403, ""},
		"twice packed":                     {"gzip, gzip", gzipped(t, packed), sign(gzipped(t, packed)), 200, gzipped(t, packed)},
		"empty, said to be packed, signed": {"gzip", "", sign(""), 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil)
			resp, _ := ask(t, client(t), "POST", s.base+tokenOf, tc.body, "Content-Encoding", tc.coding, "X-Hub-Signature", tc.signature)
			if resp.StatusCode != tc.status {
				t.Fatal(resp.Status)
			}
			kept := s.store.deliveries()
			if tc.status != 200 {
				if len(kept) > 0 {
					t.Error("kept")
				}
				return
			}
			if len(kept) != 1 || string(kept[0].Body) != tc.kept || kept[0].Digest != sha256.Sum256([]byte(tc.kept)) || !kept[0].Signed {
				t.Errorf("kept %+v", kept)
			}
		})
	}
	// Where no signature is required the decoding is the same.
	s := serve(t, nil)
	resp, _ := ask(t, client(t), "POST", s.base+"unsigned-token", packed, "Content-Encoding", "gzip")
	if kept := s.store.deliveries(); resp.StatusCode != 200 || len(kept) != 1 || string(kept[0].Body) != next {
		t.Errorf("%s, kept %+v", resp.Status, kept)
	}
}

// TestDecodeRatio: a body may not grow beyond all measure, even below MaxBody.
func TestDecodeRatio(t *testing.T) {
	t.Parallel()
	m := newMemoryLimit(1 << 40)
	raw := []byte(gzipped(t, strings.Repeat(" ", 4<<20)))
	if _, err := decode("gzip", raw, 1<<30, m.reserve(1)); err != errTooLarge { //nolint:errorlint // exactly
		t.Error(err)
	}
	if b, err := decode("gzip", []byte(gzipped(t, strings.Repeat(" ", 1<<20))), 1<<30, m.reserve(1)); err != nil || len(b) != 1<<20 {
		t.Error(len(b), err)
	}
}

// TestWeakest: the operator may forbid weak methods (S-83).
func TestWeakest(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *Options) {
		o.Weakest = func(source int64) websub.Method {
			if source == 11 {
				return websub.SHA384
			}
			return websub.MethodNone
		}
	})
	next := change("2026-01-01T00:00:10Z", "2026-01-01T00:00:20Z")
	for m, status := range map[websub.Method]int{websub.SHA1: 403, websub.SHA256: 403, websub.SHA384: 200, websub.SHA512: 200} {
		resp, _ := ask(t, client(t), "POST", s.base+tokenOf, next, "X-Hub-Signature", websub.Sign(m, secret, []byte(next)))
		if resp.StatusCode != status {
			t.Errorf("%v: %s", m, resp.Status)
		}
	}
}

// TestForgeryFlood: forgeries change nothing but a counter, and cost few writes (S-85).
func TestForgeryFlood(t *testing.T) {
	t.Parallel()
	var pulls int
	s := serve(t, func(o *Options) {
		o.MaxBody = 1000
		o.TooLarge = func(source, set int64) {
			pulls++
			if source != 11 || set != 101 {
				t.Errorf("pull of %d, %d", source, set)
			}
		}
	})
	c := client(t)
	for range 50 {
		if resp, _ := ask(t, c, "POST", s.base+tokenOf, "x", "X-Hub-Signature", sign("y")); resp.StatusCode != 403 {
			t.Fatal(resp.Status)
		}
		if resp, _ := ask(t, c, "POST", s.base+tokenOf, strings.Repeat("x", 1001)); resp.StatusCode != 413 {
			t.Fatal(resp.Status)
		}
	}
	eventually(t, "the tally", func() bool { return s.store.tally(1) == store.Tally{RejectedSignature: 50, RejectedTooLarge: 50} })
	if pulls == 0 || pulls > 5 {
		t.Errorf("asked for a pull %d times", pulls)
	}
	if len(s.store.deliveries()) > 0 {
		t.Error("something was kept")
	}
	if n := s.store.lookups; n > 1 {
		t.Errorf("the store was asked for one subscription %d times", n)
	}
	if n := s.counts.get(); n["11 signature"] != 50 || n["11 too_large"] != 50 {
		t.Errorf("observed %v", n)
	}
}

// TestDuplicates: 2xx and nothing more (F29, F35).
func TestDuplicates(t *testing.T) {
	t.Parallel()
	wakes := make(chan int64, 100)
	s := serve(t, func(o *Options) { o.Wake = func(source int64) { wakes <- source } })
	next := change("2026-01-01T00:00:10Z", "2026-01-01T00:00:20Z")
	for range 5 {
		if resp, _ := ask(t, client(t), "POST", s.base+tokenOf, next, "X-Hub-Signature", sign(next)); resp.StatusCode != 200 {
			t.Fatal(resp.Status)
		}
	}
	if n := len(s.store.deliveries()); n != 1 || len(wakes) != 1 || <-wakes != 11 {
		t.Errorf("%d kept, woken %d times more", n, len(wakes))
	}
	if n := s.counts.get(); n["11 delivered"] != 1 || n["11 duplicate"] != 4 || n["acknowledged"] != 5 {
		t.Errorf("observed %v", n)
	}
}

// TestMoved: a self link that is not the topic is a hint, given now and then, and never by an unsigned request (S-64).
func TestMoved(t *testing.T) {
	t.Parallel()
	var moved []string
	s := serve(t, func(o *Options) {
		o.Moved = func(sub store.Subscription, self string) { moved = append(moved, sub.Topic+" "+self) }
	})
	c := client(t)
	post := func(link, signature string) {
		ask(t, c, "POST", s.base+tokenOf, "x", "X-Hub-Signature", signature, "Link", link)
	}
	post(`<http://source.example/new>; rel="self"`, sign("forged"))
	post(`<`+topic+`>; rel="self", <http://hub.example/>; rel="hub"`, sign("x"))
	post(`<http://hub.example/>; rel="hub"`, sign("x"))
	post(`<http://source.example/new>; rel="self"`, sign("x"))
	post(`<http://source.example/newer>; rel="self"`, sign("x"))
	if len(moved) != 1 || moved[0] != topic+" http://source.example/new" {
		t.Errorf("moved %q", moved)
	}
}

// TestDoubtful: what comes without its signature may be news from a hub that knows no secrets. That is a hint to pull, once
// a minute for each subscription, and nothing else (S-85, Q-04).
func TestDoubtful(t *testing.T) {
	t.Parallel()
	var hints []int64
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := serve(t, func(o *Options) {
		o.Doubtful = func(source, set int64) { hints = append(hints, source, set) }
		o.Now = func() time.Time { return now }
	})
	c := client(t)
	for _, step := range []struct {
		token, body, signature string
		later                  time.Duration
		status                 int
		hints                  []int64
	}{
		{tokenOf, "x", sign("x"), 0, 200, nil},
		{"unsigned-token", "x", "", 0, 200, nil},
		{"gone-token", "x", "", 0, 410, nil},
		{"nobody", "x", "", 0, 404, nil},
		{tokenOf, "x", "", 0, 403, []int64{11, 101}},
		{tokenOf, "y", sign("x"), 59 * time.Second, 403, nil},
		{"feed-token", "x", "sha1=00", 0, 403, []int64{15, 105}},
		{tokenOf, "x", "", time.Second, 403, []int64{11, 101}},
		{tokenOf, "", "", 0, 403, nil},
	} {
		now, hints = now.Add(step.later), nil
		resp, _ := ask(t, c, "POST", s.base+step.token, step.body, "X-Hub-Signature", step.signature)
		if resp.StatusCode != step.status || !slices.Equal(hints, step.hints) {
			t.Errorf("%+v: %s, hints %v", step, resp.Status, hints)
		}
	}
}

// TestChanged: a subscription is remembered for a moment, and forgotten when it changes.
func TestChanged(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	c := client(t)
	post := func() int {
		resp, _ := ask(t, c, "POST", s.base+tokenOf, "x", "X-Hub-Signature", sign("x"))
		return resp.StatusCode
	}
	if got := post(); got != 200 {
		t.Fatal(got)
	}
	var sub store.Subscription
	s.store.set(func(f *fakeStore) {
		sub = f.subs[tokenOf]
		sub.State = store.SubGone
		f.subs[tokenOf] = sub
	})
	if got := post(); got != 200 { // a moment ago it was there
		t.Fatal(got)
	}
	s.Changed(sub)
	if got := post(); got != http.StatusGone {
		t.Fatal(got)
	}
	// A verification never meets what was remembered.
	s.store.set(func(f *fakeStore) { sub.State = store.SubActive; f.subs[tokenOf] = sub })
	if resp, _ := ask(t, c, "GET", s.base+tokenOf+query("subscribe", topic, "abc"), ""); resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
}

// TestChangedMeanwhile: what was read before a change is not remembered after it.
func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	sub := s.store.subs[tokenOf]
	s.store.looking = func() {
		s.store.looking = nil
		sub.State = store.SubGone
		s.store.set(func(f *fakeStore) { f.subs[tokenOf] = sub })
		s.Changed(sub)
	}
	s.post(tokenOf, "x")
	if w := s.post(tokenOf, "y"); w.Code != http.StatusGone {
		t.Error(w.Code)
	}
}

// TestUnknownTokensCostNoMemory: only subscriptions that exist are remembered, and those are bounded.
func TestUnknownTokensCostNoMemory(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	for n := range 1000 {
		s.post(fmt.Sprint("nobody", n), "x")
	}
	s.post(tokenOf, "x")
	if n := len(s.subs.known); n != 1 {
		t.Errorf("%d remembered", n)
	}
	s.store.set(func(f *fakeStore) {
		for n := range maxKnown + 10 {
			f.subs[fmt.Sprint("token", n)] = store.Subscription{ID: int64(n + 100), Token: fmt.Sprint("token", n)}
		}
	})
	for n := range maxKnown + 10 {
		if _, err := s.subs.find(t.Context(), fmt.Sprint("token", n)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.subs.known); n > maxKnown {
		t.Errorf("%d remembered", n)
	}
}
