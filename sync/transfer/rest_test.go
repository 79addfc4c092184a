package transfer

import (
	"errors"
	"sync"
	"testing"
)

// Work that is handed over while the conductor makes up its mind to rest is no rest, or a pull would be concluded without it.
func TestNoRestOverWork(t *testing.T) {
	t.Parallel()
	w := NewWorkset()
	w.Follows = true
	r := alone(siteOf(w), nil)
	for try := range 20_000 {
		var both sync.WaitGroup
		both.Go(func() { r.rest(true) })
		both.Go(func() {
			w.Name([]int64{1})
			r.Stir()
		})
		both.Wait()
		if r.Rests() && w.waits() {
			t.Fatalf("try %d: it rests, and a resource waits", try)
		}
		w.Hear()
		r.Stir()
	}
}

// Whether a mirror takes files is told in the order in which it came to be (P12).
func TestLastWordOfHalts(t *testing.T) {
	t.Parallel()
	var told error // no lock: the reconciler's own orders them
	s := siteOf(NewWorkset())
	s.Observe.Halted = func(err error) { told = err }
	r := alone(s, nil)
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
