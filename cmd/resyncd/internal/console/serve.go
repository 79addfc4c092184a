package console

import (
	"context"
	"log/slog"
	"net"
	"net/http"
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
	var protocols http.Protocols
	protocols.SetHTTP1(true) // for deadlines and caps of connections
	server := &http.Server{
		Handler:                      handler,
		DisableGeneralOptionsHandler: true,
		Protocols:                    &protocols,
		ReadHeaderTimeout:            headerTime,
		ReadTimeout:                  requestTime,
		WriteTimeout:                 answerTime,
		IdleTimeout:                  idleTime,
		MaxHeaderBytes:               headerBytes,
	}
	// Who is slow makes room for others, so that /healthz always answers.
	return gate.Serve(context.WithValue(ctx, endingKey{}, ctx), server,
		gate.Options{Listener: listener, MaxConns: connections, Grace: stopTime, Log: log})
}
