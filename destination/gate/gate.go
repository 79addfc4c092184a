// Package gate knows which connections of a server stay when there is no room for all. It refuses to know what is sent
// on them.
package gate

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

type phase int

const (
	idle      phase = iota // between requests
	receiving              // or waiting for the first one
	working                // a handler is answering
	gone
)

// Options of New. Listener is needed.
type Options struct {
	Listener net.Listener
	TLS      *tls.Config
	// MaxConns is how many connections there may be at once: 4,096. MaxConnsPerIP is how many of one address (IPv6: of
	// one /64): 256. Loopback and private addresses, where reverse proxies live, and those of Exempt have no limit of
	// their own.
	MaxConns, MaxConnsPerIP int
	Exempt                  []netip.Prefix
	Log                     *slog.Logger
}

// Gate is a listener with caps. For a new connection the one that has idled longest is dropped, or else the one that
// has been sending its request longest, so that slow senders cannot keep others out. A connection that waits for an
// answer is never dropped.
//
// State and Context are the ConnState and ConnContext of the http.Server that it listens for.
type Gate struct {
	net.Listener
	tls        *tls.Config
	max, perIP int
	exempt     []netip.Prefix
	log        *slog.Logger

	mu    sync.Mutex
	conns int
	byIP  map[netip.Prefix]int
	queue [working]list.List // of *conn, by phase; the longest in it first
	fresh map[*conn]struct{} // receiving, without a byte yet

	once   sync.Once
	closed chan struct{} // nothing is accepted any more
	cut    chan struct{} // nothing is answered any more
}

type conn struct {
	net.Conn
	gate *Gate
	ip   netip.Prefix // zero: no limit of its own

	// Under gate.mu:
	phase phase
	place *list.Element
}

// New makes the gate of a server.
func New(o Options) *Gate {
	const conns, perIP = 4096, 256
	g := &Gate{
		Listener: o.Listener, tls: o.TLS, max: o.MaxConns, perIP: o.MaxConnsPerIP, exempt: o.Exempt, log: o.Log,
		byIP:  make(map[netip.Prefix]int),
		fresh: make(map[*conn]struct{}), closed: make(chan struct{}), cut: make(chan struct{}),
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	if g.max <= 0 {
		g.max = conns
	}
	if g.perIP <= 0 {
		g.perIP = perIP
	}
	return g
}

type connKey struct{}

// Context lets a handler find its connection.
func (g *Gate) Context(ctx context.Context, c net.Conn) context.Context {
	if tracked := trackedOf(c); tracked != nil {
		return context.WithValue(ctx, connKey{}, tracked)
	}
	return ctx
}

// Received notes that the whole request of a context has arrived: its connection is no longer dropped.
func Received(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.gate.enter(c, working)
	}
}

// Cut announces that nothing is answered any more.
func (g *Gate) Cut() { close(g.cut) }

// CutOff is closed when a request will get no answer; nil outside a server.
func CutOff(ctx context.Context) <-chan struct{} {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		return c.gate.cut
	}
	return nil
}

// Accept drops connections instead of failing on a lack of descriptors or memory (F11).
func (g *Gate) Accept() (net.Conn, error) {
	const shortest, longest, quiet = 5 * time.Millisecond, time.Second, time.Minute
	pause := shortest
	var told time.Time
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			if !passing(err) {
				return nil, err
			}
			if now := time.Now(); now.Sub(told) >= quiet {
				told = now
				g.log.Warn("cannot accept connections for the moment: raise the limit of open files if this stays",
					"err", err)
			}
			g.dropOne(netip.Prefix{})
			select {
			case <-g.closed:
				return nil, net.ErrClosed
			case <-time.After(pause):
			}
			pause = min(2*pause, longest)
			continue
		}
		pause = shortest
		tracked, ok := g.admit(c)
		switch {
		case !ok:
			_ = c.Close()
		case g.tls != nil:
			return tls.Server(tracked, g.tls), nil // the handshake comes under the deadline of headers
		default:
			return tracked, nil
		}
	}
}

