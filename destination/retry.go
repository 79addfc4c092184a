package destination

import (
	"context"
	"errors"
	"fmt"
	"time"

	"resyncd/destination/backoff"
	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
)

const (
	retryFirst = 500 * time.Millisecond
	retryMost  = 15 * time.Second
)

// retryWindow is how much longer transient failures are retried. It is whole again after an answer, so that a dead
// server costs it once and not once for each document.
type retryWindow struct {
	window time.Duration
	since  time.Time // of the first failure in a row
}

func (r *Reader) newWindow() *retryWindow { return &retryWindow{window: r.retryFor} }

func (p *retryWindow) left(now time.Time) time.Duration {
	if p.since.IsZero() {
		p.since = now
	}
	return p.window - now.Sub(p.since)
}

func (p *retryWindow) renew() { p.since = time.Time{} }

// brokenOff marks a body that failed after its first bytes: the document may be begun again.
type brokenOff struct{ err error }

func (b *brokenOff) Error() string { return b.err.Error() }
func (b *brokenOff) Unwrap() error { return b.err }

func broken(err error) error {
	if err == nil {
		return nil
	}
	d, ok := errors.AsType[*rsdoc.DocumentError](err)
	if ok && d.Problem == rsdoc.Truncated || transient(err) {
		return &brokenOff{err}
	}
	return err
}

// transient reports a failure that proves nothing about the document.
func transient(err error) bool {
	switch fetch.KindOf(err) {
	case fetch.Transient, fetch.Throttled, fetch.Stalled:
		return true
	}
	return false
}

func passing(err error) bool {
	_, cut := errors.AsType[*brokenOff](err)
	return cut || transient(err)
}

// retry calls try until it succeeds, fails for good, or the window ends. A body that broke off is begun again at least
// restarts times. A Retry-After beyond the window ends the retries (F53).
func (r *Reader) retry(ctx context.Context, p *retryWindow, url string, try func() error) error {
	for attempt := 0; ; attempt++ {
		err := try()
		if err == nil || !passing(err) {
			p.renew()
			return err
		}
		if ctx.Err() != nil {
			return err
		}
		left := p.left(r.now())
		wait := r.jitter(backoff.Doubled(retryFirst, attempt+1, retryMost))
		if e, ok := errors.AsType[*fetch.Error](err); ok {
			wait = max(wait, e.RetryAfter)
		}
		_, cut := errors.AsType[*brokenOff](err)
		if wait > left && !(cut && attempt < restarts && wait <= retryMost) {
			return err
		}
		r.log.Debug("document will be asked for again", "url", fetch.RedactURL(url), "wait", wait, "err", err)
		if stop := r.pause(ctx, wait); stop != nil {
			return fmt.Errorf("%w while waiting to ask again after: %w", stop, err)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
