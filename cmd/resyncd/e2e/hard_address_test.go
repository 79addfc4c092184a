package e2e_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/store"
	"resyncd/store/sqlite"
)

// hostileForms are spellings of this very machine, as a hostile Source may write them into a document. To the resolver of
// the test every name that is not in the hosts file is this machine too.
var hostileForms = []string{
	// Dotted, short, decimal, octal, hexadecimal.
	"127.0.0.1", "127.0.0.2", "127.1.1.1", "127.255.255.254", "127.1", "127.0.1", "127", "2130706433", "02130706433", "0x7f000001", "0X7F000001",
	"0x7f.0.0.1", "0x7f.0x0.0x0.0x1", "0x7f.1", "0177.0.0.1", "0177.0000.0000.0001", "017700000001", "0177.1", "127.000.000.001", "00127.0.0.1",
	"127.0.0.1.", "383.0.0.1", "4294967295", "6425673729",
	// IPv6, IPv4 within it, and the ways across.
	"[::1]", "[0:0:0:0:0:0:0:1]", "[::0001]", "[0000:0000:0000:0000:0000:0000:0000:0001]", "[::ffff:127.0.0.1]", "[::FFFF:7F00:1]",
	"[0:0:0:0:0:ffff:127.0.0.1]", "[::127.0.0.1]", "[::7f00:1]", "[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]",
	"[2001:0:7f00:1::]", "[fe80::1]", "[fc00::1]", "[fec0::1]",
	// Zones.
	"[::1%25lo]", "[::1%25eth0]", "[::1%251]", "[::1%25]", "[fe80::1%25lo]", "[::ffff:127.0.0.1%25lo]",
	// Nowhere in particular.
	"0.0.0.0", "0", "00", "0x0", "0.0", "[::]", "[0::0]", "[::ffff:0.0.0.0]", "[::ffff:0:0]",
	// Names.
	"localhost", "LOCALHOST", "localhost.", "localhost.localdomain", "ip6-localhost", "inner.localhost", "inner.example", "xn--inner.example",
	// Letters that become others.
	"①②⑦.⓪.⓪.①", "１２７.0.0.1", "127。0。0。1", "%31%32%37.0.0.1", "127.0.0.1%2e", "127.0.0.1%00.example",
	// Authorities that can be read in two ways.
	"public.example@127.0.0.1", "127.0.0.1%40public.example", "public.example%2f@127.0.0.1", `public.example\@127.0.0.1`,
}

// TestNoWayInside: whatever a Source names, however it is spelt, and however it is come to - loc, index part, list, redirect
// of a document, redirect of a resource, up link, hub - nothing that the operator did not write down is dialled on this
// machine (P7).
func TestNoWayInside(t *testing.T) {
	t.Parallel()
	c := newCanary(t)
	h := newHostileRun(t)
	h.program, h.more = c.resolveAll(t)
	h.allow = "127.0.0.9/32" // where the name lies that moves
	h.add(badSource{name: "sound", pages: pages{"/list.xml": {body: resourceList(entries("/r/a", "/r/b"))}}, want: fine(2)})
	hubs := 0
	forms, numbers := 0, 0
	for _, form := range hostileForms {
		// Numbers that are no address are no names either to Go, which takes them for a failure that may pass and asks
		// again and again: a third of them will do.
		if strings.Trim(form, "0123456789.") == "" && net.ParseIP(form) == nil {
			if numbers++; !soak && numbers%3 != 0 {
				continue
			}
		}
		forms++
		h.add(c.source(form))
		if addressable(form) {
			hubs++
		}
	}
	moving := c.movingName(t, h)
	h.mostlySound()
	if n := h.judge(); n > 0 {
		t.Errorf("%d Sources were not as expected", n)
	}
	h.serveHubs(hubs)
	h.outside()
	modest(t, h.peak)
	if n := c.knocks.Load(); n != 0 {
		t.Errorf("this machine was dialled %d times", n)
	}
	if moving != nil && moving.Load() == 0 {
		t.Error("the name that moves was never asked where it was allowed")
	}
	t.Logf("%d forms of address by loc, part, list, redirects, up link and hub, and a name that moves: %d connections", forms, c.knocks.Load())
	c.alive(t)
}

// canary is a port on this machine, on as many of its addresses as can be had, that nobody may knock at.
type canary struct {
	port   string
	knocks atomic.Int64
	asked  atomic.Int64 // look-ups of the name that moves
}

func newCanary(t *testing.T) *canary {
	t.Helper()
	c := &canary{}
	first := c.listen(t, "127.0.0.1:0")
	_, c.port, _ = net.SplitHostPort(first.Addr().String())
	for _, host := range []string{"127.0.0.2", "127.1.1.1", "127.255.255.254", "::1"} {
		c.listen(t, net.JoinHostPort(host, c.port))
	}
	return c
}

// listen counts knocks at an address; not every system has all of them.
func (c *canary) listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Logf("no canary on %s: %v", addr, err)
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.knocks.Add(1)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l
}

