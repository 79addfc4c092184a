package fetch

import (
	"context"
	"io"
	"net/url"
	"sync"
)

// exchange is the state of one Get, shared by its retries and redirects. It travels in the context of the requests,
// because retryablehttp hands nothing else through; only the goroutine of the Get touches it.
type exchange struct {
	policy    *Policy
	origins   *origins
	url       *url.URL // of the current hop
	at        *origin  // what follows from it
	hop       int
	requests  int
	document  bool   // its body takes no place, see Request.Gzip
	queued    bool   // a Retry-After is slept out by a queue, not here
	throttled bool   // the host complains of all requests
	location  string // of the last redirect answer
	waiting   func(begins bool)
}

// waits tells whoever wants to know that a wait for the peer begins or ends.
func (ex *exchange) waits(begins bool) {
	if ex.waiting != nil {
		ex.waiting(begins)
	}
}

type exchangeKey struct{}

func (ex *exchange) within(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, ex)
}

func exchangeOf(ctx context.Context) *exchange {
	ex, _ := ctx.Value(exchangeKey{}).(*exchange)
	return ex
}

// to points the exchange at its next URL.
func (ex *exchange) to(u *url.URL) {
	ex.url, ex.at = u, ex.origins.of(u, ex.policy)
	ex.location = ""
}

// placed is a body that holds its place at the host until it is closed.
type placed struct {
	io.ReadCloser
	host *host
	once sync.Once
}

func (p *placed) Close() error {
	err := p.ReadCloser.Close()
	p.once.Do(p.host.release)
	return err
}
