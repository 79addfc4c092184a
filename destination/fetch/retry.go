package fetch

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// A quick retry waits retryBase, the next one retryGrowth times as long, each with jitter down to the half. Its caller is
// one of so many workers, all of them as good as asleep when each fault costs a quarter of a second: 4 % of faults then
// made a baseline six times as long. What lasts longer than these few tries is for the caller's ledger.
const (
	retryBase   = 20 * time.Millisecond
	retryGrowth = 4
	// throttlePause is the wait after a 429 that does not say how long, and after such a 503 of a host that throttles.
	throttlePause = 250 * time.Millisecond
)

// newRetrier configures the engine for quick retries. Each line answers a trap of dependencies.md 3.2.
func (c *Client) newRetrier(rt http.RoundTripper) *retryablehttp.Client {
	return &retryablehttp.Client{
		HTTPClient: &http.Client{
			Transport: rt,
			// Redirects are ours (redirect.go). No Timeout: it would cut large bodies.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		Logger:       nil, // it would log every URL with its query, and every failed attempt at Error
		PrepareRetry: c.logRetry,
		RetryWaitMin: retryBase,
		RetryWaitMax: c.options.MaxWait,
		RetryMax:     c.options.Retries,
		CheckRetry:   c.checkRetry,
		Backoff:      backoff,
		ErrorHandler: retryablehttp.PassthroughErrorHandler, // else the last answer is thrown away
	}
}

// checkRetry retries by kind: never what we refused, never a wait that the ledger should do.
func (c *Client) checkRetry(ctx context.Context, resp *http.Response, err error) (bool, error) {
	switch {
	case ctx.Err() != nil:
		return false, nil
	case err != nil:
		k := classify(ctx, err)
		return k.kind == Transient && !isTimeout(k.err), nil
	case !quickly(resp.StatusCode):
		return false, nil
	}
	wait := retryAfter(resp.Header, time.Now())
	// The worker has other work meanwhile, but none for a host that throttles all of it: a whole queue handed back as fast
	// as it refuses would be asked for again and again, and be owed in the end.
	ex := exchangeOf(ctx)
	if ex.queued && !ex.throttled && (wait > 0 || resp.StatusCode == http.StatusTooManyRequests) {
		return false, nil
	}
	return wait <= c.options.MaxWait, nil
}

// backoff waits what the peer asked for (checkRetry has seen that it is short), else grows from shortest with jitter.
func backoff(shortest, longest time.Duration, attempt int, resp *http.Response) time.Duration {
	if resp != nil {
		if wait := retryAfter(resp.Header, time.Now()); wait > 0 {
			return min(wait, longest)
		}
		if resp.StatusCode == http.StatusTooManyRequests ||
			resp.StatusCode == http.StatusServiceUnavailable && exchangeOf(resp.Request.Context()).throttled {
			shortest = throttlePause
		}
	}
	wait := shortest
	for range attempt {
		wait = min(wait*retryGrowth, longest)
	}
	return jittered(min(wait, longest))
}

// rests tells whoever wants to know that something is to be asked again, or was.
func rests(tell func(begins bool), begins bool) {
	if tell != nil {
		tell(begins)
	}
}

// jittered is d, or down to half of it.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

func (c *Client) logRetry(req *http.Request) error {
	ex := exchangeOf(req.Context())
	c.options.Log.Debug("asking again", "url", redact(ex.url), "requests", ex.requests)
	return nil
}
