package callback

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// ServerOptions of Serve. Listener and Handler are needed.
type ServerOptions struct {
	Listener net.Listener
	Handler  http.Handler  // a *Callback
	TLS      *Certificates // nil: plain
	// MaxConns is how many connections there may be at once: 4,096. MaxConnsPerIP is how many of one address (IPv6: of one
	// /64): 256. Loopback and private addresses, where reverse proxies live, and those of Exempt are not counted alone.
	MaxConns, MaxConnsPerIP int
	Exempt                  []netip.Prefix
	Log                     *slog.Logger

	headerTime time.Duration // for tests
}

// Deadlines and sizes of the callback listener (go-notes: a server of net/http has none of its own).
const (
	headerTime  = 5 * time.Second
	requestTime = 10 * time.Second // from a request's headers to the last byte of its body
	idleTime    = 10 * time.Second
	answerTime  = requestTime + patience + 5*time.Second // from a request's headers to the last byte of its answer
	headerBytes = 16 << 10
)

// Serve answers on a listener, which it closes, until ctx ends. Then it accepts nothing more, lets requests end for 5 s
// and returns nil, when no handler is running any more.
func Serve(ctx context.Context, o ServerOptions) error {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.headerTime <= 0 {
		o.headerTime = headerTime
	}
	door := newGate(o)
	var handlers sync.RWMutex // each handler holds it for reading
	stopped := false
	// One protocol, so that deadlines and caps of connections are those of requests. Hubs speak nothing else.
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handlers.RLock()
			defer handlers.RUnlock()
			if stopped {
				panic(http.ErrAbortHandler) // its connection is closed already
			}
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(requestTime))
			o.Handler.ServeHTTP(w, r)
		}),
		DisableGeneralOptionsHandler: true, // "OPTIONS *" is another method
		Protocols:                    &protocols,
		ReadHeaderTimeout:            o.headerTime,
		WriteTimeout:                 answerTime,
		IdleTimeout:                  idleTime,
		MaxHeaderBytes:               headerBytes,
		ConnState:                    door.state,
		ConnContext:                  connContext,
		BaseContext:                  func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		// What net/http has to say is about strangers: handshakes that failed, answers nobody waited for.
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(door) }()
	var broken error
	select {
	case err := <-served:
		broken = fmt.Errorf("listen for hubs on %s: %w", o.Listener.Addr(), err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	_ = srv.Shutdown(stop) // whose errors are that time is over, and that the listener is closed already
	_ = srv.Close()        // who is still sending is cut off
	close(door.cut)
	if broken == nil {
		<-served
	}
	handlers.Lock()
	stopped = true
	handlers.Unlock()
	return broken
}

type connKey struct{}

// connContext lets a handler find its connection.
func connContext(ctx context.Context, c net.Conn) context.Context {
	if tracked := trackedOf(c); tracked != nil {
		return context.WithValue(ctx, connKey{}, tracked)
	}
	return ctx
}

// received says that a request is here, whole: its connection is no longer one to be dropped for others.
func received(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.gate.enter(c, working)
	}
}

// cutOff is closed when a request will get no answer any more because the server stops; nil outside a server.
func cutOff(ctx context.Context) <-chan struct{} {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		return c.gate.cut
	}
	return nil
}
