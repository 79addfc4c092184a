package fetch

import (
	"context"
	"net/http"
	"time"

	"resyncd/destination/backoff"
)

// The worker sleeps through the pauses of quick retries, so what lasts longer is for the caller's ledger.
const (
	retryBase   = 20 * time.Millisecond
	retryGrowth = 4
	// throttlePause is the wait after a 429, or a 503 of a throttling host, without Retry-After.
	throttlePause = 250 * time.Millisecond
)

// ask makes a request, and repeats it while it fails in passing.
func (c *Client) ask(ctx context.Context, ex *exchange) (*http.Response, *classified) {
	r := (&http.Request{
		Method:     http.MethodGet,
		URL:        ex.url,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     c.header(ex),
	}).WithContext(ctx)
	defer ex.notifyRest(false)
	for attempt := 0; ; attempt++ {
		resp, k := c.askOnce(r, ex)
		if attempt >= c.options.Retries || ctx.Err() != nil || !ex.worthRetry(resp, k) {
			return resp, k
		}
		ex.notifyRest(true)
		if resp != nil {
			_ = resp.Body.Close()
		}
		if err := sleep(ctx, ex.pause(attempt, resp)); err != nil {
			return nil, classify(ctx, err)
		}
		c.options.Log.Debug("asking again", "url", redact(ex.url), "requests", ex.requests)
	}
}

// worthRetry is false for what policy refused, and for a wait that belongs to the ledger.
func (ex *exchange) worthRetry(resp *http.Response, k *classified) bool {
	if ex.req.Once && !ex.throttled {
		return false
	}
	if k != nil {
		return k.kind == Transient && !isTimeout(k.err)
	}
	if !isQuicklyRetried(resp.StatusCode) {
		return false
	}
	wait := retryAfter(resp.Header, time.Now())
	// The worker has other work meanwhile, except at a host that throttles all of it.
	if ex.req.queued && !ex.throttled && (wait > 0 || resp.StatusCode == http.StatusTooManyRequests) {
		return false
	}
	return wait <= maxWait
}

// pause is what the peer asked for, else longer with each attempt.
func (ex *exchange) pause(attempt int, resp *http.Response) time.Duration {
	wait := retryBase
	if resp != nil {
		if asked := retryAfter(resp.Header, time.Now()); asked > 0 {
			return min(asked, maxWait)
		}
		if resp.StatusCode == http.StatusTooManyRequests ||
			resp.StatusCode == http.StatusServiceUnavailable && ex.throttled {
			wait = throttlePause
		}
	}
	for range attempt {
		wait = min(wait*retryGrowth, maxWait)
	}
	return backoff.Jittered(wait, 2)
}
