package e2e_test

import (
	"crypto/hmac"
	"crypto/md5"
	"fmt"
	"slices"
	"strings"
	"time"

	"resyncd/destination/rsdoc"
	"resyncd/destination/websub"
)

// notification is a Change Notification of an interval and some entries.
func notification(from, until rsdoc.Micros, entries ...string) string {
	return urlset(fmt.Sprintf(`capability="change-notification" from="%s" until="%s"`, from, until), strings.Join(entries, ""))
}

// told is an entry of one.
func told(loc, change string, at rsdoc.Micros, fixity string) string {
	return fmt.Sprintf(`<url><loc>%s</loc><rs:md change="%s" datetime="%s" %s/></url>`, loc, change, at, fixity)
}

// intervalOf reads from and until.
func intervalOf(body []byte) (rsdoc.Interval, bool) {
	r, err := rsdoc.OpenBytes(body, rsdoc.Options{})
	if err != nil {
		return rsdoc.Interval{}, false
	}
	head, err := r.Head()
	if err != nil {
		return rsdoc.Interval{}, false
	}
	iv := rsdoc.Interval{From: head.From, Until: head.Until}
	return iv, iv.From.Known() && iv.Until.Known() && iv.From <= iv.Until
}

// forgery makes of a real notification one that a stranger could send.
type forgery struct {
	name  string
	forge func(m *meddler, p *parcel, secret string)
}

func forgeries() []forgery {
	sign := func(p *parcel, v string) { p.header[websub.SignatureHeader] = []string{v} }
	now := func() rsdoc.Micros { return rsdoc.MicrosOf(time.Now()) }
	return []forgery{
		{"no signature", func(_ *meddler, p *parcel, _ string) { p.header.Del(websub.SignatureHeader) }},
		{"the signature of another secret", func(_ *meddler, p *parcel, _ string) { sign(p, websub.Sign(websub.SHA256, "guess", p.body)) }},
		{"the signature of no secret", func(_ *meddler, p *parcel, _ string) { sign(p, websub.Sign(websub.SHA512, "", p.body)) }},
		{"md5", func(_ *meddler, p *parcel, secret string) {
			h := hmac.New(md5.New, []byte(secret))
			_, _ = h.Write(p.body) // a hash takes all
			sign(p, fmt.Sprintf("md5=%x", h.Sum(nil)))
		}},
		{"another method's name", func(_ *meddler, p *parcel, secret string) {
			sign(p, strings.Replace(websub.Sign(websub.SHA256, secret, p.body), "sha256", "sha512", 1))
		}},
		{"a method without a name", func(_ *meddler, p *parcel, secret string) {
			sign(p, strings.TrimPrefix(websub.Sign(websub.SHA256, secret, p.body), "sha256"))
		}},
		{"a signature cut short", func(_ *meddler, p *parcel, secret string) {
			s := websub.Sign(websub.SHA256, secret, p.body)
			sign(p, s[:len(s)-8])
		}},
		{"a body cut short", func(m *meddler, p *parcel, _ string) { p.body = p.body[:m.dice.roll(len(p.body))] }},
		{"an until far ahead under an old signature", func(_ *meddler, p *parcel, _ string) {
			p.body = []byte(notification(now(), now()+century))
		}},
		{"an until far ahead without one", func(_ *meddler, p *parcel, _ string) {
			p.header.Del(websub.SignatureHeader)
			p.body = []byte(notification(now(), now()+century))
		}},
		{"deletions of everything without one", func(m *meddler, p *parcel, _ string) {
			p.header.Del(websub.SignatureHeader)
			p.body = []byte(m.allDeleted())
		}},
		{"a callback of nobody", func(m *meddler, p *parcel, secret string) {
			sign(p, websub.Sign(websub.SHA256, secret, p.body))
			p.path = p.path[:strings.LastIndexByte(p.path, '/')+1] + strings.Repeat("A", 30+m.dice.roll(20))
		}},
		{"more than a body may be", func(_ *meddler, p *parcel, secret string) {
			p.body = slices.Repeat([]byte(" "), 8<<20+1)
			sign(p, websub.Sign(websub.SHA256, secret, p.body))
		}},
	}
}

