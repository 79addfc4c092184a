package websub

import (
	"math"
	"net/url"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"resyncd/destination/fuzztest"
)

func TestParseVerification(t *testing.T) {
	t.Parallel()
	const topic = "http://x/?y=1;z=2"
	full := Verification{Mode: ModeSubscribe, Topic: topic, Challenge: "abc", Lease: 3600}
	with := func(change func(*Verification)) Verification { v := full; change(&v); return v }
	none := func(text string) Verification {
		return with(func(v *Verification) { v.Lease, v.LeaseText = 0, text })
	}
	for name, tc := range map[string]struct {
		query string
		want  Verification
	}{
		"plain":               {"hub.mode=subscribe&hub.topic=http%3A%2F%2Fx%2F%3Fy%3D1%3Bz%3D2&hub.challenge=abc&hub.lease_seconds=3600", full},
		"topic not escaped":   {"hub.mode=subscribe&hub.topic=http://x/?y=1;z=2&hub.challenge=abc&hub.lease_seconds=3600", full},
		"names escaped":       {"hub%2Emode=subscribe&hub%2etopic=http://x/?y=1;z=2&hub.challenge=%61b%63&hub.lease_seconds=3600", full},
		"a second ?":          {"k=v?hub.mode=subscribe&hub.topic=http://x/?y=1;z=2&hub.challenge=abc&hub.lease_seconds=3600", full},
		"a second ? later":    {"a=b&k=v?hub.mode=subscribe&hub.topic=http://x/?y=1;z=2&hub.challenge=abc&hub.lease_seconds=3600", full},
		"a ? too many":        {"?hub.mode=subscribe&hub.topic=http://x/?y=1;z=2&hub.challenge=abc&hub.lease_seconds=3600", full},
		"flag and ?":          {"flag?hub.mode=subscribe&hub.topic=http://x/?y=1;z=2&hub.challenge=abc&hub.lease_seconds=3600", full},
		"first wins":          {"hub.mode=subscribe&hub.mode=denied&hub.topic=http://x/?y=1;z=2&hub.topic=o&hub.challenge=abc&hub.challenge=d&hub.lease_seconds=3600&hub.lease_seconds=1", full},
		"empty pairs":         {"&&hub.mode=subscribe&hub.topic=http://x/?y=1;z=2&&=&hub.challenge=abc&hub.lease_seconds=3600&", full},
		"?hub. in the topic":  {"hub.mode=subscribe&hub.topic=http://x/?hub.mode=denied&hub.challenge=abc&hub.lease_seconds=3600", with(func(v *Verification) { v.Topic = "http://x/?hub.mode=denied" })},
		"decoded once":        {"hub.mode=subscribe&hub.topic=http://x/a%252Fb%2Bc&hub.challenge=abc&hub.lease_seconds=3600", with(func(v *Verification) { v.Topic = "http://x/a%2Fb+c" })},
		"bad escapes":         {"hub.mode=subscribe&hub.topic=http://x/%zz%4&hub.challenge=%&hub.lease_seconds=3600", with(func(v *Verification) { v.Topic, v.Challenge = "http://x/%zz%4", "%" })},
		"verify token":        {"hub.mode=unsubscribe&hub.topic=t&hub.challenge=c&hub.verify_token=a+b", Verification{Mode: ModeUnsubscribe, Topic: "t", Challenge: "c", VerifyToken: "a b"}},
		"denied":              {"hub.mode=denied&hub.topic=t&hub.reason=no%0Athanks%1b[31m", Verification{Mode: ModeDenied, Topic: "t", Reason: "no thanks\ufffd[31m"}},
		"bare denial":         {"hub.mode=denied", Verification{Mode: ModeDenied}},
		"no lease":            {"hub.mode=subscribe&hub.topic=http://x/?y=1;z=2&hub.challenge=abc", none("")},
		"lease empty":         {"hub.mode=subscribe&hub.topic=http://x/?y=1;z=2&hub.challenge=abc&hub.lease_seconds=", none("")},
		"lease 0":             {"hub.mode=subscribe&hub.topic=http://x/?y=1;z=2&hub.challenge=abc&hub.lease_seconds=000", none("000")},
		"lease negative":      {"hub.mode=subscribe&hub.topic=http://x/?y=1;z=2&hub.challenge=abc&hub.lease_seconds=-1", none("-1")},
		"lease float":         {"hub.mode=subscribe&hub.topic=http://x/?y=1;z=2&hub.challenge=abc&hub.lease_seconds=86400.0", none("86400.0")},
		"lease 1e9":           {"hub.mode=subscribe&hub.topic=http://x/?y=1;z=2&hub.challenge=abc&hub.lease_seconds=1e9", none("1e9")},
		"lease in words":      {"hub.mode=subscribe&hub.topic=http://x/?y=1;z=2&hub.challenge=abc&hub.lease_seconds=a%0Aday", none("a day")},
		"lease in blanks":     {"hub.mode=subscribe&hub.topic=http://x/?y=1;z=2&hub.challenge=abc&hub.lease_seconds=+3600%0a", full},
		"lease of an int64":   {"hub.mode=subscribe&hub.topic=http://x/?y=1;z=2&hub.challenge=abc&hub.lease_seconds=9223372036854775807", with(func(v *Verification) { v.Lease = math.MaxInt64 })},
		"lease beyond it":     {"hub.mode=subscribe&hub.topic=http://x/?y=1;z=2&hub.challenge=abc&hub.lease_seconds=9223372036854775808", with(func(v *Verification) { v.Lease = math.MaxInt64 })},
		"lease of 10^30":      {"hub.mode=subscribe&hub.topic=http://x/?y=1;z=2&hub.challenge=abc&hub.lease_seconds=1" + strings.Repeat("0", 30), with(func(v *Verification) { v.Lease = math.MaxInt64 })},
		"lease beyond, words": {"hub.mode=subscribe&hub.topic=http://x/?y=1;z=2&hub.challenge=abc&hub.lease_seconds=" + strings.Repeat("9", 30) + "x", none(strings.Repeat("9", 30) + "x")},
	} {
		got, err := ParseVerification(tc.query)
		if d := cmp.Diff(tc.want, got); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, d)
		}
	}
	for _, q := range []string{"", "hub.topic=t", "hub.mode=", "hub.mode=publish", "hub.mode=Subscribe", "k=v?mode=subscribe", "hub.mode=" + strings.Repeat("x", 1<<16), strings.Repeat("a&", 1<<16) + "hub.mode=denied", strings.Repeat("x", 2<<20)} {
		if v, err := ParseVerification(q); err == nil || len(err.Error()) > 200 {
			t.Errorf("%.30q: %+v, %v", q, v, err)
		}
	}
}

