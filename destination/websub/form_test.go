package websub

import (
	"math"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"resyncd/destination/fuzztest"
)

func TestEncodeHubForm(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		form HubForm
		want string
	}{
		"all":         {HubForm{Mode: ModeSubscribe, Callback: "https://d/cb/T?a=1", Topic: "http://t/?x=é", Secret: "s cret&", Lease: 864000, Verify: "sync"}, "hub.callback=https%3A%2F%2Fd%2Fcb%2FT%3Fa%3D1&hub.mode=subscribe&hub.topic=http%3A%2F%2Ft%2F%3Fx%3D%C3%A9&hub.lease_seconds=864000&hub.secret=s%20cret%26&hub.verify=sync"},
		"least":       {HubForm{Mode: ModeSubscribe, Callback: "c", Topic: "t"}, "hub.callback=c&hub.mode=subscribe&hub.topic=t"},
		"no lease":    {HubForm{Mode: ModeSubscribe, Callback: "c", Topic: "t", Lease: -1, Secret: "s"}, "hub.callback=c&hub.mode=subscribe&hub.topic=t&hub.secret=s"},
		"unsubscribe": {HubForm{Mode: ModeUnsubscribe, Callback: "c", Topic: "t", Secret: "secret", Lease: 5}, "hub.callback=c&hub.mode=unsubscribe&hub.topic=t"},
	} {
		if got := string(tc.form.Encode()); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, tc.want)
		}
	}
}

// What a subscriber writes a hub reads, ours and any that decodes forms by the book; nothing is ever sent empty.
func TestFormLaw(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := HubForm{
			Mode:     rapid.SampledFrom([]Mode{ModeSubscribe, ModeUnsubscribe}).Draw(t, "mode"),
			Callback: "https://d/" + url.PathEscape(rapid.String().Draw(t, "callback")),
			Topic:    "http://t/?" + url.QueryEscape(rapid.String().Draw(t, "topic")) + rapid.SampledFrom([]string{"", ";a=b", "&c=+"}).Draw(t, "tail"),
			Secret:   rapid.StringN(0, 60, 199).Draw(t, "secret"),
			Lease:    rapid.Int64().Draw(t, "lease"),
			Verify:   rapid.SampledFrom([]string{"", "sync", "async"}).Draw(t, "verify"),
		}
		body := in.Encode()
		std, err := url.ParseQuery(string(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range std {
			if len(v) != 1 || v[0] == "" {
				t.Fatalf("%s: %q", name, v)
			}
		}
		want := HubForm{Mode: in.Mode, Callback: in.Callback, Topic: in.Topic, Verify: in.Verify}
		if in.Mode == ModeSubscribe {
			want.Secret, want.Lease = in.Secret, max(in.Lease, 0)
		}
		got, err := ParseHubForm(body)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Fatalf("%v (-want +got):\n%s", err, d)
		}
	})
}

