// Package control knows how a command has the daemon do its work, by rows of the state. It refuses to know how the
// daemon does it.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
	syncengine "resyncd/sync"
)

// The commands that a request may carry (store.Request.Command).
const (
	AskSync    = "sync"
	AskApprove = "approve"
	AskRestore = "restore"
	AskRenew   = "renew"
	AskCancel  = "cancel"
	AskPause   = "pause"
	AskResume  = "resume"
	AskForget  = "forget"
)

// Args are the options of a request, of all commands.
type Args struct {
	Full       bool          `json:"full,omitempty"`        // sync
	RetryFor   time.Duration `json:"retry_for,omitempty"`   // sync
	Reject     bool          `json:"reject,omitempty"`      // approve
	URI        string        `json:"uri,omitempty"`         // restore
	Topic      string        `json:"topic,omitempty"`       // renew, cancel; "": all of the Source
	WithMirror bool          `json:"with_mirror,omitempty"` // forget
}

// setLine is a line of the answer to AskSync: what Result keeps out of its JSON goes beside it.
type setLine struct {
	Result      syncengine.Result `json:"result"`
	Problem     string            `json:"problem"`
	Unavailable bool              `json:"unavailable"`
}

func decodeSet(line string) (syncengine.Result, error) {
	var l setLine
	if err := json.Unmarshal([]byte(line), &l); err != nil {
		return l.Result, fmt.Errorf("read the daemon's answer: %w", err)
	}
	l.Result.Problem, l.Result.Unavailable = l.Problem, l.Unavailable
	return l.Result, nil
}

// Delegate has the daemon that holds the Source carry out a command, and writes what it says to out. done is false if
// nobody holds it. A living process that takes no request is an error that says who it is.
func Delegate(ctx context.Context, o *mirror.Opened, out io.Writer, command string, a Args) (done bool, err error) {
	c := newCall(o, command, a)
	c.line = func(line string) error {
		_, err := fmt.Fprintln(out, line)
		return err
	}
	return c.delegate(ctx, o, c.run)
}

// Pulling is a pull for the daemon: what to ask for, what must not fail before it is asked, how it is shown, and who is
// told of each set.
type Pulling struct {
	Args     Args
	Before   func() error
	Progress *term.Progress
	Ended    func(syncengine.Result) error
}

// Pull is Delegate for a pull.
func Pull(ctx context.Context, o *mirror.Opened, p *Pulling) (results []syncengine.Result, done bool, err error) {
	c := newCall(o, AskSync, p.Args)
	c.line = func(line string) error {
		res, err := decodeSet(line)
		if err != nil {
			return err
		}
		results = append(results, res)
		return p.Ended(res)
	}
	c.progress = func(state []byte) {
		var done term.Sums
		if json.Unmarshal(state, &done) == nil { // the next one comes soon
			p.Progress.Set(&done)
		}
	}
	done, err = c.delegate(ctx, o, func(ctx context.Context) error {
		if err := p.Before(); err != nil {
			return err
		}
		return p.Progress.While(ctx, c.run)
	})
	var told *exit.Error
	if errors.As(err, &told) && told.Err == nil && len(results) > 0 { // the results say it
		err = nil
	}
	return results, done, err
}

// delegate runs a call if a daemon holds the Source.
func (c *call) delegate(
	ctx context.Context, o *mirror.Opened, run func(context.Context) error,
) (done bool, err error) {
	held, err := daemonHolds(ctx, o)
	if held == nil || err != nil {
		return false, err
	}
	switch err = run(ctx); {
	case errors.Is(err, errNobody): // who held it may be gone
		held, err = daemonHolds(ctx, o)
		return held != nil, errors.Join(held, err)
	case errors.Is(err, errStuck):
		return true, held
	}
	return true, err
}

// daemonHolds reports, as a *store.HeldError, whether a living process holds a configured Source: the claim is asked
// for and given back. The Source of a folder is never a daemon's.
func daemonHolds(ctx context.Context, o *mirror.Opened) (held error, err error) {
	if o.AdHoc || o.Known == nil {
		return nil, nil
	}
	_, release, err := o.Engine.Store.Claim(ctx, o.Known.ID, o.Engine.Holder)
	if exit.IsHeld(err) {
		return err, nil
	}
	if err != nil {
		return nil, err
	}
	return nil, release()
}