func TestReasonIsFitForALog(t *testing.T) {
	t.Parallel()
	v, err := ParseVerification("hub.mode=denied&hub.reason=" + url.QueryEscape(strings.Repeat("\x1b]0;\u202e\xff<b>\r\n", 1<<12)))
	if err != nil {
		t.Fatal(err)
	}
	if n := utf8.RuneCountInString(v.Reason); n == 0 || n > maxText {
		t.Errorf("%d characters", n)
	}
	if i := strings.IndexFunc(v.Reason, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 || !utf8.ValidString(v.Reason) {
		t.Errorf("%q", v.Reason)
	}
}

func TestValidChallenge(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"0", "deadBEEF", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "ab+/=", "a-_.~:b", strings.Repeat("x", 1024)} {
		if !ValidChallenge(s) {
			t.Errorf("%q refused", s)
		}
	}
	for _, s := range []string{"", strings.Repeat("x", 1025), "a b", "a\n", "<script>", "a&b", "a;b", `a"b`, "a'b", "a%20", "a\x00", "é", "\xff", "a,b", "(x)", "a?b", "a#b"} {
		if ValidChallenge(s) {
			t.Errorf("%q taken", s)
		}
	}
}

func TestGrantedLease(t *testing.T) {
	t.Parallel()
	const day = 24 * 3600
	for name, tc := range map[string]struct {
		v           Verification
		asked, want int64
		odd         bool
	}{
		"as asked":       {Verification{Lease: 864000}, 864000, 864000, false},
		"more than":      {Verification{Lease: 20 * day}, 864000, 20 * day, false},
		"30 days":        {Verification{Lease: 30 * day}, 864000, 30 * day, false},
		"31 days":        {Verification{Lease: 31 * day}, 864000, 30 * day, true},
		"to the year 0":  {Verification{Lease: 9_223_372_037}, 864000, 30 * day, true},
		"greatest":       {Verification{Lease: math.MaxInt64}, 864000, 30 * day, true},
		"short":          {Verification{Lease: 59}, 864000, 59, true},
		"a minute":       {Verification{Lease: 60}, 864000, 60, false},
		"a second":       {Verification{Lease: 1}, 864000, 1, true},
		"none":           {Verification{}, 864000, day, true},
		"none, asked 1h": {Verification{}, 3600, 3600, true},
		"none, asked 0":  {Verification{}, 0, day, true},
		"none, asked -1": {Verification{}, math.MinInt64, day, true},
		"words":          {Verification{LeaseText: "for ever"}, 3600, 3600, true},
		"0, claimed":     {Verification{}, 3600, 3600, true},
		"below 0":        {Verification{Lease: math.MinInt64}, 3600, 3600, true},
	} {
		got, odd := GrantedLease(tc.v, tc.asked)
		if got != tc.want || (odd != "") != tc.odd {
			t.Errorf("%s: %d, %q", name, got, odd)
		}
	}
}

