package fetch

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"resyncd/destination/backoff"
)

// The worker sleeps through the pauses of quick retries, so what lasts longer is for the caller's ledger.
const (
	retryBase   = 20 * time.Millisecond
	retryGrowth = 4
	// throttlePause is the wait after a 429, or a 503 of a throttling host, without Retry-After.
	throttlePause = 250 * time.Millisecond
)

func (c *Client) newRetrier(rt http.RoundTripper) *retryablehttp.Client {
	return &retryablehttp.Client{
		HTTPClient: &http.Client{
			Transport: rt,
			// Redirects are followed in client.go. A Timeout would cut large bodies.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		Logger:       nil, // it would log every URL with its query
		PrepareRetry: c.logRetry,
		RetryWaitMin: retryBase,
		RetryWaitMax: maxWait,
		RetryMax:     c.options.Retries - 1, // beside the first attempt, and the library's own first
		CheckRetry:   c.checkRetry,
		Backoff: func(shortest, longest time.Duration, attempt int, resp *http.Response) time.Duration {
			return pause(shortest, longest, attempt+1, resp)
		},
		ErrorHandler: retryablehttp.PassthroughErrorHandler, // else the last answer is lost
	}
}

// askAgain makes all attempts after a first one that failed in passing.
func (c *Client) askAgain(r *http.Request, resp *http.Response) (*http.Response, error) {
	wait := pause(retryBase, maxWait, 0, resp)
	if resp != nil {
		_, _ = io.CopyN(io.Discard, resp.Body, drainLimit) // so that its connection can be used again
		_ = resp.Body.Close()
	}
	if err := backoff.Wait(r.Context(), wait); err != nil {
		return nil, err
	}
	if err := c.logRetry(r); err != nil {
		return nil, err
	}
	return c.retrier.Do(&retryablehttp.Request{Request: r})
}

// checkRetry never retries what policy refused, nor a wait that belongs to the ledger.
func (c *Client) checkRetry(ctx context.Context, resp *http.Response, err error) (bool, error) {
	if ctx.Err() != nil || err == nil && !isQuicklyRetried(resp.StatusCode) {
		return false, nil
	}
	return c.worthRetry(ctx, exchangeOf(ctx), resp, err), nil
}

func (c *Client) worthRetry(ctx context.Context, ex *exchange, resp *http.Response, err error) bool {
	if ex.req.Once && !ex.throttled {
		return false
	}
	if err != nil {
		k := classify(ctx, err)
		return k.Kind == Transient && !isTimeout(k.Err)
	}
	wait := retryAfter(resp.Header, time.Now())
	// The worker has other work meanwhile, except at a host that throttles all of it.
	if ex.req.queued && !ex.throttled && (wait > 0 || resp.StatusCode == http.StatusTooManyRequests) {
		return false
	}
	return wait <= maxWait
}

// pause is what the peer asked for, else shortest, longer with each attempt.
func pause(shortest, longest time.Duration, attempt int, resp *http.Response) time.Duration {
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
	return backoff.Jittered(min(wait, longest), 2)
}

func (c *Client) logRetry(req *http.Request) error {
	ex := exchangeOf(req.Context())
	c.options.Log.Debug("asking again", "url", redact(ex.url), "requests", ex.requests)
	return nil
}
