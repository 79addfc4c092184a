package control

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/store"
	syncengine "resyncd/sync"
)

// desk is store.Requests in memory, for one request.
type desk struct {
	mu sync.Mutex
	r  store.Request
}

func (d *desk) AddRequest(_ context.Context, r *store.Request) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	r.ID = 1
	d.r = *r
	d.r.Beat = store.NoTime
	return nil
}

func (d *desk) TakeRequests(_ context.Context, now store.Micros) ([]store.Request, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.r.State != store.RequestWaiting {
		return nil, nil
	}
	d.r.State, d.r.Beat = store.RequestTaken, now
	return []store.Request{d.r}, nil
}

func (d *desk) AnswerRequest(_ context.Context, _ int64, lines []string, progress []byte, beat store.Micros) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.r.Output = append(d.r.Output, lines...)
	d.r.Beat = beat
	if progress != nil {
		d.r.Progress = progress
	}
	return nil
}

func (d *desk) EndRequest(_ context.Context, _ int64, code int, problem string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.r.State, d.r.ExitCode, d.r.Problem = store.RequestDone, code, problem
	return nil
}

func (d *desk) Request(_ context.Context, _ int64, from int) (store.Request, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.r
	r.Output = slices.Clone(r.Output[from:])
	return r, nil
}

func (d *desk) DropRequest(context.Context, int64) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := d.r.State != store.RequestWaiting
	if !taken {
		d.r = store.Request{}
	}
	return taken, nil
}

// TestCall: a request is taken and answered, or nobody takes it, or who took it falls silent, or the command is
// interrupted.
func TestCall(t *testing.T) {
	t.Parallel()
	answer := func(ctx context.Context, d *desk, after time.Duration, work func(*Answer) error) {
		<-time.After(after)
		s := &Server{Requests: d, Now: time.Now, Log: slog.New(slog.DiscardHandler),
			Do: func(_ context.Context, _, _ string, _ Args, out *Answer) error { return work(out) }}
		_ = s.Take(ctx)
		s.Under.Wait()
	}
	for name, c := range map[string]struct {
		daemon func(context.Context, *desk)
		cancel time.Duration
		lines  string
		want   string
		code   int
		took   time.Duration // at most
	}{
		"done": {
			daemon: func(ctx context.Context, d *desk) {
				answer(ctx, d, time.Second, func(tell *Answer) error {
					for _, line := range []string{"one", "two", "three"} {
						tell.Say(line)
						<-time.After(20 * time.Second) // work may be long as long as it is told of
					}
					return nil
				})
			},
			lines: "one two three", took: 62 * time.Second,
		},
		"failed": {
			daemon: func(ctx context.Context, d *desk) {
				answer(ctx, d, 0, func(tell *Answer) error {
					tell.Say("x")
					return &exit.Error{Code: 3, Err: errors.New("something is owed")}
				})
			},
			lines: "x", want: "something is owed", code: 3, took: time.Second,
		},
		"nobody": {
			daemon: func(context.Context, *desk) {}, want: errNobody.Error(), code: 1, took: takenWithin + pollEvery,
		},
		"silent": {
			daemon: func(ctx context.Context, d *desk) { _, _ = d.TakeRequests(ctx, 1) },
			want:   "stopped answering", code: 5, took: silentFor + time.Second,
		},
		"interrupted before": {
			daemon: func(context.Context, *desk) {}, cancel: time.Second, want: "context canceled", code: 130, took: time.Second,
		},
		"interrupted after": {
			daemon: func(ctx context.Context, d *desk) {
				answer(ctx, d, 0, func(*Answer) error { <-time.After(10 * time.Second); return nil })
			},
			cancel: 2 * time.Second, want: "the daemon goes on with it", code: 130, took: 2 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.cancel > 0 {
					time.AfterFunc(c.cancel, cancel)
				}
				d := &desk{}
				var lines []string
				e := &call{requests: d, request: store.Request{Source: "lib", Command: AskSync, Created: store.NoTime}, line: func(l string) error {
					lines = append(lines, l)
					return nil
				}}
				began := time.Now()
				var daemon sync.WaitGroup
				daemon.Go(func() {
					<-time.After(time.Millisecond) // AddRequest comes first
					c.daemon(t.Context(), d)
				})
				err := e.run(ctx)
				took := time.Since(began)
				daemon.Wait()
				if got := strings.Join(lines, " "); got != c.lines {
					t.Errorf("shown: %q, want %q", got, c.lines)
				}
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("error %v, want %q", err, c.want)
				}
				if got := exit.Code(ctx, err); got != c.code {
					t.Errorf("exit code %d, want %d", got, c.code)
				}
				if took > c.took {
					t.Errorf("took %s, want at most %s", took, c.took)
				}
			})
		})
	}
}

// TestCallTakenAtTheLastMoment: a request that was taken while it was being taken back is waited for.
func TestCallTakenAtTheLastMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &lateDesk{desk: &desk{}}
		e := &call{requests: d, request: store.Request{Source: "lib"}, line: func(string) error { return nil }}
		if err := e.run(t.Context()); err == nil || exit.Code(t.Context(), err) != 4 {
			t.Errorf("%v", err)
		}
	})
}

// lateDesk is one where the request is taken, and done, the moment that it is dropped.
type lateDesk struct{ *desk }

func (d *lateDesk) DropRequest(ctx context.Context, id int64) (bool, error) {
	_, _ = d.TakeRequests(ctx, 1)
	return true, d.EndRequest(ctx, id, 4, "late")
}

// TestSetLine: what a result keeps out of its JSON arrives too.
func TestSetLine(t *testing.T) {
	t.Parallel()
	position := "2026-01-02T03:04:05Z"
	want := syncengine.Result{Source: "lib", Set: "s", Kind: "none", Position: &position, Seconds: 1.5, Problem: "p <x>", Unavailable: true}
	var out Answer
	out.Ended(&want)
	got, err := decodeSet(out.lines[0])
	if err != nil || *got.Position != position {
		t.Fatal(got, err)
	}
	if got.Position = want.Position; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if _, err := decodeSet("{"); err == nil {
		t.Error("half a line was read")
	}
}

// deafStore takes an answer only from whoever still may ask.
type deafStore struct {
	store.Requests
	lines []string
}

func (s *deafStore) AnswerRequest(ctx context.Context, _ int64, lines []string, _ []byte, _ store.Micros) error {
	if ctx.Err() == nil {
		s.lines = append(s.lines, lines...)
	}
	return ctx.Err()
}

// TestTellAtTheEnd: what a request brought is told also when the daemon ends in that instant.
func TestTellAtTheEnd(t *testing.T) {
	t.Parallel()
	s := &deafStore{}
	tell := &Answer{s: &Server{Requests: s, Now: time.Now, Log: slog.New(slog.DiscardHandler)}, id: 1}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tell.Say("a result")
	tell.write(ctx)
	tell.write(context.WithoutCancel(ctx))
	if !slices.Equal(s.lines, []string{"a result"}) {
		t.Errorf("told: %q", s.lines)
	}
}
