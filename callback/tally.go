package callback

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"resyncd/store"
)

const (
	tallyEvery  = time.Second
	reportEvery = time.Minute
)

// tallies counts rejections in memory and writes them once a second, so that forgeries cause no
// flood of transactions or log lines.
type tallies struct {
	o Options

	mu          sync.Mutex
	by          map[int64]*tally // by subscription; only for existing ones
	sum         store.Tally      // since the last log line
	reported    time.Time
	lastFailure time.Time // time of the last logged failure
	suppressed  int       // failures since then
}

type tally struct {
	source, set int64
	n           store.Tally
	pull        bool // a pull is still to be requested
}

func newTallies(o Options) *tallies { return &tallies{o: o, by: make(map[int64]*tally)} }

func (t *tallies) add(sub store.Subscription, n store.Tally) {
	t.mu.Lock()
	defer t.mu.Unlock()
	merge(&t.sum, n)
	t.merge(sub.ID, &tally{source: sub.SourceID, set: sub.SetID, n: n, pull: n.RejectedTooLarge > 0})
}

func (t *tallies) merge(id int64, more *tally) {
	if have, ok := t.by[id]; ok {
		merge(&have.n, more.n)
		have.pull = have.pull || more.pull
		return
	}
	t.by[id] = more
}

func merge(to *store.Tally, n store.Tally) {
	to.RejectedSignature += n.RejectedSignature
	to.RejectedTooLarge += n.RejectedTooLarge
	to.RejectedMalformed += n.RejectedMalformed
	to.PushMisses += n.PushMisses
}

// flush writes the counts and asks for pulls.
func (t *tallies) flush(ctx context.Context) {
	t.mu.Lock()
	by := t.by
	t.by = make(map[int64]*tally)
	t.mu.Unlock()
	var failed error
	for _, one := range by { // first, even if the counts cannot be written
		if one.pull && t.o.TooLarge != nil {
			t.o.TooLarge(one.source, one.set)
		}
		one.pull = false
	}
	for id, one := range by {
		if failed == nil {
			failed = t.o.Store.TallySubscription(ctx, id, one.n)
		}
		if failed != nil {
			t.mu.Lock()
			t.merge(id, one)
			t.mu.Unlock()
		}
	}
	if failed != nil {
		t.failure("cannot count rejected notifications: trying again", store.Subscription{}, failed)
	}
	t.report()
}

// report logs at most once a minute.
func (t *tallies) report() {
	t.mu.Lock()
	sum, now := t.sum, t.o.Now()
	if sum == (store.Tally{}) || now.Sub(t.reported) < reportEvery {
		t.mu.Unlock()
		return
	}
	t.sum, t.reported = store.Tally{}, now
	t.mu.Unlock()
	t.o.Log.Warn("notifications were rejected; status names the channels",
		"signature", sum.RejectedSignature, "too_large", sum.RejectedTooLarge, "malformed", sum.RejectedMalformed)
}

// failure logs local failures, once within some seconds.
func (t *tallies) failure(what string, sub store.Subscription, err error) {
	t.o.Observe.Failed(err)
	const quiet = 10 * time.Second
	t.mu.Lock()
	now := t.o.Now()
	if since := now.Sub(t.lastFailure); since >= 0 && since < quiet {
		t.suppressed++
		t.mu.Unlock()
		return
	}
	hidden := t.suppressed
	t.lastFailure, t.suppressed = now, 0
	t.mu.Unlock()
	attrs := []any{slog.Any("err", err)}
	if sub.ID != 0 {
		attrs = append(attrs, slog.Int64("subscription", sub.ID))
	}
	if hidden > 0 {
		attrs = append(attrs, slog.Int("more_since_last", hidden))
	}
	t.o.Log.Error(what, attrs...)
}

// hints limits how often hints of a subscription pass.
type hints struct {
	pause time.Duration // least time between two

	mu sync.Mutex
	at map[int64]time.Time
}

func newHints(pause time.Duration) *hints { return &hints{pause: pause, at: make(map[int64]time.Time)} }

func (h *hints) allow(id int64, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last, ok := h.at[id]; ok && now.Sub(last) < h.pause && !now.Before(last) {
		return false
	}
	if len(h.at) >= maxKnown {
		clear(h.at)
	}
	h.at[id] = now
	return true
}
