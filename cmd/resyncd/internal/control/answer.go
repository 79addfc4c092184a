package control

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
	syncengine "resyncd/sync"
)

// tellEvery is how often a request's progress is written: often enough for a person, and for silentFor by far.
const tellEvery = 500 * time.Millisecond

// Listener hears of what is done for a request while it is done.
type Listener interface {
	Say(line string)
	Result(r *syncengine.Result) // of one set that was pulled
	Note(p syncengine.Progress)
}

// Outcome is how a request ended.
type Outcome struct {
	Code    int
	Problem string
}

// Ending maps an error to the end of a request, with the advice that the command itself would give.
func Ending(err error) Outcome {
	if err == nil {
		return Outcome{}
	}
	return Outcome{exit.Code(context.Background(), err), exit.Advised(err)}
}

// Report writes down for a command what the daemon does for it.
type Report struct {
	requests store.Requests
	id       int64
	now      func() time.Time
	log      *slog.Logger
	sums     term.Counter

	mu    sync.Mutex
	lines []string
}

// NewReport is for the request of a number.
func NewReport(requests store.Requests, id int64, now func() time.Time, log *slog.Logger) *Report {
	return &Report{requests: requests, id: id, now: now, log: log}
}

// Say implements Listener.
func (t *Report) Say(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
}

// Result implements Listener.
func (t *Report) Result(r *syncengine.Result) {
	line, err := encodeSet(r)
	if err != nil { // numbers and texts only
		t.log.Error("cannot write down a result", logging.Err(err))
		return
	}
	t.Say(line)
}

// Note implements Listener.
func (t *Report) Note(p syncengine.Progress) { t.sums.Note(p) }

// tell writes what has come up since; what cannot be written now is tried again with the next.
func (t *Report) tell(ctx context.Context) {
	t.mu.Lock()
	lines := t.lines
	t.lines = nil
	t.mu.Unlock()
	state, err := json.Marshal(t.sums.Sums())
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

// While writes now and then for as long as work lasts, then how it ended. That the daemon ends does not keep the last
// word from being written.
func (t *Report) While(ctx context.Context, work func() Outcome) {
	done := make(chan Outcome, 1)
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
			if err := t.requests.EndRequest(last, t.id, o.Code, logging.Redact(o.Problem)); err != nil {
				t.log.Warn("a command cannot be told of its end", logging.Err(err))
			}
			return
		}
	}
}
