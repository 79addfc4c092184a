package fetch

import (
	"log/slog"
	"net/netip"
	"time"
)

// Options configure a Client. The zero value allows public addresses only.
type Options struct {
	// UserAgent is sent with every request; default "resyncd".
	UserAgent string
	// Allow lists the networks beyond public addresses that may be dialled (network.allow).
	Allow []netip.Prefix
	// Concurrency is the most requests under way at one host; default 16. The number adapts to the host (F53).
	Concurrency int
	// IdleTimeout cuts a transfer that moves nothing for this long; default 60 s (F54). There is no total timeout.
	IdleTimeout time.Duration
	// Retries is how often one Get quickly retries a transient failure; default 2, below 0 for never.
	Retries int
	// Log receives retries and changes of pace at Debug; nil for silence.
	Log *slog.Logger
}

const (
	defaultUserAgent   = "resyncd"
	defaultConcurrency = 16
	defaultIdle        = 60 * time.Second
	defaultRetries     = 2

	// Without a minimum rate one byte now and then would hold a connection for ever (F54).
	minRate       = 64
	minRateWindow = 60 * time.Second
	// A longer wait, for Retry-After or the circuit, comes back at once as Throttled.
	maxWait = 2 * time.Second

	dialTimeout      = 10 * time.Second // F54
	tlsTimeout       = 10 * time.Second
	headerTimeout    = 30 * time.Second
	idleConnection   = 90 * time.Second
	headerLimit      = 256 << 10 // P8
	errorBodyLimit   = 4 << 10   // F27
	openDocuments    = 64        // beside those of resources
	errorBodyTimeout = 5 * time.Second
	redirectLimit    = 5         // F60
	retryAfterCap    = time.Hour // F53
)

func (o Options) withDefaults() Options {
	if o.UserAgent == "" {
		o.UserAgent = defaultUserAgent
	}
	if o.Concurrency <= 0 {
		o.Concurrency = defaultConcurrency
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = defaultIdle
	}
	switch {
	case o.Retries == 0:
		o.Retries = defaultRetries
	case o.Retries < 0:
		o.Retries = 0
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
