package fetch

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// exchange is the state of one Get, shared by its retries and redirects. It travels in the context of the requests,
// because retryablehttp hands nothing else through; only the goroutine of the Get touches it.
type exchange struct {
	policy    *Policy
	origins   *origins
	url       *url.URL // of the current hop
	text      string   // the same, written out
	at        *origin  // what follows from it
	hop       int
	requests  int
	document  bool   // its body takes no place, see Request.Gzip
	queued    bool   // a Retry-After is slept out by a queue, not here
	throttled bool   // the host complains of all requests
	location  string // of the last redirect answer
	first     *firstTry
	waiting   func(begins bool, at time.Time)
	resting   func(begins bool)
	dates     *dates

	// The answer, here because it lives as long: made one by one, its parts were a tenth of what a small download allocated.
	placed   placed
	body     body
	capped   capped
	response Response
}

// waits tells whoever wants to know that a wait for the peer begins or ends.
func (ex *exchange) waits(begins bool, at time.Time) {
	if ex.waiting != nil {
		ex.waiting(begins, at)
	}
}

// firstTry is what the first try of a hop met, for the engine of retries to begin with.
type firstTry struct {
	resp *http.Response
	err  error
}

type exchangeKey struct{}

func (ex *exchange) within(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, ex)
}

func exchangeOf(ctx context.Context) *exchange {
	ex, _ := ctx.Value(exchangeKey{}).(*exchange)
	return ex
}

// to points the exchange at its next URL, whose text is u.String().
func (ex *exchange) to(u *url.URL, text string) {
	ex.url, ex.text, ex.at = u, text, ex.origins.of(u, ex.policy)
	ex.location = ""
}

// hold makes b give the place at h back when it is closed. An exchange has one such body: a usable answer ends it.
func (ex *exchange) hold(b io.ReadCloser, h *host) io.ReadCloser {
	ex.placed = placed{ReadCloser: b, host: h}
	return &ex.placed
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
