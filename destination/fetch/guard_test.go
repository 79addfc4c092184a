package fetch

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

func TestGuardOnAddresses(t *testing.T) {
	t.Parallel()
	allow := []netip.Prefix{
		netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("::ffff:172.16.5.0/120"),
		netip.MustParsePrefix("fd00:1::/32"), netip.MustParsePrefix("fe80::/10"),
	}
	g := newGuard(allow)
	for address, ok := range map[string]bool{
		"93.184.216.34:80": true, "93.184.216.34:1": true, "[2606:4700::1111]:8443": true,
		"10.1.2.3:80": true, "172.16.5.9:80": true, "[fd00:1::5]:80": true, "[fe80::1%eth0]:80": true,
		"[::ffff:10.1.2.3]:80": true, "[::ffff:93.184.216.34]:80": true,
		"10.2.0.1:80": false, "127.0.0.1:80": false, "127.8.8.8:80": false, "0.0.0.0:80": false, "0.1.2.3:80": false,
		"169.254.169.254:80": false, "192.168.1.1:80": false, "172.16.6.1:80": false, "100.64.0.1:80": false,
		"192.0.0.8:80": false, "198.18.0.1:80": false, "224.0.0.1:80": false, "240.0.0.1:80": false,
		"255.255.255.255:80": false, "192.88.99.1:80": false,
		"[::1]:80": false, "[::]:80": false, "[::ffff:127.0.0.1]:80": false, "[::ffff:169.254.169.254]:80": false,
		"[64:ff9b::7f00:1]:80": false, "[64:ff9b::10.2.0.1]:80": false, "[2002:7f00:1::]:80": false, "[2001::1]:80": false,
		"[fc00::1]:80": false, "[fd00:2::1]:80": false, "[fec0::1]:80": false, "[ff02::1]:80": false,
		"[2001:db8::1]:80": false, "[::127.0.0.1]:80": false, "[2606:4700::1%lo]:80": true,
		"": false, "localhost:80": false, "127.0.0.1": false,
	} {
		network := "tcp4"
		if strings.HasPrefix(address, "[") {
			network = "tcp6"
		}
		err := g.control(network, address, nil)
		if (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
		if err != nil && err.(*Error).Kind != Refused { //nolint:errorlint // bare here
			t.Errorf("%s: kind %v", address, err)
		}
	}
	if g.control("udp4", "93.184.216.34:80", nil) == nil {
		t.Error("udp passes")
	}
}

// names is a resolver that answers from a list, in order, the last answer for ever.
type names struct {
	mu      sync.Mutex
	answers map[string][]string
	failure dnsmessage.RCode // for names without answers, instead of "no such name"
}

func (n *names) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go n.serve(theirs)
		return ours, nil
	}}
}

func (n *names) take(name string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.answers[name]
	if len(all) == 0 {
		return nil
	}
	if len(all) > 1 {
		n.answers[name] = all[1:]
	}
	return strings.Fields(all[0])
}

// serve answers DNS over a stream, A records only.
func (n *names) serve(c net.Conn) {
	defer c.Close()
	var size [2]byte
	for {
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		q := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, q); err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(q) != nil || len(m.Questions) != 1 {
			return
		}
		m.Response, m.Additionals = true, nil
		if m.Questions[0].Type == dnsmessage.TypeA {
			name := strings.TrimSuffix(m.Questions[0].Name.String(), ".")
			addrs := n.take(name)
			if addrs == nil {
				m.RCode = cmp.Or(n.failure, dnsmessage.RCodeNameError)
			}
			for _, a := range addrs {
				m.Answers = append(m.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET},
					Body:   &dnsmessage.AResource{A: netip.MustParseAddr(a).As4()},
				})
			}
		}
		out, err := m.Pack()
		if err != nil {
			return
		}
		binary.BigEndian.PutUint16(size[:], uint16(len(out))) //nolint:gosec // small
		if _, err := c.Write(append(size[:], out...)); err != nil {
			return
		}
	}
}

