package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/control"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/health"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
	syncengine "resyncd/sync"
)

const (
	// obeyWithin is how long a page waits for what it asked for; that goes on by itself.
	obeyWithin = 5 * time.Second
	// ordersMost is how many things asked for may be under way; a pull takes as long as it takes.
	ordersMost = 64
)

// orders are what the console asked for, on its way to the part that carries it out: an answer must not end with the
// request of a browser.
type orders struct {
	in chan func(context.Context)

	mu   sync.Mutex
	open int
}

func newOrders() *orders { return &orders{in: make(chan func(context.Context))} }

// enter counts one more, unless there are too many.
func (o *orders) enter() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open >= ordersMost {
		return false
	}
	o.open++
	return true
}

func (o *orders) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open--
}

// obey carries out orders, each in a goroutine of its own, until ctx ends.
func (d *Daemon) obey(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case work := <-d.orders.in:
			d.asked.Go(func() { work(ctx) })
		}
	}
}

// asks are the requests that stand for what pages ask.
var asks = map[console.ActionKind]string{
	console.Pull: control.AskSync, console.Renew: control.AskRenew,
	console.Approve: control.AskApprove, console.Reject: control.AskApprove,
	console.Restore: control.AskRestore, console.Pause: control.AskPause, console.Resume: control.AskResume,
}

// Do implements console.Data. It goes the way of the commands, and waits for obeyWithin.
func (k *consoleDesk) Do(ctx context.Context, a console.Action) (string, error) {
	d := k.d
	command, ok := asks[a.Kind]
	switch {
	case !ok:
		return "", fmt.Errorf("there is no action %q", a.Kind)
	case !d.opened.Load():
		return "", errStarting
	case d.residentNamed(a.Source) == nil:
		return "", console.ErrUnknown
	}
	known, err := d.st.Source(ctx, a.Source)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", err
	}
	if known.Paused && a.Kind != console.Resume && a.Kind != console.Pause && a.Kind != console.Renew {
		return "", fmt.Errorf("%s is paused: Resume first", a.Source)
	}
	args := control.Args{Reject: a.Kind == console.Reject, URI: a.URI}
	if a.Topic != "" && known.ID != 0 { // 0 stands for all Sources there
		subs, err := d.st.Subscriptions(ctx, known.ID, false)
		if err != nil {
			return "", err
		}
		args.Topic = term.TopicNamed(subs, a.Topic)
	}
	if !d.orders.enter() {
		return "", errors.New("too many things that were asked for are still under way: try again in a while")
	}
	type ending struct {
		text string
		err  error
	}
	done := make(chan ending, 1)
	work := func(ctx context.Context) {
		defer d.orders.leave()
		text, err := d.carryOutFor(ctx, a.Source, command, args)
		d.board.changed(a.Source)
		if rerr := d.board.refresh(ctx); rerr != nil && ctx.Err() == nil { // so that the next page shows it
			d.stateFailed(rerr)
		}
		d.board.tell()
		done <- ending{text, err}
	}
	ctx, cancel := context.WithTimeout(ctx, obeyWithin)
	defer cancel()
	select {
	case d.orders.in <- work:
	case <-ctx.Done():
		d.orders.leave()
		return "", errEnding
	}
	select {
	case e := <-done:
		return e.text, e.err
	case <-ctx.Done():
		return fmt.Sprintf("%s: it is under way; this page shows how it goes.", a.Source), nil
	}
}

// heard is what was said of one action, by work that may go on after its page.
type heard struct {
	mu    sync.Mutex
	lines []string
}

// Say implements control.Listener.
func (h *heard) Say(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, line)
}

// Result implements control.Listener.
func (h *heard) Result(r *syncengine.Result) { h.Say(pulledText(r)) }

// Note implements control.Listener.
func (h *heard) Note(syncengine.Progress) {}

// text is all of it on one line.
func (h *heard) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.lines, "; ")
}

// carryOutFor answers one action and says in words how it ended.
func (d *Daemon) carryOutFor(ctx context.Context, source, command string, args control.Args) (string, error) {
	h := &heard{}
	var o control.Outcome
	if err := d.guarded(func() error { o = d.answer(ctx, source, command, args, h); return nil }); err != nil {
		d.log.Error("what the console asked for panicked", logging.Err(err))
		return "", errors.New("that broke off; the log says why")
	}
	said := h.text()
	switch {
	case o.Problem != "" && o.Code != exit.Done:
		return "", errors.New(logging.Redact(o.Problem))
	case said == "" && command == control.AskSync:
		said = "it was read; nothing new"
	case said == "":
		said = "done"
	}
	return said, nil
}

// pulledText says of a set what its pull did.
func pulledText(r *syncengine.Result) string {
	text := fmt.Sprintf("%s: %d fetched, %d deleted", term.URL(r.Set), r.Fetched, r.Deleted)
	switch {
	case r.Problem != "":
		text += "; " + logging.Redact(health.Clipped(r.Problem))
	case r.Held > 0:
		text += fmt.Sprintf("; %d removals held for you", r.Held)
	case r.Owed > 0:
		text += fmt.Sprintf("; %d owed", r.Owed)
	case r.InStep:
		text += "; in step"
	}
	return text
}
