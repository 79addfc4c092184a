package callback

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/store"
)

// pipes is a listener in memory, which works inside a synctest bubble.
type pipes struct {
	conns chan net.Conn
	fails chan error
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes {
	return &pipes{conns: make(chan net.Conn), fails: make(chan error), done: make(chan struct{})}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case err := <-p.fails:
		return nil, err
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

// from is a connection from somewhere.
type from struct {
	net.Conn
	addr net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.addr }

// dial connects from an address.
func (p *pipes) dial(addr string) net.Conn {
	ours, theirs := net.Pipe()
	var a net.Addr = &net.UnixAddr{}
	if addr != "" {
		a = net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))
	}
	p.conns <- from{theirs, a}
	return ours
}

// inBubble serves a site in memory.
func inBubble(t *testing.T, change func(*Options), more ...func(*ServerOptions)) (*site, *pipes) {
	t.Helper()
	s, p := start(t, change), newPipes()
	open(t, s, p, more...)
	return s, p
}

const request = "POST /cb/" + tokenOf + " HTTP/1.1\r\nHost: h\r\n"

// exchange sends and reads one answer.
func exchange(t *testing.T, c net.Conn, text string) *http.Response {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Errorf("send: %v", err)
		return &http.Response{}
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Errorf("no answer: %v", err)
		return &http.Response{}
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp
}

func good(body string) string {
	return fmt.Sprintf("%sX-Hub-Signature: %s\r\nContent-Length: %d\r\n\r\n%s", request, sign(body), len(body), body)
}

// closedAfter reads until the server closes.
func closedAfter(t *testing.T, c net.Conn) (after time.Duration, answer string) {
	t.Helper()
	began := time.Now()
	b, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("closed with %v", err)
	}
	return time.Since(began), string(b)
}

// TestDeadlines: nobody holds a connection longer than its phase allows.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	drip := func(c net.Conn) { // a byte a second, for ever
		for {
			<-time.After(time.Second)
			if _, err := io.WriteString(c, "x"); err != nil {
				return
			}
		}
	}
	for name, tc := range map[string]struct {
		send     string
		drip     bool
		min, max time.Duration
		answer   string
	}{
		"nothing":                            {"", false, headerTime, headerTime, ""},
		"half a header":                      {"POST /cb/", false, headerTime, headerTime, "HTTP/1.1 400 "},
		"header by drops":                    {"POST /cb/", true, headerTime, headerTime, "HTTP/1.1 400 "},
		"body by drops":                      {request + "Content-Length: 1000\r\n\r\n", true, requestTime, requestTime + time.Second, "HTTP/1.1 408 "},
		"body, nothing":                      {request + "Content-Length: 1000\r\n\r\n", false, requestTime, requestTime + time.Second, "HTTP/1.1 408 "},
		"chunks, nothing":                    {request + "Transfer-Encoding: chunked\r\n\r\n", false, requestTime, requestTime + time.Second, "HTTP/1.1 408 "},
		"too large, by drops":                {request + "Content-Length: 10000000\r\n\r\n", true, requestTime, requestTime + time.Second, "HTTP/1.1 413 "},
		"unknown token, body by drops":       {"POST /cb/nobody HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n", true, 2 * time.Second, 3 * time.Second, "HTTP/1.1 404 "},
		"another method, body by drops":      {"PUT /cb/nobody HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n", true, 2 * time.Second, 3 * time.Second, "HTTP/1.1 405 "},
		"verification with a body by drops":  {"GET /cb/" + tokenOf + query("subscribe", topic, "abc") + " HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n", true, requestTime, requestTime + time.Second, "HTTP/1.1 200 "},
		"waits for 100 Continue, in vain":    {"POST /cb/nobody HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n", false, 0, time.Second, "HTTP/1.1 404 "},
		"an answer, and then nothing":        {good("x"), false, idleTime, idleTime, "HTTP/1.1 200 "},
		"an answer, and then half a request": {good("x") + "POST", false, headerTime, headerTime + time.Second, "HTTP/1.1 200 "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, p := inBubble(t, nil)
				c := p.dial("")
				defer c.Close()
				var wg sync.WaitGroup
				wg.Go(func() {
					if _, err := io.WriteString(c, tc.send); err == nil && tc.drip {
						drip(c)
					}
				})
				after, answer := closedAfter(t, c)
				if after < tc.min || after > tc.max || !strings.HasPrefix(answer, tc.answer) || (answer == "") != (tc.answer == "") {
					t.Errorf("closed after %v with %q", after, answer)
				}
				_ = c.Close()
				wg.Wait()
			})
		})
	}
}

