package control

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
	syncengine "resyncd/sync"
)

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
