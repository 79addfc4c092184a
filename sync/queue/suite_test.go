package queue_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/sync/queue"
)

// TestLocal holds a Local to the contract that its comment states, sentence by sentence, in virtual time.
func TestLocal(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		run  func(*bench)
	}{
		{"Put", testPut}, {"PutBeforeRun", testPutBeforeRun}, {"Due", testDue}, {"Earlier", testEarlier},
		{"Coalesce", testCoalesce}, {"Again", testAgain}, {"NoLostWakeUp", testNoLostWakeUp},
		{"Order", testOrder}, {"Parallel", testParallel}, {"Hog", testHog}, {"Stream", testStream},
		{"Dead", testDead}, {"DeadOften", testDeadOften}, {"Overtake", testOvertake},
		{"Failure", testFailure}, {"FailureAlone", testFailureAlone}, {"Panic", testPanic},
		{"PutAfterFailure", testPutAfterFailure},
		{"PutWhileFailing", testPutWhileFailing}, {"PutLaterWhileFailing", testPutLaterWhileFailing}, {"Drop", testDrop}, {"DropRunning", testDropRunning},
		{"DropWithin", testDropWithin}, {"Stop", testStop}, {"Interrupted", testInterrupted},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test.run(newBench(t)) })
		})
	}
}

// soon is enough for what ought to happen at once, tick for things to happen one after the other, a pause for the first
// repetition of what failed.
const (
	soon  = 5 * time.Second
	tick  = 100 * time.Millisecond
	pause = 1500 * time.Millisecond
)

// bench is a Local whose jobs report what they do.
type bench struct {
	testing.TB
	q *queue.Local

	mu   sync.Mutex
	runs []run
	more chan struct{} // closed when runs grows
}

// run is a Job that began.
type run struct {
	queue.Job
	at time.Time
}

func newBench(t *testing.T) *bench {
	return &bench{TB: t, q: queue.NewLocal(queue.LocalOptions{}), more: make(chan struct{})}
}

// work is what jobs do.
type work func(context.Context, queue.Job) error

// begin runs the Queue until the test, or stop, ends it.
func (b *bench) begin(w work) (stop func() error) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- b.q.Run(ctx, func(ctx context.Context, j queue.Job) error {
			b.note(j)
			return w(ctx, j)
		})
	}()
	stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(soon):
			return errors.New("Run did not return")
		}
	})
	b.Cleanup(func() {
		if err := stop(); err != nil {
			b.Error(err)
		}
	})
	return stop
}

func (b *bench) note(j queue.Job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.runs = append(b.runs, run{Job: j, at: time.Now()})
	close(b.more)
	b.more = make(chan struct{})
}

// all returns the jobs that began so far.
func (b *bench) all() []run {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]run(nil), b.runs...)
}

// wait waits until n jobs began that fit, and returns them.
func (b *bench) wait(n int, within time.Duration, fits func(queue.Job) bool) []run {
	b.Helper()
	timeout := time.After(within)
	for {
		b.mu.Lock()
		var found []run
		for _, r := range b.runs {
			if fits(r.Job) {
				found = append(found, r)
			}
		}
		more := b.more
		b.mu.Unlock()
		if len(found) >= n {
			return found
		}
		select {
		case <-more:
		case <-timeout:
			b.Fatalf("%d jobs began within %v, want %d: %v", len(found), within, n, found)
		}
	}
}

func (b *bench) put(source int64, kind queue.Kind, in time.Duration) {
	b.Helper()
	j := queue.Job{Source: source, Kind: kind}
	if in != 0 {
		j.Due = time.Now().Add(in)
	}
	b.q.Put(j)
}

func (b *bench) drop(source int64) {
	b.Helper()
	b.q.Drop(source)
}

func (b *bench) same(what string, want, got any) {
	b.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		b.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// quiet lets time pass in which nothing is to begin.
func (b *bench) quiet(d time.Duration) {
	b.Helper()
	before := len(b.all())
	<-time.After(d)
	if all := b.all(); len(all) != before {
		b.Fatalf("began: %v", all[before:])
	}
}

// gate is work that waits to be let go.
type gate struct{ open chan struct{} }

func newGate() gate { return gate{make(chan struct{})} }

// pass waits for the gate or the end.
func (g gate) pass(ctx context.Context) error {
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func of(source int64, kind queue.Kind) func(queue.Job) bool {
	return func(j queue.Job) bool { return j.Source == source && j.Kind == kind }
}

func any1(queue.Job) bool { return true }

func kinds(rs []run) []queue.Kind {
	out := []queue.Kind{}
	for _, r := range rs {
		out = append(out, r.Kind)
	}
	return out
}

func done(context.Context, queue.Job) error { return nil }