func passing(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED,
		syscall.EINTR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Close stops accepting, and drops connections without a request.
func (g *Gate) Close() error {
	err := g.Listener.Close()
	g.once.Do(func() { close(g.closed) })
	g.mu.Lock()
	var drop []*conn
	for c := range g.fresh {
		drop = append(drop, c)
	}
	g.mu.Unlock()
	for _, c := range drop {
		_ = c.Close()
	}
	return err
}

func (g *Gate) admit(raw net.Conn) (*conn, bool) {
	c := &conn{Conn: raw, gate: g, ip: g.countedAs(raw.RemoteAddr()), phase: gone}
	for {
		g.mu.Lock()
		crowded := netip.Prefix{}
		switch {
		case c.ip.IsValid() && g.byIP[c.ip] >= g.perIP:
			crowded = c.ip
		case g.conns < g.max:
			g.conns++
			if c.ip.IsValid() {
				g.byIP[c.ip]++
			}
			g.fresh[c] = struct{}{}
			g.move(c, receiving)
			g.mu.Unlock()
			return c, true
		}
		g.mu.Unlock()
		if !g.dropOne(crowded) {
			return nil, false
		}
	}
}

// dropOne closes the connection that is missed least, of ip if it is valid.
func (g *Gate) dropOne(ip netip.Prefix) bool {
	g.mu.Lock()
	var victim *conn
	for p := range g.queue {
		for e := g.queue[p].Front(); e != nil && victim == nil; e = e.Next() {
			if c := e.Value.(*conn); !ip.IsValid() || c.ip == ip { //nolint:forcetypeassert // nothing else is in it
				victim = c
			}
		}
	}
	if victim != nil {
		g.leave(victim)
	}
	g.mu.Unlock()
	if victim == nil {
		return false
	}
	_ = victim.Conn.Close()
	return true
}

// countedAs is zero for an address that many clients may share.
func (g *Gate) countedAs(addr net.Addr) netip.Prefix {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr()
	for _, p := range g.exempt {
		if p.Contains(ip.Unmap().WithZone("")) {
			return netip.Prefix{}
		}
	}
	return Client(ip)
}

// Client is the limit's key for a client: its address, or its /64, because an IPv6 client chooses freely there.
func Client(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap().WithZone("")
	if !ip.IsValid() || ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() {
		return netip.Prefix{}
	}
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// State follows the server's state of a connection.
func (g *Gate) State(nc net.Conn, s http.ConnState) {
	c := trackedOf(nc)
	if c == nil {
		return
	}
	switch s {
	case http.StateActive:
		g.enter(c, receiving)
	case http.StateIdle:
		g.enter(c, idle)
	case http.StateNew, http.StateHijacked, http.StateClosed: // handled by admit and Close
	}
}

func trackedOf(nc net.Conn) *conn {
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	c, _ := nc.(*conn)
	return c
}

func (g *Gate) enter(c *conn, p phase) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.phase != gone {
		delete(g.fresh, c)
		g.move(c, p)
	}
}

func (g *Gate) move(c *conn, p phase) {
	if c.place != nil {
		g.queue[c.phase].Remove(c.place)
		c.place = nil
	}
	if c.phase = p; p < working {
		c.place = g.queue[p].PushBack(c)
	}
}

func (g *Gate) leave(c *conn) {
	if c.phase == gone {
		return
	}
	g.move(c, gone)
	delete(g.fresh, c)
	g.conns--
	if c.ip.IsValid() {
		if g.byIP[c.ip]--; g.byIP[c.ip] == 0 {
			delete(g.byIP, c.ip)
		}
	}
}

func (c *conn) Close() error {
	c.gate.mu.Lock()
	c.gate.leave(c)
	c.gate.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite lets the server end its half first, so that a peer that still sends reads the answer.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
