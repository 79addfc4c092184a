package fetch

import (
	"context"
	"io"
	"net/url"
	"sync"
	"time"
)

// exchange is the state of one Get, shared by its retries and redirects. It travels in the context
// of the requests, because retryablehttp hands nothing else through; only the goroutine of the Get
// touches it.
type exchange struct {
	client    *Client
	req       Request  // of Send only URL and Policy
	url       *url.URL // of the current hop
	text      string   // url.String()
	at        *origin  // derived from url
	hop       int
	requests  int
	throttled bool   // the host throttles all requests
	resting   bool   // Request.Resting was told of a retry
	location  string // of the last redirect answer

	// The parts of the answer are allocated with the exchange, because small downloads would pay
	// for each one.
	slotBody slotBody
	body     body
	capped   capped
	response Response
}

// notifyWait reports that a wait for the peer begins or ends.
func (ex *exchange) notifyWait(begins bool, at time.Time) {
	if ex.req.Waiting != nil {
		ex.req.Waiting(begins, at)
	}
}

// notifyRest reports once that the retries of a hop begin or end.
func (ex *exchange) notifyRest(begins bool) {
	if ex.req.Resting != nil && ex.resting != begins {
		ex.req.Resting(begins)
	}
	ex.resting = begins
}

type exchangeKey struct{}

func (ex *exchange) within(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, ex)
}

func exchangeOf(ctx context.Context) *exchange {
	ex, _ := ctx.Value(exchangeKey{}).(*exchange)
	return ex
}

// to moves the exchange to its next URL, whose text is u.String().
func (ex *exchange) to(u *url.URL, text string) {
	ex.url, ex.text, ex.at = u, text, ex.client.origins.of(u, ex.req.Policy)
	ex.location = ""
}

// hold makes b give the slot at h back when it is closed. An exchange has one such body, because a
// usable answer ends it.
func (ex *exchange) hold(b io.ReadCloser, h *host) io.ReadCloser {
	ex.slotBody = slotBody{ReadCloser: b, host: h}
	return &ex.slotBody
}

// slotBody is a body that holds its slot at the host until it is closed.
type slotBody struct {
	io.ReadCloser
	host *host
	once sync.Once
}

func (p *slotBody) Close() error {
	err := p.ReadCloser.Close()
	p.once.Do(p.host.release)
	return err
}
