package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"resyncd/destination/safe"
)

// parts are what of a daemon runs by itself until it is ended. The first that fails ends the daemon.
type parts struct {
	log    *slog.Logger
	works  []*part    // in which work is done for Sources
	tools  []*part    // on which they stand
	failed chan error // the first failure
}

type part struct {
	stop context.CancelFunc
	done chan struct{}
}

// start starts one. It ends when it is told to, not with ctx: the order in which things end matters.
func (p *parts) start(ctx context.Context, name string, run func(context.Context) error) *part {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	one := &part{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(one.done)
		if err := p.guarded(func() error { return run(ctx) }); err != nil && ctx.Err() == nil {
			p.fail(fmt.Errorf("%s: %w", name, err))
		}
	}()
	return one
}

// every has work done after each pause, until ctx ends or it fails.
func every(ctx context.Context, pause time.Duration, work func() error) error {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := work(); err != nil {
			return err
		}
	}
}

func (p *parts) fail(err error) {
	select {
	case p.failed <- err:
	default: // the first one counts
	}
}

// endAll ends parts that need not wait for each other.
func endAll(all []*part) {
	for _, p := range all {
		p.stop()
	}
	for _, p := range all {
		<-p.done
	}
}

// guarded is safe.Do for work beside the queue. Where it panicked is in the log only.
func (p *parts) guarded(work func() error) error {
	var told error
	err := safe.Do(func() error {
		told = work()
		return told
	})
	if told == nil { // else whoever recovered it has logged it
		p.logPanic(err)
	}
	return err
}

// logPanic writes where work panicked, if that is why it failed.
func (p *parts) logPanic(err error) {
	if e, ok := errors.AsType[*safe.PanicError](err); ok {
		p.log.Error("panic, which costs no other work; please report it", "panic", e.Value, "stack", string(e.Stack))
	}
}
