package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"

	syncengine "resyncd/sync"
)

// How often progress is shown: on a terminal one line is redrawn, elsewhere a plain line comes now and then.
const (
	redraw = 200 * time.Millisecond
	relate = 10 * time.Second
)

// progress shows how a run goes, on stderr only: a bar on a terminal, plain lines elsewhere, nothing if quiet.
type progress struct {
	sh    *shell
	what  string
	quiet bool

	listed, done, failed, deleted, bytes atomic.Int64
}

func (sh *shell) progress(what string, quiet bool) *progress {
	return &progress{sh: sh, what: what, quiet: quiet}
}

// note takes one step; it is called from the engine's goroutines.
func (p *progress) note(s syncengine.Progress) {
	p.listed.Add(s.Listed)
	p.done.Add(s.Done)
	p.failed.Add(s.Failed)
	p.deleted.Add(s.Deleted)
	p.bytes.Add(s.Bytes)
}

// set shows sums that were counted elsewhere.
func (p *progress) set(w *workDone) {
	p.listed.Store(w.Listed)
	p.done.Store(w.Done)
	p.failed.Store(w.Failed)
	p.deleted.Store(w.Deleted)
	p.bytes.Store(w.Bytes)
}

// sums is set's other end.
func (p *progress) sums() workDone {
	return workDone{Listed: p.listed.Load(), Done: p.done.Load(), Failed: p.failed.Load(), Deleted: p.deleted.Load(), Bytes: p.bytes.Load()}
}

// while shows progress for as long as work lasts.
func (p *progress) while(ctx context.Context, work func(context.Context) error) error {
	if p.quiet {
		return work(ctx)
	}
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		if p.sh.tty {
			p.draw(done)
		} else {
			p.tell(done)
		}
	}()
	err := work(ctx)
	close(done)
	<-stopped
	return err
}

// tell writes a plain line now and then.
func (p *progress) tell(done <-chan struct{}) {
	tick := time.NewTicker(relate)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			p.sh.say("progress: %s: %s", p.what, p.line())
		}
	}
}

// draw keeps a bar on the last line of the terminal.
func (p *progress) draw(done <-chan struct{}) {
	bar := progressbar.NewOptions64(1, progressbar.OptionSetWriter(barArea{p.sh.screen}), progressbar.OptionSetWidth(20),
		progressbar.OptionSetElapsedTime(true), progressbar.OptionSetPredictTime(false))
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		select {
		case <-done:
			p.sh.screen.mu.Lock()
			p.sh.screen.clear()
			p.sh.screen.mu.Unlock()
			return
		case <-tick.C:
			bar.Describe(p.what + ": " + p.line())
			// One more than is known: more may be listed, and a full bar would count itself finished.
			bar.ChangeMax64(p.listed.Load() + 1)
			_ = bar.Set64(min(p.done.Load()+p.failed.Load(), p.listed.Load())) // only fails above the maximum
		}
	}
}

func (p *progress) line() string {
	return fmt.Sprintf("%d listed, %d done, %d failed, %d deleted, %s",
		p.listed.Load(), p.done.Load(), p.failed.Load(), p.deleted.Load(), bytesText(p.bytes.Load()))
}
