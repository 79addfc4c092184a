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

const (
	headerTime  = 5 * time.Second
	requestTime = 10 * time.Second
	answerTime  = requestTime + readTime + 10*time.Second
	idleTime    = 30 * time.Second
	stopTime    = 3 * time.Second
	headerBytes = 16 << 10
	connections = 256
)

// Serve answers on a listener, which it closes, until ctx ends; then requests have 3 s to end.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, log *slog.Logger) error {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	base, cut := context.WithCancel(context.WithValue(context.WithoutCancel(ctx), endingKey{}, ctx))
	defer cut()
	var open sync.RWMutex
	var closed bool
	var protocols http.Protocols
	protocols.SetHTTP1(true) // for deadlines and caps of connections
	// Who is slow makes room for others, so that /healthz always answers.
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
	err := gate.Serve(ctx, server, door, stopTime)
	_ = server.Close() // also where the listener broke
	cut()
	open.Lock()
	closed = true
	open.Unlock()
	if err != nil {
		return fmt.Errorf("the console: %w", err)
	}
	return nil
}