func newCall(o *mirror.Opened, command string, a Args) *call {
	args, _ := json.Marshal(a) // strings, numbers and flags only
	return &call{requests: o.Engine.Store, request: store.Request{
		Source: o.Source.Name, Command: command, Args: args, Created: store.MicrosOf(o.Engine.Now()),
	}}
}

// How long a command waits for the daemon.
const (
	takenWithin = 3 * time.Second
	silentFor   = 15 * time.Second
	pollEvery   = 100 * time.Millisecond
)

// errNobody: no daemon took the request, and it was taken back. errStuck: not even that could be written down.
var (
	errNobody = errors.New("no daemon took the request")
	errStuck  = errors.New("the state database does not let go")
)

// call is one request to the daemon, and what is shown of its answer.
type call struct {
	requests store.Requests
	request  store.Request
	line     func(string) error
	progress func([]byte) // nil: nobody looks
}

// run hands the request over and shows what the daemon reports until it has ended it. It fails with errNobody,
// errStuck, or with a coded error, exit.Interrupted when ctx ends after the daemon took it.
func (c *call) run(ctx context.Context) error {
	c.request.State = store.RequestWaiting
	soon, cancel := context.WithTimeout(ctx, takenWithin)
	defer cancel()
	if err := c.requests.AddRequest(soon, &c.request); err != nil {
		if soon.Err() != nil && ctx.Err() == nil { // its holder holds the database too
			return errStuck
		}
		return fmt.Errorf("ask the daemon: %w", err)
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	taken, shown, beat, heard := false, 0, store.NoTime, time.Now()
	for {
		select {
		case <-ctx.Done():
			if taken {
				return c.left()
			}
			return c.takeBack(ctx, ctx.Err())
		case <-tick.C:
		}
		r, err := c.requests.Request(ctx, c.request.ID, shown)
		switch {
		case ctx.Err() != nil:
			continue
		case err != nil:
			return fmt.Errorf("look for the daemon's answer: %w", err)
		case !taken && r.State == store.RequestWaiting:
			if time.Since(heard) >= takenWithin {
				if err := c.takeBack(ctx, errNobody); err != nil {
					return err
				}
				taken, heard = true, time.Now()
			}
			continue
		}
		for _, line := range r.Output {
			if err := c.line(line); err != nil {
				return err
			}
		}
		shown += len(r.Output)
		if c.progress != nil && len(r.Progress) > 0 {
			c.progress(r.Progress)
		}
		if r.State == store.RequestDone {
			return ended(&r)
		}
		// Its clock may differ from ours: only that it moves counts.
		if !taken || r.Beat != beat || len(r.Output) > 0 {
			taken, beat, heard = true, r.Beat, time.Now()
		}
		if time.Since(heard) >= silentFor {
			return &exit.Error{Code: exit.Held, Err: fmt.Errorf(
				"the daemon stopped answering: it has said nothing for %s; look at its log", silentFor)}
		}
	}
}

// takeBack takes the request back and returns why, unless the daemon has taken it by now: nil then, and left
// where nobody waits any more.
func (c *call) takeBack(ctx context.Context, why error) error {
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), takenWithin)
	defer cancel()
	taken, err := c.requests.DropRequest(back, c.request.ID)
	switch {
	case back.Err() != nil: // the daemon finds it too old
		return why
	case err != nil:
		return errors.Join(why, err)
	case taken && ctx.Err() != nil:
		return c.left()
	case taken:
		return nil
	}
	return why
}

// left is the error of a command that was interrupted while the daemon goes on with its work.
func (c *call) left() error {
	return &exit.Error{Code: exit.Interrupted, Err: fmt.Errorf(
		"interrupted; the daemon goes on with it: see `resyncd status %s`", c.request.Source)}
}