// Whatever a hub writes for a lease, it lasts between a second and 30 days, and no more than a day if it is no number.
func TestGrantedLeaseLaw(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[-+]?[0-9]{0,40}(\.[0-9]+|e[0-9]+)?`)).Draw(t, "lease")
		asked := rapid.Int64().Draw(t, "asked")
		v, err := ParseVerification("hub.mode=subscribe&hub.lease_seconds=" + url.QueryEscape(text))
		if err != nil {
			t.Fatal(err)
		}
		got, odd := GrantedLease(v, asked)
		if got < 1 || got > leaseLongest || v.Lease <= 0 && (got > leaseAssumed || odd == "") {
			t.Fatalf("%q asked %d: %d (%s)", text, asked, got, odd)
		}
	})
}

func FuzzParseVerification(f *testing.F) {
	for _, s := range []string{
		"hub.mode=subscribe&hub.topic=http://x/?y=1;z=2&hub.challenge=abc&hub.lease_seconds=1e9", "k=v?hub.mode=denied&hub.reason=%zz%",
		"?hub.mode=unsubscribe", "hub.mode=subscribe&hub.lease_seconds=99999999999999999999", "%68ub.mode=denied&hub.topic=%", "&=&?hub.&",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		fuzztest.Bound(t)
		v, err := ParseVerification(query)
		if err != nil {
			if len(err.Error()) > 300 {
				t.Errorf("%q: %d bytes of error", query, len(err.Error()))
			}
			return
		}
		if v.Lease < 0 || v.Lease > 0 && v.LeaseText != "" {
			t.Errorf("%q: lease %d %q", query, v.Lease, v.LeaseText)
		}
		for _, text := range []string{v.Reason, v.LeaseText} {
			if utf8.RuneCountInString(text) > maxText || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%q: unfit text %q", query, text)
			}
		}
		// Where the standard library reads a query at all, and there is no second ?, we agree with it.
		if std, err := url.ParseQuery(query); err == nil && splitQuery(query) == query {
			if v.Topic != std.Get("hub.topic") || v.Challenge != std.Get("hub.challenge") || string(v.Mode) != std.Get("hub.mode") {
				t.Errorf("%q: %+v, std %v", query, v, std)
			}
		}
	})
}

func TestVerificationURL(t *testing.T) {
	t.Parallel()
	subscribe := Verification{Mode: ModeSubscribe, Topic: "http://t/?a=1&b=c d+é", Challenge: "a+b/=", Lease: 864000}
	const params = "hub.mode=subscribe&hub.topic=http%3A%2F%2Ft%2F%3Fa%3D1%26b%3Dc%20d%2B%C3%A9&hub.challenge=a%2Bb%2F%3D&hub.lease_seconds=864000"
	for name, tc := range map[string]struct {
		callback string
		v        Verification
		want     string
	}{
		"plain":        {"https://s.example/cb", subscribe, "https://s.example/cb?" + params},
		"with a query": {"https://s.example/cb?k=v&hub.mode=mine", subscribe, "https://s.example/cb?k=v&hub.mode=mine&" + params},
		"odd query":    {"http://s.example:8080/c%2Fb?a;b&&x=%7e", subscribe, "http://s.example:8080/c%2Fb?a;b&&x=%7e&" + params},
		"bare ?":       {"http://s.example/cb?", subscribe, "http://s.example/cb?" + params},
		"ends in &":    {"http://s.example/cb?a&", subscribe, "http://s.example/cb?a&" + params},
		"no path":      {"http://s.example", subscribe, "http://s.example?" + params},
		"unsubscribe":  {"http://s.example/", Verification{Mode: ModeUnsubscribe, Topic: "http://t/", Challenge: "c", Lease: 5}, "http://s.example/?hub.mode=unsubscribe&hub.topic=http%3A%2F%2Ft%2F&hub.challenge=c"},
		"denied":       {"http://s.example/?x", Verification{Mode: ModeDenied, Topic: "http://t/", Reason: "no, & never", Challenge: "c", Lease: 5}, "http://s.example/?x&hub.mode=denied&hub.topic=http%3A%2F%2Ft%2F&hub.reason=no%2C%20%26%20never"},
		"0.3":          {"http://s.example/", Verification{Mode: ModeUnsubscribe, Topic: "http://t/", Challenge: "c", VerifyToken: "ü"}, "http://s.example/?hub.mode=unsubscribe&hub.topic=http%3A%2F%2Ft%2F&hub.challenge=c&hub.verify_token=%C3%BC"},
	} {
		if got, err := VerificationURL(tc.callback, tc.v); got != tc.want || err != nil {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, tc.want)
		}
	}
	for _, c := range []string{"", "/cb", "ftp://s.example/token", "http:///token", "http://s.example/token#frag", "http://s.example/token#", "http:token", "http://u:p@s.example/token", "http://s.example/token\n", "http://s.example/" + strings.Repeat("token", 1<<12)} {
		u, err := VerificationURL(c, subscribe)
		if err == nil || u != "" || strings.Contains(err.Error(), "token") {
			t.Errorf("%.50q: %.50s, %v", c, u, err)
		}
	}
}

// The callback is kept byte for byte, and what was put behind it is read back as it was.
func FuzzVerificationURL(f *testing.F) {
	f.Add("https://s.example/cb?k=v&a;b", "http://t/?x=1&y=2;z", "chal+/=", "reason", "tok", int64(864000))
	f.Add("http://s.example?", "\xff%2F", "c", " \n", "%", int64(-1))
	f.Add("http://s.example/a%2fb?&?hub.x", "hub.mode=denied", "", "&", "?hub.mode=x", int64(1))
	f.Fuzz(func(t *testing.T, callback, topic, challenge, reason, token string, lease int64) {
		fuzztest.Bound(t)
		for _, mode := range []Mode{ModeSubscribe, ModeUnsubscribe, ModeDenied} {
			in := Verification{Mode: mode, Topic: topic, Challenge: challenge, Reason: reason, VerifyToken: token, Lease: lease}
			joined, err := VerificationURL(callback, in)
			if err != nil {
				return
			}
			if u, err := url.Parse(joined); err != nil || !strings.HasPrefix(joined, callback) {
				t.Fatalf("%q: %v", joined, err)
			} else if own, err := url.Parse(callback); err != nil || u.EscapedPath() != own.EscapedPath() || u.Host != own.Host {
				t.Fatalf("%q is another place than %q", joined, callback)
			}
			_, own, _ := strings.Cut(callback, "?")
			_, query, _ := strings.Cut(joined, "?")
			added := strings.TrimPrefix(query[len(own):], "&")
			std, err := url.ParseQuery(added)
			if err != nil || std.Get("hub.topic") != topic || std.Get("hub.verify_token") != token {
				t.Fatalf("%q: %v", added, err)
			}
			if strings.Contains(unescape(own), "hub.") {
				continue // names of its own come first and win
			}
			out, err := ParseVerification(query)
			if err != nil {
				t.Fatalf("%q: %v", query, err)
			}
			want := Verification{Mode: mode, Topic: topic, VerifyToken: token, Challenge: challenge}
			if mode == ModeDenied {
				want.Challenge, want.Reason = "", printable(reason)
			}
			if mode == ModeSubscribe && lease > 0 {
				want.Lease = lease
			}
			if d := cmp.Diff(want, out); d != "" {
				t.Fatalf("%q (-want +got):\n%s", query, d)
			}
		}
	})
}