func TestParseHubForm(t *testing.T) {
	t.Parallel()
	const pair = "hub.callback=http://s/cb?a=1;b&hub.topic=https://t/"
	base := HubForm{Mode: ModeSubscribe, Callback: "http://s/cb?a=1;b", Topic: "https://t/"}
	with := func(change func(*HubForm)) HubForm { f := base; change(&f); return f }
	for name, tc := range map[string]struct {
		body string
		want HubForm
	}{
		"least":              {pair + "&hub.mode=subscribe", base},
		"unknown parameters": {pair + "&hub.mode=subscribe&hub.x=1&foo=%zz&hub.Secret=x", base},
		"all":                {pair + "&hub.mode=subscribe&hub.secret=s%26+t&hub.lease_seconds=60&hub.verify=sync&hub.verify_token=v", with(func(f *HubForm) { f.Secret, f.Lease, f.Verify, f.VerifyToken = "s& t", 60, "sync", "v" })},
		"empty secret":       {pair + "&hub.mode=subscribe&hub.secret=", base},
		"longest secret":     {pair + "&hub.mode=subscribe&hub.secret=" + strings.Repeat("x", 199), with(func(f *HubForm) { f.Secret = strings.Repeat("x", 199) })},
		"huge lease":         {pair + "&hub.mode=subscribe&hub.lease_seconds=1" + strings.Repeat("0", 30), with(func(f *HubForm) { f.Lease = math.MaxInt64 })},
		"0.3, unknown first": {pair + "&hub.mode=subscribe&hub.verify=carrier-pigeon&hub.verify=ASYNC&hub.verify=sync", with(func(f *HubForm) { f.Verify = "async" })},
		"0.3, a list":        {pair + "&hub.mode=subscribe&hub.verify=x, sync,async&hub.lease_seconds=", with(func(f *HubForm) { f.Verify = "sync" })},
		"0.3, none known":    {pair + "&hub.mode=subscribe&hub.verify=&hub.lease_seconds=", base},
		"unsubscribe":        {pair + "&hub.mode=unsubscribe&hub.lease_seconds=never&hub.secret=" + strings.Repeat("x", 300), with(func(f *HubForm) { f.Mode = ModeUnsubscribe })},
		"first wins":         {pair + "&hub.mode=subscribe&hub.callback=http://o/&hub.mode=publish", base},
		"publish, 0.3":       {"hub.mode=publish&hub.url=http://t/1&hub.url=http://t/2&hub.url=http://t/1", HubForm{Mode: ModePublish, Topics: []string{"http://t/1", "http://t/2"}}},
		"publish, both":      {"hub.mode=publish&hub.topic=http://t/1&hub.url=http://t/1&hub.url=", HubForm{Mode: ModePublish, Topics: []string{"http://t/1"}}},
	} {
		got, err := ParseHubForm([]byte(tc.body))
		if d := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, d)
		}
	}
}

func TestParseHubFormRefuses(t *testing.T) {
	t.Parallel()
	const ok = "hub.mode=subscribe&hub.callback=http://s/TOKEN&hub.topic=http://t/"
	for body, parameter := range map[string]string{
		"": "hub.mode", "hub.mode=": "hub.mode", "hub.mode=denied": "hub.mode", "hub.mode=SUBSCRIBE&" + ok: "hub.mode", "hub.mode=%1b%0a": "hub.mode",
		"hub.mode=subscribe&hub.topic=http://t/":                                  "hub.callback",
		"hub.mode=subscribe&hub.callback=&hub.topic=http://t/":                    "hub.callback",
		"hub.mode=subscribe&hub.callback=TOKEN&hub.topic=http://t/":               "hub.callback",
		"hub.mode=subscribe&hub.callback=ftp://s/TOKEN&hub.topic=http://t/":       "hub.callback",
		"hub.mode=subscribe&hub.callback=javascript:TOKEN&hub.topic=http://t/":    "hub.callback",
		"hub.mode=subscribe&hub.callback=http://s/TOKEN%23f&hub.topic=http://t/":  "hub.callback",
		"hub.mode=subscribe&hub.callback=http:///TOKEN&hub.topic=http://t/":       "hub.callback",
		"hub.mode=subscribe&hub.callback=http://u@s/TOKEN&hub.topic=http://t/":    "hub.callback",
		"hub.mode=subscribe&hub.callback=http://s/TOKEN":                          "hub.topic",
		"hub.mode=unsubscribe&hub.callback=http://s/TOKEN&hub.topic=x":            "hub.topic",
		"hub.mode=unsubscribe&hub.callback=http://s/TOKEN&hub.topic=http://t/%23": "hub.topic",
		ok + "&hub.secret=" + strings.Repeat("TOKEN", 40):                         "hub.secret",
		ok + "&hub.lease_seconds=":                                                "hub.lease_seconds",
		ok + "&hub.lease_seconds=0":                                               "hub.lease_seconds",
		ok + "&hub.lease_seconds=-5":                                              "hub.lease_seconds",
		ok + "&hub.lease_seconds=1.5":                                             "hub.lease_seconds",
		ok + "&hub.lease_seconds=1e3":                                             "hub.lease_seconds",
		ok + "&hub.lease_seconds=%1b[31mx":                                        "hub.lease_seconds",
		ok + "&hub.verify=sync&hub.lease_seconds=x":                               "hub.lease_seconds",
		"hub.mode=publish":                        "hub.url",
		"hub.mode=publish&hub.url=":               "hub.url",
		"hub.mode=publish&hub.url=t":              "hub.url",
		"hub.mode=publish&hub.topic=file:///etc":  "hub.topic",
		"hub.mode=publish" + many(maxPublished+1): "hub.url",
		strings.Repeat("x", 2<<20):                "parameters",
		strings.Repeat("a&", 1<<15):               "parameters",
	} {
		_, err := ParseHubForm([]byte(body))
		if err == nil {
			t.Errorf("%.80q is taken", body)
			continue
		}
		if s := err.Error(); !strings.Contains(s, parameter) || strings.Contains(s, "TOKEN") || strings.ContainsAny(s, "\x1b\n") || len(s) > 200 {
			t.Errorf("%.80q: %q", body, s)
		}
	}
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("&hub.url=http://t/" + strings.Repeat("x", i))
	}
	return b.String()
}