const (
	second  = rsdoc.Micros(time.Second / time.Microsecond)
	century = 100 * 365 * 24 * 3600 * second
)

// lie is what a hub can say that knows the secret.
type lie struct {
	name string
	tell func(m *meddler) string
}

func lies() []lie {
	// said makes one of a list of entries about now.
	said := func(entry func(m *meddler, now rsdoc.Micros) string) func(*meddler) string {
		return func(m *meddler) string {
			now := rsdoc.MicrosOf(time.Now())
			return notification(now-second, now, entry(m, now))
		}
	}
	always := func(entry string) func(*meddler, rsdoc.Micros) string {
		return func(_ *meddler, now rsdoc.Micros) string { return told(entry, "updated", now, "") }
	}
	spanning := func(from, until rsdoc.Micros) func(*meddler) string {
		return func(*meddler) string {
			now := rsdoc.MicrosOf(time.Now())
			return notification(now+from, now+until)
		}
	}
	fixed := func(body string) func(*meddler) string { return func(*meddler) string { return body } }
	return []lie{
		{"until far ahead", spanning(-second, century)},
		{"until the end of time", func(*meddler) string {
			return urlset(`capability="change-notification" from="0000-01-01T00:00:00Z" until="9999-12-31T23:59:59Z"`, "")
		}},
		{"from far ahead", spanning(century, century+second)},
		{"nothing happened just now", spanning(-3*second, 0)},
		{"nothing happened ever", spanning(-century/2, 0)},
		{"backwards", spanning(0, -second)},
		{"a change of the future", said(func(m *meddler, now rsdoc.Micros) string {
			return told(m.resource(), "updated", now+century, fixityOf([32]byte{1}))
		})},
		{"a deletion of the future", said(func(m *meddler, now rsdoc.Micros) string { return told(m.resource(), "deleted", now+century, "") })},
		{"a change that is none", said(func(m *meddler, now rsdoc.Micros) string { return told(m.resource(), "updated", now, "") })},
		{"a deletion that is none", said(func(m *meddler, now rsdoc.Micros) string { return told(m.resource(), "deleted", now, "") })},
		{"a creation that is none", said(func(m *meddler, now rsdoc.Micros) string {
			return told(fmt.Sprintf("%s/nowhere/%d.txt", m.o.base, m.dice.roll(20)), "created", now, "")
		})},
		{"an old version as a new one", said(func(m *meddler, now rsdoc.Micros) string {
			uri := m.resource()
			return told(uri, "updated", now, fixityOf(one(m.dice, m.o.annals.editions(uri)).sum))
		})},
		{"a hash of nothing", said(func(m *meddler, now rsdoc.Micros) string {
			return told(m.resource(), "updated", now, fixityOf([32]byte{}))
		})},
		{"a length without end", said(func(m *meddler, now rsdoc.Micros) string {
			return told(m.resource(), "updated", now, `length="9223372036854775807"`)
		})},
		{"deletions of everything", (*meddler).allDeleted},
		{"a change elsewhere", said(always("http://evil.example/x"))},
		{"a change inside", said(always("http://127.0.0.1:1/x"))},
		{"a change on this machine", said(always("file:///etc/passwd"))},
		{"documents elsewhere", fixed(urlset(`capability="framework-notification"`,
			`<url><loc>http://127.0.0.1:1/capabilitylist.xml</loc><rs:md capability="capabilitylist" change="updated"/></url>`))},
		{"a list in its place", fixed(resourceList(""))},
		{"nothing at all", fixed("")},
		{"no document", fixed(`<html><body>` + strings.Repeat("spam ", 1000))},
	}
}

// allDeleted says that of everything.
func (m *meddler) allDeleted() string {
	now := rsdoc.MicrosOf(time.Now())
	var all []string
	for _, uri := range m.o.annals.uris() {
		all = append(all, told(uri, "deleted", now, ""))
	}
	return notification(now-second, now, all...)
}

// resource is one that was published.
func (m *meddler) resource() string { return one(m.dice, m.o.annals.uris()) }

func fixityOf(sum [32]byte) string { return fmt.Sprintf(`hash="sha-256:%x"`, sum) }

// editions are all of a resource.
func (a *annals) editions(uri string) []edition {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.byURI[uri])
}