// TestSlowloris: hundreds of slow senders neither delay good notifications nor stay.
func TestSlowloris(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, func(o *ServerOptions) { o.headerTime = 3 * time.Second })
	var slow []net.Conn
	for range 300 {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "POST /cb/"+tokenOf+" HTTP/1.1\r\nHost:")
		slow = append(slow, c)
	}
	c := client(t)
	var worst time.Duration
	for n := range 100 {
		began := time.Now()
		body := fmt.Sprint("note ", n)
		if resp, _ := ask(t, c, "POST", s.base+tokenOf, body, "X-Hub-Signature", sign(body)); resp.StatusCode != 200 {
			t.Fatal(resp.Status)
		}
		worst = max(worst, time.Since(began))
	}
	if worst > 2*time.Second { // far from the deadline of the slow ones
		t.Errorf("a good notification took %v", worst)
	}
	for _, c := range slow {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.ReadAll(c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("a slow sender is still there: %v", err)
		}
	}
}

// TestOrderlyStop: what is under way ends well, fresh and idle connections go at once, slow ones after 5 s (F4).
func TestOrderlyStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		s, p := start(t, nil), newPipes()
		s.store.deliver = func([]*store.Delivery) error { <-let; return nil }
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- Serve(ctx, ServerOptions{Listener: p, Handler: s}) }()
		fresh, busy, slow := p.dial(""), p.dial(""), p.dial("")
		status := make(chan int, 1)
		go func() { status <- exchange(t, busy, good("x")).StatusCode }()
		_, _ = io.WriteString(slow, "POST /cb/")
		synctest.Wait()
		began := time.Now()
		stop()
		if _, err := fresh.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // exactly
			t.Error(err)
		}
		<-time.After(time.Second)
		close(let)
		if got := <-status; got != 200 {
			t.Errorf("the last one was answered %d", got)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < time.Second || took > stopTime+time.Second {
			t.Errorf("stopped after %v", took)
		}
		for _, c := range []net.Conn{fresh, busy, slow} {
			_ = c.Close()
		}
	})
}

// TestStopOfAHangingStore: a stop does not wait for a commit that never ends.
func TestStopOfAHangingStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		s, p := start(t, nil), newPipes()
		s.store.deliver = func([]*store.Delivery) error { <-let; return nil }
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- Serve(ctx, ServerOptions{Listener: p, Handler: s}) }()
		c := p.dial("")
		go func() { _, _ = io.WriteString(c, good("x")) }()
		synctest.Wait()
		began := time.Now()
		stop()
		if err := <-served; err != nil || time.Since(began) > stopTime+time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		close(let)
		_ = c.Close()
	})
}

// TestNoAnswerRead: who does not read its answer does not keep us.
func TestNoAnswerRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, p := inBubble(t, nil)
		c := p.dial("") // a pipe has no buffer
		began := time.Now()
		_, _ = io.WriteString(c, good("x"))
		synctest.Wait()
		s.answered(t)
		for { // until the server gives the connection up
			if _, err := io.WriteString(c, "x"); err != nil {
				break
			}
		}
		if took := time.Since(began); took > answerTime+time.Second {
			t.Errorf("held for %v", took)
		}
		_ = c.Close()
	})
}