func FuzzParseHubForm(f *testing.F) {
	for _, s := range []string{
		"hub.mode=subscribe&hub.callback=http://s/?a;b&hub.topic=http://t/%zz&hub.lease_seconds=99999999999999999999&hub.secret=%", "hub.mode=publish&hub.url=http://t/&hub.topic=http://t/",
		"hub.mode=unsubscribe&hub.callback=http://s/&hub.topic=http://t/", "hub.mode=subscribe&hub.verify=sync,async", "&&=&%=%",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		fuzztest.Bound(t)
		form, err := ParseHubForm(body)
		if err != nil {
			if len(err.Error()) > 300 {
				t.Errorf("%q: %d bytes of error", body, len(err.Error()))
			}
			return
		}
		if len(form.Secret) > maxSecret || form.Lease < 0 {
			t.Errorf("%q: %+v", body, form)
		}
		urls := form.Topics
		if form.Mode != ModePublish {
			urls = []string{form.Callback, form.Topic}
			// Everything taken can be verified.
			if _, err := VerificationURL(form.Callback, Verification{Mode: form.Mode, Topic: form.Topic, Challenge: "c", Lease: form.Lease}); err != nil {
				t.Errorf("%q: %v", body, err)
			}
		}
		if len(urls) == 0 {
			t.Errorf("%q asks for nothing", body)
		}
		for _, s := range urls {
			if u, err := url.Parse(s); err != nil || u.Hostname() == "" || u.Fragment != "" {
				t.Errorf("%q: %q", body, s)
			}
		}
	})
}

func TestLinkHeader(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ got, want string }{
		"both":    {LinkHeader("https://h/", "http://t/?a=1,2;b"), `<https://h/>; rel="hub", <http://t/?a=1,2;b>; rel="self"`},
		"self":    {LinkHeader("", "http://t/"), `<http://t/>; rel="self"`},
		"nothing": {LinkHeader("", "", Link{Target: "x"}, Link{Rels: []string{"a"}}), ""},
		"more": {
			LinkHeader("http://h/", "http://t/", Link{Target: "http://c/>\r\nX: y", Rels: []string{"resourcesync", "up"}, Anchor: "http://a/", Params: map[string]string{"type": "a\"b\\c\r\nd", "flag": "", "title*": "UTF-8''a%20b", "x*": "a\r\nb", "b ad": "x", "": "y"}}),
			`<http://h/>; rel="hub", <http://t/>; rel="self", <http://c/%3E%0D%0AX:%20y>; rel="resourcesync up"; anchor="http://a/"; flag; title*=UTF-8''a%20b; type="a\"b\\c  d"`,
		},
	} {
		if tc.got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", name, tc.got, tc.want)
		}
	}
}

// What is written is read back.
func TestLinkHeaderLaw(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		target := rapid.StringMatching(`https?://[a-z]{1,9}(:[0-9]{2,4})?/[!-;=?-~]{0,30}`).Filter(func(s string) bool { _, err := url.Parse(s); return err == nil })
		hub, self := target.Draw(t, "hub"), target.Draw(t, "self")
		more := Link{Target: target.Draw(t, "more"), Rels: []string{"up"}, Params: map[string]string{"title": rapid.StringMatching(`[ -~]{0,20}`).Draw(t, "title")}}
		want := []Link{link(hub, "hub"), link(self, "self"), more}
		got := ParseLinks([]string{LinkHeader(hub, self, more)}, nil)
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	})
}