// local starts a server on loopback and a client that may dial public addresses only.
func local(t *testing.T, answers map[string][]string, h http.HandlerFunc) (*Client, string) {
	t.Helper()
	_, base := serve(t, Options{}, h)
	n := &names{answers: answers}
	c := newClient(Options{Retries: -1}, environment{resolver: n.resolver()})
	t.Cleanup(c.Close)
	return c, base
}

func TestGuardOnNames(t *testing.T) {
	t.Parallel()
	c, base := local(t, map[string][]string{"inner.example": {"127.0.0.1"}, "both.example": {"10.0.0.1 192.168.0.1"}},
		func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "secret") })
	u, _ := url.Parse(base)
	port := u.Port()
	for _, host := range []string{
		"127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
		"0.0.0.0", "[::]", "localhost", "LOCALHOST", "inner.example", "both.example", "127.0.0.1.", "①②⑦.⓪.⓪.①",
	} {
		_, err := c.Get(t.Context(), Request{URL: "http://" + host + ":" + port + "/"})
		switch kind := KindOf(err); kind {
		case Refused:
			if !strings.Contains(err.Error(), "network.allow") {
				t.Errorf("%s: the message does not say what would allow it: %v", host, err)
			}
		case Transient: // forms that no resolver knows: nothing was reached
		default:
			t.Errorf("%s: %v", host, err)
		}
	}
	// F62: a name that does not exist is a passing failure.
	_, err := c.Get(t.Context(), Request{URL: "http://nowhere.example/"})
	wantKind(t, err, Transient)
}

func TestTrustIsOfOneSource(t *testing.T) {
	t.Parallel()
	c, base := local(t, map[string][]string{"intranet.example": {"127.0.0.1"}},
		func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "inside") })
	u, _ := url.Parse(base)
	target := "http://intranet.example:" + u.Port() + "/"
	trusting := &Policy{Trusted: []string{"Intranet.example"}}
	for range 3 {
		resp, err := c.Get(t.Context(), Request{URL: target, Policy: trusting})
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp) // its connection is idle in the pool now
		for _, p := range []*Policy{nil, {}, {Trusted: []string{"intranet.example:1", "example", "127.0.0.1"}}} {
			_, err = c.Get(t.Context(), Request{URL: target, Policy: p})
			wantKind(t, err, Refused)
		}
	}
	exact := &Policy{Trusted: []string{"intranet.example:" + u.Port()}}
	resp, err := c.Get(t.Context(), Request{URL: target, Policy: exact})
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, resp)
}

func TestRebindingIsSeenAtTheDial(t *testing.T) {
	t.Parallel()
	// The first look-up of every kind would pass, the one that counts does not.
	c, base := local(t, map[string][]string{"rebind.example": {"127.0.0.1"}}, func(http.ResponseWriter, *http.Request) {})
	u, _ := url.Parse(base)
	scope := func(uri string) bool { return strings.HasPrefix(uri, "http://rebind.example:") }
	_, err := c.Get(t.Context(), Request{URL: "http://rebind.example:" + u.Port() + "/", InScope: scope})
	wantKind(t, err, Refused)
}

func TestTrustedForms(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		trusted, url string
		want         bool
	}{
		{"h", "http://h/", true}, {"h", "https://H:8443/", true}, {"h:80", "http://h/", true}, {"h:80", "https://h/", false},
		{"h:443", "https://h/x", true}, {"[::1]:80", "http://[::1]/", true}, {"::1", "http://[::1]:99/", true},
		{"[::1]", "http://[::1]:99/", true}, {"h", "http://h.evil/", false}, {"h", "http://xh/", false}, {"", "http://h/", false},
	} {
		u, _ := url.Parse(tc.url)
		if got := (&Policy{Trusted: []string{tc.trusted}}).trusts(u); got != tc.want {
			t.Errorf("%q trusts %s: %v", tc.trusted, tc.url, got)
		}
	}
}
