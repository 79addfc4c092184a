package fetch

import (
	"context"
	"net/url"
	"time"
)

// exchange is the state of one Get or Send. It travels in the context, because retryablehttp hands nothing else
// through.
type exchange struct {
	client    *Client
	req       Request  // of Send only URL and Policy
	url       *url.URL // of the current hop
	text      string   // url.String()
	at        *origin
	hop       int
	requests  int
	throttled bool // the host throttles all requests
	resting   bool // Request.Resting was told
	location  string
	slot      *host // held until the body is closed

	// Allocated with the exchange, because small downloads would pay for each one.
	body     body
	capped   capped
	response Response
}

func (ex *exchange) notifyWait(begins bool, at time.Time) {
	if ex.req.Waiting != nil {
		ex.req.Waiting(begins, at)
	}
}

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

func (ex *exchange) to(u *url.URL, text string) {
	ex.url, ex.text, ex.at = u, text, ex.client.origins.of(u, ex.req.Policy)
	ex.location = ""
}

// releaseSlot ends the use of the host's slot, if the exchange holds one for its body.
func (ex *exchange) releaseSlot() {
	if ex.slot != nil {
		ex.slot.release()
		ex.slot = nil
	}
}
