package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"resyncd/destination/backoff"
	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
)

// How a hub that does not take a notification is tried again (P-03).
const (
	firstPause = time.Second
	maxPause   = time.Minute
	maxAsked   = time.Hour // the longest Retry-After that is believed
	// refusals is how often one notification may be refused before it is given up: one that the hub will never take must
	// not stop all others (P11), and a hub that is being set up refuses for a moment only.
	refusals = 3
)

// errRefused is in the chain where asking the same again is not likely to help.
var errRefused = errors.New("refused")

// teller posts one message after another, each until the hub has it. What it knows about the hub's health outlives a
// message, so that a hub which refuses everything is not asked more and more.
type teller struct {
	send     func(context.Context, fetch.Message) (*fetch.Answer, error)
	log      *slog.Logger
	kind     rsdoc.Kind
	failures int           // in a row
	pause    time.Duration // before the next post
}

// tell posts a message until the hub takes it; failed is called after each failure. It returns an error if the hub keeps
// refusing or ctx ends. The bytes stay the same, so that a post whose answer was lost is a repetition and no contradiction.
func (t *teller) tell(ctx context.Context, m fetch.Message, failed func()) error {
	for refused := 0; ; {
		if !sleep(ctx, t.pause) {
			return ctx.Err()
		}
		answer, err := t.send(ctx, m)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			err = verdict(answer)
		}
		if err == nil {
			if t.failures > 0 {
				t.log.Info("hub takes notifications again", "kind", t.kind, "failures", t.failures)
			}
			t.failures, t.pause = 0, 0
			return nil
		}
		t.failed(answer, err)
		failed()
		if errors.Is(err, errRefused) {
			if refused++; refused == refusals {
				t.log.Warn("notification given up, subscribers will see a gap", "kind", t.kind, "err", err)
				return err
			}
		}
	}
}

// failed counts a failure and chooses the pause before the next post: doubling, with jitter, or what the hub asks for.
func (t *teller) failed(answer *fetch.Answer, err error) {
	t.failures++
	if t.failures == 1 {
		t.log.Warn("hub does not take notifications, trying again", "kind", t.kind, "err", err)
	}
	pause := backoff.Doubled(firstPause, t.failures, maxPause)
	pause += time.Duration(rand.Int64N(int64(pause) / 5))
	if answer != nil {
		pause = max(pause, min(answer.RetryAfter, maxAsked))
	}
	t.pause = pause
}

// verdict is nil where the hub has taken the message. Any 2xx says so (P-03).
func verdict(a *fetch.Answer) error {
	const most = 200 // of what the hub says about it
	body := a.Body[:min(len(a.Body), most)]
	switch {
	case a.Status/100 == 2:
		return nil
	case a.Status/100 == 5, a.Status == http.StatusTooManyRequests, a.Status == http.StatusRequestTimeout,
		a.Status == http.StatusTooEarly:
		return fmt.Errorf("tell the hub: status %d: %q", a.Status, body)
	case a.Status == http.StatusUnauthorized, a.Status == http.StatusForbidden:
		return fmt.Errorf("tell the hub: status %d, it may want a publisher token or not know the topic: %w: %q", a.Status, errRefused, body)
	}
	return fmt.Errorf("tell the hub: status %d: %w: %q", a.Status, errRefused, body)
}

// sleep waits and reports whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