func ended(r *store.Request) error {
	switch {
	case r.Problem != "":
		return &exit.Error{Code: r.ExitCode, Err: errors.New(r.Problem)}
	case r.ExitCode != exit.Done:
		return &exit.Error{Code: r.ExitCode}
	}
	return nil
}

const (
	// tellEvery is how often progress is written, by far more often than silentFor.
	tellEvery = 500 * time.Millisecond
	// tooOld is the age of a request whose command has given up long before.
	tooOld = 30 * time.Second
)

// Server takes what commands ask for and writes down how it goes.
type Server struct {
	Requests store.Requests
	Now      func() time.Time
	Log      *slog.Logger
	// Do carries out one request. Its error becomes that of the command, with its exit code.
	Do func(ctx context.Context, source, command string, a Args, out *Answer) error

	// Under is what is under way.
	Under sync.WaitGroup
}

// Take has the requests carried out that wait, each in a goroutine of its own.
func (s *Server) Take(ctx context.Context) error {
	taken, err := s.Requests.TakeRequests(ctx, store.MicrosOf(s.Now()))
	for i := range taken {
		req := &taken[i]
		s.Log.Info("a command asks", "command", req.Command, logging.KeySource, req.Source, logging.KeyJob, req.ID)
		s.Under.Go(func() { s.carryOut(ctx, req) })
	}
	return err
}

// carryOut writes now and then while the work lasts, and how it ended, also when the daemon ends.
func (s *Server) carryOut(ctx context.Context, req *store.Request) {
	out := &Answer{s: s, id: req.ID}
	done := make(chan error, 1)
	go func() { done <- s.do(ctx, req, out) }()
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			out.write(ctx)
		case err := <-done:
			last := context.WithoutCancel(ctx)
			out.write(last)
			code, problem := exit.Done, ""
			if err != nil {
				code, problem = exit.Code(last, err), logging.Redact(exit.Advised(err))
			}
			if err := s.Requests.EndRequest(last, req.ID, code, problem); err != nil {
				s.Log.Warn("a command cannot be told of its end", logging.Err(err))
			}
			return
		}
	}
}

func (s *Server) do(ctx context.Context, req *store.Request, out *Answer) error {
	if req.Created.Known() && s.Now().Sub(req.Created.Time()) > tooOld {
		return &exit.Error{Code: exit.Held, Err: errors.New("nobody took the request in time")}
	}
	var a Args
	if len(req.Args) > 0 {
		if err := json.Unmarshal(req.Args, &a); err != nil {
			return exit.Usage("the daemon cannot read the request: %w", err)
		}
	}
	return s.Do(ctx, req.Source, req.Command, a, out)
}

// Unknown is the error of a command that Do does not know.
func Unknown(command string) error {
	return exit.Usage("the daemon does not know the command %q: it is another version, restart it", command)
}

// Answer is what a command is told while its request is carried out.
type Answer struct {
	s    *Server
	id   int64
	sums term.Counter

	mu    sync.Mutex
	lines []string
}

// Say adds a line to what the command shows.
func (a *Answer) Say(line string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines = append(a.lines, line)
}

// Ended tells of a set that was pulled.
func (a *Answer) Ended(r *syncengine.Result) {
	line, err := json.Marshal(setLine{Result: *r, Problem: r.Problem, Unavailable: r.Unavailable})
	if err != nil { // numbers and texts only
		a.s.Log.Error("cannot write down a result", logging.Err(err))
		return
	}
	a.Say(string(line))
}

// Progress tells how a pull goes.
func (a *Answer) Progress(p syncengine.Progress) { a.sums.Note(p) }

// write writes what has come up since, and keeps what cannot be written: carryOut writes once more.
func (a *Answer) write(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	state, err := json.Marshal(a.sums.Sums())
	if err == nil {
		err = a.s.Requests.AnswerRequest(ctx, a.id, a.lines, state, store.MicrosOf(a.s.Now()))
	}
	switch {
	case err == nil:
		a.lines = nil
	case ctx.Err() == nil:
		a.s.Log.Warn("a command cannot be told of its progress", logging.Err(err))
	}
}
