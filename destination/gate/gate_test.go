package gate

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener in memory, which works inside a synctest bubble.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

// from is a connection from somewhere.
type from struct {
	net.Conn
	addr string
}

func (f from) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(f.addr))
}

func (p *pipes) dial(addr string) net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- from{theirs, addr}
	return ours
}

// TestCounts: whatever happens to connections, they are counted right.
func TestCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		g := newGate(Options{Listener: p, MaxConns: 3, MaxConnsPerIP: 2})
		answer := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { Received(r.Context()) })
		srv := &http.Server{Handler: answer, ConnState: g.state, ConnContext: g.context, IdleTimeout: time.Second}
		go func() { _ = srv.Serve(g) }()
		for n := range 40 {
			c := p.dial(fmt.Sprintf("203.0.113.%d:%d", n%3, n+1))
			switch n % 4 {
			case 0:
				go func() { _, _ = io.Copy(io.Discard, c) }()
				_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			case 1:
				_, _ = io.WriteString(c, "POST")
			case 2:
				_ = c.Close()
			}
			synctest.Wait()
			g.mu.Lock()
			sum := 0
			for _, n := range g.byIP {
				sum += n
			}
			if len(g.conns) > 3 || len(g.conns) != sum {
				t.Errorf("%d connections, %d by address", len(g.conns), sum)
			}
			for c := range g.conns {
				if c.phase == gone || c.phase == working {
					t.Errorf("a connection that nobody answers is in phase %d", c.phase)
				}
			}
			g.mu.Unlock()
			defer c.Close()
		}
		_ = srv.Close()
		synctest.Wait()
		if len(g.conns) != 0 || len(g.byIP) != 0 {
			t.Errorf("left: %v, %v", g.conns, g.byIP)
		}
		if _, err := g.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a closed gate accepts: %v", err)
		}
	})
}
