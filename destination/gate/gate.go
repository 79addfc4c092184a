// Package gate knows which connections of a server stay when there is no room for all. It refuses to know what is sent
// on them.
package gate

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Options of Serve. Listener is needed.
type Options struct {
	Listener net.Listener
	TLS      *tls.Config
	// MaxConns is how many connections there may be at once: 4,096. MaxConnsPerIP is how many of one address (IPv6: of
	// one /64): 256. Loopback and private addresses, where reverse proxies live, have no limit of their own.
	MaxConns, MaxConnsPerIP int
	// Grace is how long what is running may take to end.
	Grace time.Duration
	Log   *slog.Logger
}

// Serve has a server answer on a listener until ctx ends, then gives what is running some time to end. It closes the
// listener, and returns nil after such an end, when no handler is running.
//
// There are caps of connections. For a new one the one that has idled longest is dropped, or else the one that has been
// sending its request longest, so that slow senders cannot keep others out. A connection that waits for an answer is
// never dropped.
func Serve(ctx context.Context, server *http.Server, o Options) error {
	g := newGate(o)
	var handlers sync.RWMutex // each handler holds it for reading
	stopped := false
	handler := server.Handler
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handlers.RLock()
		defer handlers.RUnlock()
		if stopped {
			panic(http.ErrAbortHandler) // the connection is closed already
		}
		handler.ServeHTTP(w, r)
	})
	base, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	g.cut = base.Done()
	server.BaseContext = func(net.Listener) context.Context { return base }
	server.ConnState, server.ConnContext = g.state, g.context
	// net/http reports only strangers: failed handshakes, abandoned answers.
	server.ErrorLog = slog.NewLogLogger(g.o.Log.Handler(), slog.LevelDebug)
	served := make(chan error, 1)
	go func() { served <- server.Serve(g) }()
	var broken error
	select {
	case err := <-served:
		broken = fmt.Errorf("serve on %s: %w", o.Listener.Addr(), err)
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Grace)
	defer cancel()
	_ = server.Shutdown(late) // the listener may be closed already
	_ = server.Close()        // cuts off those who are still sending or reading
	end()
	if broken == nil {
		<-served
	}
	handlers.Lock()
	stopped = true
	handlers.Unlock()
	return broken
}

type phase int

const (
	gone    phase = iota
	working       // a handler is answering
	fresh         // not a byte has come yet
	receiving
	idle // between requests
)

// gate is a listener with caps.
type gate struct {
	net.Listener
	o Options

	mu    sync.Mutex
	conns map[*conn]struct{}
	byIP  map[netip.Prefix]int
	moves int64

	shut   func()
	closed <-chan struct{} // nothing is accepted any more
	cut    <-chan struct{} // nothing is answered any more
}

type conn struct {
	net.Conn
	gate *gate
	ip   netip.Prefix // zero: no limit of its own

	// Under gate.mu:
	phase phase
	since int64 // gate.moves when the phase began
}

func newGate(o Options) *gate {
	const conns, perIP = 4096, 256
	o.MaxConns, o.MaxConnsPerIP = cmp.Or(o.MaxConns, conns), cmp.Or(o.MaxConnsPerIP, perIP)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	closed, shut := context.WithCancel(context.Background())
	return &gate{
		Listener: o.Listener, o: o, conns: make(map[*conn]struct{}), byIP: make(map[netip.Prefix]int),
		closed: closed.Done(), shut: shut,
	}
}

type connKey struct{}

// context lets a handler find its connection.
func (g *gate) context(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, trackedOf(c))
}

// Received notes that the whole request of a context has arrived: its connection is no longer dropped.
func Received(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.gate.enter(c, working)
	}
}

// CutOff is closed when a request will get no answer; nil outside a server.
func CutOff(ctx context.Context) <-chan struct{} {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		return c.gate.cut
	}
	return nil
}

// Accept drops connections instead of failing on a lack of descriptors or memory (F11).
func (g *gate) Accept() (net.Conn, error) {
	const shortest, longest, quiet = 5 * time.Millisecond, time.Second, time.Minute
	pause := shortest
	var told time.Time
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			if !slices.ContainsFunc(lacks, func(lack error) bool { return errors.Is(err, lack) }) {
				return nil, err
			}
			if now := time.Now(); now.Sub(told) >= quiet {
				told = now
				g.o.Log.Warn("cannot accept connections for the moment: raise the limit of open files if this stays",
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
		case g.o.TLS != nil:
			return tls.Server(tracked, g.o.TLS), nil // the handshake comes under the deadline of headers
		default:
			return tracked, nil
		}
	}
}

// lacks are the errors that pass.
var lacks = []error{
	syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EINTR,
}

// Close stops accepting, and drops connections without a request.
func (g *gate) Close() error {
	err := g.Listener.Close()
	g.shut()
	g.mu.Lock()
	var drop []*conn
	for c := range g.conns {
		if c.phase == fresh {
			drop = append(drop, c)
		}
	}
	g.mu.Unlock()
	for _, c := range drop {
		_ = c.Close()
	}
	return err
}

func (g *gate) admit(raw net.Conn) (*conn, bool) {
	c := &conn{Conn: raw, gate: g}
	if tcp, ok := raw.RemoteAddr().(*net.TCPAddr); ok {
		c.ip = Client(tcp.AddrPort().Addr())
	}
	for {
		g.mu.Lock()
		crowded := netip.Prefix{}
		switch {
		case c.ip.IsValid() && g.byIP[c.ip] >= g.o.MaxConnsPerIP:
			crowded = c.ip
		case len(g.conns) < g.o.MaxConns:
			g.conns[c] = struct{}{}
			g.byIP[c.ip]++
			g.move(c, fresh)
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
func (g *gate) dropOne(ip netip.Prefix) bool {
	g.mu.Lock()
	var victim *conn
	for c := range g.conns {
		if c.phase != working && (!ip.IsValid() || c.ip == ip) && (victim == nil || c.missedLessThan(victim)) {
			victim = c
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

// Client is the limit's key for a client: its address, or its /64, because an IPv6 client chooses freely there. It is
// zero for an address that many clients may share.
func Client(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap().WithZone("")
	if !ip.IsValid() || ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() {
		return netip.Prefix{}
	}
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits) // of an address there is one
	return p
}

// state follows the server's state of a connection.
func (g *gate) state(nc net.Conn, s http.ConnState) {
	c := trackedOf(nc)
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
	return nc.(*conn) //nolint:forcetypeassert // a server has no connections but those of Accept
}

// missedLessThan: idle ones go first, then who has been sending longest.
func (c *conn) missedLessThan(o *conn) bool {
	if (c.phase == idle) != (o.phase == idle) {
		return c.phase == idle
	}
	return c.since < o.since
}

func (g *gate) enter(c *conn, p phase) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.phase != gone {
		g.move(c, p)
	}
}

func (g *gate) move(c *conn, p phase) {
	g.moves++
	c.phase, c.since = p, g.moves
}

func (g *gate) leave(c *conn) {
	if c.phase == gone {
		return
	}
	c.phase = gone
	delete(g.conns, c)
	if g.byIP[c.ip]--; g.byIP[c.ip] == 0 {
		delete(g.byIP, c.ip)
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
