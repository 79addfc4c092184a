package fetch

import (
	"log/slog"
	"net/netip"
	"time"
)

// Options configure a Client. The zero value is usable: public addresses only, sixteen requests at
// a time per host.
type Options struct {
	// UserAgent is sent with every request; default "resyncd".
	UserAgent string
	// Allow lists the networks beyond public addresses that may be dialled (network.allow).
	Allow []netip.Prefix
	// Concurrency is the maximum of requests under way at one host; default 16. Below it the number
	// adapts to the host (F53). Policy.Concurrency may lower it.
	Concurrency int
	// Rate is the number of requests a second to one host, 0 for no limit. Policy.Rate may set another.
	Rate float64
	// IdleTimeout cuts a transfer that moves nothing for this long; default 60 s (F54). There is no total timeout.
	IdleTimeout time.Duration
	// Retries is how often one Get quickly retries a transient failure; default 2, below 0 for
	// never. Slower retries are the business of the caller's ledger.
	Retries int
	// Log receives retries and changes of pace at Debug; nil for silence. URLs in it are redacted.
	Log *slog.Logger
}

const (
	defaultUserAgent   = "resyncd"
	defaultConcurrency = 16
	defaultIdle        = 60 * time.Second
	defaultRetries     = 2

	// A body must bring minRate bytes a second on average over minRateWindow of waiting, so that one
	// byte now and then does not hold a connection for ever (F54).
	minRate       = 64
	minRateWindow = 60 * time.Second
	// maxWait is the longest that a Get sleeps for a host, between its quick retries and while the
	// host is closed. A longer wait, for Retry-After or the circuit, comes back at once as a
	// Throttled error.
	maxWait = 2 * time.Second

	dialTimeout      = 10 * time.Second // F54
	tlsTimeout       = 10 * time.Second
	headerTimeout    = 30 * time.Second
	idleConnection   = 90 * time.Second
	headerLimit      = 256 << 10 // bytes of response header that a peer may send (P8)
	errorBodyLimit   = 4 << 10   // bytes of an error page that are read (F27)
	openDocuments    = 64        // connections to one host beside those of resources
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
