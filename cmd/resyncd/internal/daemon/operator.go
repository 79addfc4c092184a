package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/control"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/health"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/destination/safe"
	"resyncd/store"
	syncengine "resyncd/sync"
)

const (
	takeEvery = 250 * time.Millisecond
	lookPause = time.Second // how often is looked for Sources that were paused or resumed by somebody else
	// wakeEvery is how often the keeper looks for what a command wrote down itself, as nobody held the Source.
	wakeEvery = 30 * time.Second
	// buttonWithin is how long a page waits for what it asked for; that goes on by itself.
	buttonWithin = 5 * time.Second
	// buttonsMost is how many things pages asked for may be under way; a pull takes as long as it takes.
	buttonsMost = 64
)

// operator carries out what commands ask for (control.Server) and the buttons of the console.
type operator struct {
	d       *Daemon
	server  control.Server
	ending  chan struct{} // closed when what buttons began is to end
	buttons chan struct{} // one for each that is under way
}

func newOperator(d *Daemon) *operator {
	o := &operator{d: d, ending: make(chan struct{}), buttons: make(chan struct{}, buttonsMost)}
	o.server = control.Server{Now: d.o.Now, Log: d.o.Log, Do: o.command}
	return o
}

// serve takes requests until ctx ends, and with it what pages asked for. It also is what tells the service manager that
// the daemon lives: it needs the store to.
func (o *operator) serve(ctx context.Context) error {
	d := o.d
	o.server.Requests = d.st
	defer close(o.ending)
	var looked, woken time.Time
	return every(ctx, takeEvery, func() error {
		now := d.o.Now()
		err := o.server.Take(ctx)
		if err == nil && now.Sub(looked).Abs() >= lookPause {
			looked = now
			err = o.lookAtPauses(ctx)
		}
		if now.Sub(woken).Abs() >= wakeEvery {
			woken = now
			d.keeper.Wake()
		}
		switch {
		case errors.Is(err, store.ErrCorrupt):
			return err
		case err != nil:
			d.stateTroubles(ctx, err, "cannot look for requests")
		case ctx.Err() == nil:
			d.manager.alive(time.Now())
		}
		return nil
	})
}

// lookAtPauses stops work on Sources, or takes it up again, that another process paused or resumed.
func (o *operator) lookAtPauses(ctx context.Context) error {
	all, err := o.d.st.Sources(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		r := o.d.sources.named(all[i].Name)
		if r == nil {
			continue
		}
		switch following := r.current() != nil; {
		case all[i].Paused && following:
			r.stop(syncengine.ErrStopped)
		case !all[i].Paused && !following && r.trouble() == "":
			r.wake()
			o.d.keeper.Wake() // for what commands wrote down meanwhile
		}
	}
	return nil
}

// command carries out what a command asks for.
func (o *operator) command(ctx context.Context, source, command string, a control.Args, out *control.Answer) error {
	r := o.d.sources.named(source)
	if r == nil {
		return &exit.Error{Code: exit.Held, Err: fmt.Errorf(
			"the daemon does not know %s: send it SIGHUP to read its configuration again", source)}
	}
	said, err := o.guarded(ctx, func() (string, error) {
		if command == control.AskSync {
			return "", r.pull(ctx, syncengine.PullRequest{Full: a.Full, RetryFor: a.RetryFor, Progress: out.Progress,
				Ended: func(res syncengine.Result) { out.Ended(&res) }})
		}
		return r.carryOut(ctx, command, a)
	})
	for line := range strings.Lines(said) {
		out.Say(strings.TrimSuffix(line, "\n"))
	}
	return err
}

// guarded is work for an operator. A failure has said nothing, and one by the end of the daemon tells that.
func (o *operator) guarded(ctx context.Context, work func() (string, error)) (said string, err error) {
	err = o.d.parts.guarded(func() (err error) {
		said, err = work()
		return err
	})
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = &exit.Error{Code: exit.Held, Err: errEnding}
	}
	if err != nil {
		said = ""
	}
	return said, err
}

// press carries out an action of the console, and waits for it for buttonWithin. It goes on when the browser leaves.
func (o *operator) press(ctx context.Context, a console.Action) (string, error) {
	d := o.d
	r := d.sources.named(a.Source)
	switch {
	case !d.listeners.isOpen():
		return "", errStarting
	case r == nil:
		return "", console.ErrUnknown
	}
	reading, stop := context.WithTimeout(context.WithoutCancel(ctx), buttonWithin)
	defer stop()
	known, err := d.st.Source(reading, a.Source)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", err
	}
	if known.Paused && !slices.Contains([]console.ActionKind{console.Pause, console.Resume, console.Renew}, a.Kind) {
		return "", fmt.Errorf("%s is paused: Resume first", a.Source)
	}
	if !offer(o.buttons, struct{}{}) {
		return "", errors.New("too many things that were asked for are still under way: try again in a while")
	}
	lasting, cancel := until(context.WithoutCancel(ctx), o.ending)
	var said string // as err, once done
	done := make(chan struct{})
	o.server.Under.Go(func() {
		defer cancel()
		defer close(done)
		said, err = o.guarded(lasting, func() (string, error) { return r.pressed(lasting, a) })
		o.show(lasting, a.Source)
		<-o.buttons
	})
	select {
	case <-done:
		return said, told(err)
	case <-time.After(buttonWithin):
	case <-ctx.Done():
	}
	return fmt.Sprintf("%s: it is under way; this page shows how it goes.", a.Source), nil
}

// pressed does what the command does for which a button stands.
func (r *runner) pressed(ctx context.Context, a console.Action) (string, error) {
	switch args := (control.Args{URI: a.URI, Topic: a.Topic}); a.Kind {
	case console.Pull:
		return r.pullNow(ctx)
	case console.Reject:
		args.Reject = true
		return r.carryOut(ctx, control.AskApprove, args)
	default:
		return r.carryOut(ctx, string(a.Kind), args)
	}
}

// show has the next page show what was done.
func (o *operator) show(ctx context.Context, source string) {
	o.d.board.changed(source)
	o.d.stateTroubles(ctx, o.d.board.refresh(ctx), "the overview cannot be kept up to date")
	o.d.board.tell()
}

// told is a failure as a page tells it.
func told(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*safe.PanicError](err); ok {
		return errors.New("that broke off; the log says why")
	}
	return errors.New(logging.Redact(exit.Advised(err)))
}

// pullNow has the Source pulled and says what that did, in words.
func (r *runner) pullNow(ctx context.Context) (string, error) {
	var said []string
	err := r.pull(ctx, syncengine.PullRequest{Ended: func(res syncengine.Result) {
		said = append(said, pulledText(&res))
	}})
	if err != nil && err.Error() != "" { // else the sets have said it
		return "", err
	}
	if len(said) == 0 {
		return "it was read; nothing new", nil
	}
	return strings.Join(said, "; "), nil
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
