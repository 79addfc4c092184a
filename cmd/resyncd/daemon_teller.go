package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/store"
	syncengine "resyncd/sync"
)

// tellEvery is how often a request's progress is written: often enough for a person, and for silentFor by far.
const tellEvery = 500 * time.Millisecond

// outcome is how a request ended.
type outcome struct {
	code    int
	problem string
}

// teller writes down for a command what the daemon does for it.
type teller struct {
	requests store.Requests
	id       int64
	now      func() time.Time
	log      *slog.Logger
	sums     progress

	mu    sync.Mutex
	lines []string
}

func (t *teller) say(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
}

// said is what was told so far; work that its request waits for no longer may go on telling.
func (t *teller) said() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.lines)
}

func (t *teller) note(p syncengine.Progress) { t.sums.note(p) }

// tell writes what has come up since; what cannot be written now is tried again with the next.
func (t *teller) tell(ctx context.Context) {
	t.mu.Lock()
	lines := t.lines
	t.lines = nil
	t.mu.Unlock()
	state, err := json.Marshal(t.sums.sums())
	if err == nil {
		err = t.requests.AnswerRequest(ctx, t.id, lines, state, store.MicrosOf(t.now()))
	}
	if err != nil {
		if ctx.Err() == nil {
			t.log.Warn("a command cannot be told of its progress", logging.Err(err))
		}
		t.mu.Lock() // at the end of the daemon too: while tells it once more
		t.lines = append(lines, t.lines...)
		t.mu.Unlock()
	}
}

// while writes now and then for as long as work lasts, then how it ended. That the daemon ends does not keep the last
// word from being written.
func (t *teller) while(ctx context.Context, work func() outcome) {
	done := make(chan outcome, 1)
	go func() { done <- work() }()
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			t.tell(ctx)
		case o := <-done:
			last := context.WithoutCancel(ctx)
			t.tell(last)
			if err := t.requests.EndRequest(last, t.id, o.code, logging.Redact(o.problem)); err != nil {
				t.log.Warn("a command cannot be told of its end", logging.Err(err))
			}
			return
		}
	}
}
