package callback

import (
	"container/list"
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

// phase is what a connection is at.
type phase int

const (
	idle      phase = iota // between requests
	receiving              // sending us a request, or about to send the first one
	working                // waiting for our answer
	gone
)

// gate is the listener with its caps. When there is no room for a new connection the one that has idled longest goes, or
// else the one that has been sending its request longest: slow senders are dropped for others, not others for them, and
// who waits for an answer is never dropped.
type gate struct {
	net.Listener
	tls        *tls.Config
	max, perIP int
	exempt     []netip.Prefix
	log        *slog.Logger

	mu    sync.Mutex
	conns int
	byIP  map[netip.Prefix]int
	queue [working]list.List // of *conn, by phase; the longest in it first
	fresh map[*conn]struct{} // receiving, but not a byte yet

	once   sync.Once
	closed chan struct{} // nothing is accepted any more
	cut    chan struct{} // closed by Serve: nothing is answered any more
}

// conn is a connection that is counted.
type conn struct {
	net.Conn
	gate *gate
	ip   netip.Prefix // zero: not counted alone

	// Under gate.mu:
	phase phase
	place *list.Element
}

func newGate(o ServerOptions) *gate {
	const conns, perIP = 4096, 256
	g := &gate{
		Listener: o.Listener, max: o.MaxConns, perIP: o.MaxConnsPerIP, exempt: o.Exempt, log: o.Log,
		byIP: make(map[netip.Prefix]int), fresh: make(map[*conn]struct{}), closed: make(chan struct{}), cut: make(chan struct{}),
	}
	if o.TLS != nil {
		g.tls = o.TLS.Config()
	}
	if g.max <= 0 {
		g.max = conns
	}
	if g.perIP <= 0 {
		g.perIP = perIP
	}
	return g
}

// Accept returns the next connection. To be out of descriptors or memory is a passing state (F11): what can be spared is
// dropped.
func (g *gate) Accept() (net.Conn, error) {
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
				g.log.Warn("cannot accept connections of hubs for the moment: raise the limit of open files if this stays", "err", err)
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
			return tls.Server(tracked, g.tls), nil // its handshake comes under the deadline of headers
		default:
			return tracked, nil
		}
	}
}

func passing(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EINTR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Close stops accepting, and drops connections on which nothing was asked yet.
func (g *gate) Close() error {
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

// admit counts a new connection, in the place of another where it must be.
func (g *gate) admit(raw net.Conn) (*conn, bool) {
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

// dropOne closes the connection that is missed least: of one address, if that is given.
func (g *gate) dropOne(ip netip.Prefix) bool {
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

// countedAs is the address that a connection is counted under, none for one that many may share.
func (g *gate) countedAs(addr net.Addr) netip.Prefix {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	if !ip.IsValid() || ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() {
		return netip.Prefix{}
	}
	for _, p := range g.exempt {
		if p.Contains(ip) {
			return netip.Prefix{}
		}
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

// state is the server's ConnState.
func (g *gate) state(nc net.Conn, s http.ConnState) {
	c := trackedOf(nc)
	if c == nil {
		return
	}
	switch s {
	case http.StateActive:
		g.enter(c, receiving)
	case http.StateIdle:
		g.enter(c, idle)
	case http.StateNew, http.StateHijacked, http.StateClosed: // admit and Close see to these
	}
}

func trackedOf(nc net.Conn) *conn {
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	c, _ := nc.(*conn)
	return c
}

// enter notes a connection's phase, unless it is gone.
func (g *gate) enter(c *conn, p phase) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.phase != gone {
		delete(g.fresh, c)
		g.move(c, p)
	}
}

func (g *gate) move(c *conn, p phase) {
	if c.place != nil {
		g.queue[c.phase].Remove(c.place)
		c.place = nil
	}
	if c.phase = p; p < working {
		c.place = g.queue[p].PushBack(c)
	}
}

// leave stops counting a connection.
func (g *gate) leave(c *conn) {
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

// Close closes the connection and makes room for another.
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