// alive shows that a knock would have been noticed.
func (c *canary) alive(t *testing.T) {
	t.Helper()
	conn, err := net.Dial("tcp", "127.0.0.1:"+c.port)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if err := poll("the canary sings", func() (bool, error) { return c.knocks.Load() > 0, nil }); err != nil {
		t.Error(err)
	}
}

// addressable reports whether a form can stand in a URL.
func addressable(form string) bool {
	_, err := url.Parse("http://" + form + ":80/")
	return err == nil
}

// source leads to the canary in every way that a Source has.
func (c *canary) source(form string) badSource {
	there := func(path string) string { return "http://" + form + ":" + c.port + path }
	xml := strings.NewReplacer("&", "&amp;", "<", "&lt;")
	element := func(name, loc, inner string) string {
		return "<" + name + "><loc>" + xml.Replace(loc) + "</loc>" + inner + "</" + name + ">"
	}
	link := func(rel, path string) string {
		return `<rs:ln rel="` + rel + `" href="` + xml.Replace(there(path)) + `"/>`
	}
	to := func(path string) page { return page{status: 302, header: []string{"Location", there(path)}} }
	want := fate{files: 2, owed: 1}
	if addressable(form) {
		want.refused = 1 // else its loc is no URI, and skipped
	}
	return badSource{name: form, start: "/cap.xml", want: want, pages: pages{
		"/cap.xml": {
			header: []string{"Link", "<" + there("/linked") + `>; rel="hub"`},
			body: urlset(`capability="capabilitylist"`, link("up", "/up.xml")+link("hub", "/hub")+
				element("url", "{base}/list.xml", `<rs:md capability="resourcelist"/>`)+
				element("url", there("/changes.xml"), `<rs:md capability="changelist"/>`)+
				element("url", "{base}/topic", `<rs:md capability="change-notification"/>`+link("hub", "/hub"))),
		},
		"/list.xml":     {body: indexHead + parts("/1.xml", "/moved.xml") + element("sitemap", there("/2.xml"), "") + indexTail},
		"/moved.xml":    to("/3.xml"),
		"/1.xml":        {body: resourceList(entries("/r/a", "/r/b", "/r/moved") + element("url", there("/r/x"), ""))},
		"/r/moved":      to("/r/y"),
		"/topic":        {header: []string{"Link", "<" + there("/hub") + `>; rel="hub", <{base}/topic>; rel="self"`}, body: "<urlset/>"},
		"/robots.txt":   {body: "Sitemap: " + there("/robots.xml") + "\n"},
		"/resourcesync": to("/"),
	}}
}

// movingName adds a Source whose index names two parts at a host that is allowed when it is looked up first, and is the
// canary ever after. It returns how often the host was asked at the first place, nil where that cannot be had.
func (c *canary) movingName(t *testing.T, h *hostileRun) *atomic.Int64 {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.9", c.port))
	if err != nil {
		t.Logf("no second address: %v", err)
		return nil
	}
	var asked atomic.Int64
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Connection", "close") // so that it is dialled anew, and looked up anew
		fmt.Fprint(w, resourceList(""))
	}))
	_ = front.Listener.Close()
	front.Listener = l
	front.Start()
	t.Cleanup(front.Close)
	moving := "<sitemap><loc>http://moving.example:" + c.port
	h.add(badSource{name: "a name that moves", want: behind(2, "not public"), pages: pages{
		"/list.xml": {body: indexHead + moving + "/1.xml</loc></sitemap>" + moving + "/2.xml</loc></sitemap>" + parts("/1.xml") + indexTail},
		"/1.xml":    {body: resourceList(entries("/r/a", "/r/b"))},
	}})
	return &asked
}

// serveHubs runs the daemon until it has tried, and failed, to subscribe at each hub.
func (h *hostileRun) serveHubs(hubs int) {
	t := h.t
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var log buffer
	ended := serving(ctx, &log, []string{h.program, "serve", "--config", h.config(), "--log-format", "json"}, h.env())
	var tried map[store.SubscriptionState]int
	err := poll("every hub was tried", func() (bool, error) {
		select {
		case e := <-ended:
			return false, fmt.Errorf("the daemon ended with %d: %s", e.code, log.String())
		default:
		}
		var err error
		tried, err = h.subscriptions()
		return tried[store.SubFailed] >= hubs, err
	})
	if err != nil {
		t.Errorf("%v: %v of %d", err, tried, hubs)
	}
	stop()
	e := <-ended
	if e.code != exit.Done && e.code != exit.Interrupted {
		t.Errorf("the daemon ended with %d: %s", e.code, log.String())
	}
	h.peak = max(h.peak, e.peak)
}

// subscriptions counts them by state; one that had its failure counts as failed, whatever it tries next.
func (h *hostileRun) subscriptions() (map[store.SubscriptionState]int, error) {
	st, err := sqlite.Open(h.t.Context(), filepath.Join(h.data(), mirror.StateFile), sqlite.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = st.Close() }()
	subs, err := st.Subscriptions(h.t.Context(), 0, true)
	n := map[store.SubscriptionState]int{}
	for i := range subs {
		state := subs[i].State
		if subs[i].Attempts > 0 || subs[i].Reason != "" {
			state = store.SubFailed
		}
		n[state]++
	}
	return n, err
}
