package console

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"resyncd/destination/gate"
)

// Deadlines and sizes of the console's listener (go-notes: a server of net/http has none of its own).
const (
	headerTime  = 5 * time.Second
	requestTime = 10 * time.Second
	answerTime  = requestTime + readTime + 10*time.Second // from a request's headers to the last byte of its answer
	idleTime    = 30 * time.Second
	stopTime    = 3 * time.Second
	headerBytes = 16 << 10
	connections = 256
)

// Serve answers by handler on a listener, which it closes, until ctx ends; then it lets requests end for 3 s and
// returns nil. An error means that it cannot listen any more. log takes what net/http complains of, nil for nowhere.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, log *slog.Logger) error {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	base, cut := context.WithCancel(context.WithValue(context.WithoutCancel(ctx), endingKey{}, ctx))
	defer cut()
	var open sync.RWMutex // read by each running handler
	var closed bool
	var protocols http.Protocols
	protocols.SetHTTP1(true) // so that deadlines and caps of connections are those of requests
	// Whoever is slow to ask or to read makes room for others, so that /healthz always answers: a page is asked for
	// again.
	door := gate.New(gate.Options{Listener: listener, MaxConns: connections, Log: log})
	server := &http.Server{
		ConnState:   door.State,
		ConnContext: door.Context,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			open.RLock()
			defer open.RUnlock()
			if !closed {
				handler.ServeHTTP(w, r)
			}
		}),
		DisableGeneralOptionsHandler: true,
		Protocols:                    &protocols,
		ReadHeaderTimeout:            headerTime,
		ReadTimeout:                  requestTime,
		WriteTimeout:                 answerTime,
		IdleTimeout:                  idleTime,
		MaxHeaderBytes:               headerBytes,
		BaseContext:                  func(net.Listener) context.Context { return base },
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(door) }()
	var broken error
	select {
	case err := <-served:
		broken = fmt.Errorf("serve the console on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	_ = server.Shutdown(stop) // its errors: time is over, or the listener is closed already
	_ = server.Close()        // ends what is still being read or written
	cut()
	if broken == nil {
		<-served
	}
	open.Lock() // when the last handler has returned
	closed = true
	open.Unlock()
	return broken
}
