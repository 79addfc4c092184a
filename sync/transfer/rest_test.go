package transfer

import (
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"
)

// Work that is handed over while the conductor makes up its mind to rest is no rest, or a pull would be concluded without it.
func TestNoRestOverWork(t *testing.T) {
	t.Parallel()
	w := NewWorkset()
	w.Follows = true
	r := &Reconciler{s: &Site{Workset: w, Now: time.Now}, rested: func() {}}
	for try := range 20_000 {
		c := conductor{r: r, dry: true}
		var both sync.WaitGroup
		both.Go(c.rest)
		both.Go(func() {
			w.Name([]int64{1})
			r.resting.Store(false) // as Follower.wake does
		})
		both.Wait()
		if r.resting.Load() && w.waits() {
			t.Fatalf("try %d: it rests, and a resource waits", try)
		}
		w.Hear()
		r.resting.Store(false)
	}
}

// Whether a mirror takes files is told in the order in which it came to be (P12).
func TestLastWordOfHalts(t *testing.T) {
	t.Parallel()
	var told error // no lock: the reconciler's own orders them
	s := &Site{Log: slog.New(slog.DiscardHandler), Observe: Observer{Halted: func(err error) { told = err }}}
	r := &Reconciler{s: s}
	full := errors.New("full")
	for try := range 10_000 {
		var both sync.WaitGroup
		both.Go(r.resume)
		both.Go(func() { r.halt(full) })
		both.Wait()
		if !errors.Is(told, r.tally.halted) {
			t.Fatalf("try %d: it is halted by %v, and %v was told", try, r.tally.halted, told)
		}
		r.resume()
	}
}
