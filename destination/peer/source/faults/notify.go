package faults

import (
	"errors"
	"time"
)

// Notify is what goes wrong with notifications: N hits each Nth. Where several hit one, the first in this order wins.
type Notify struct {
	Drop    int `fault:"drop"`    // not sent at all
	Double  int `fault:"double"`  // sent twice
	Shuffle int `fault:"shuffle"` // sent after the next one, or a second later where none follows
	Forge   int `fault:"forge"`   // says that everything it is about was deleted
}

// ErrDropped is why a notification was not sent.
var ErrDropped = errors.New("dropped on purpose")

// shuffleWait is how long a notification is kept back where no other follows.
const shuffleWait = time.Second

// Line does the faults of one channel, in order. It is for one goroutine.
type Line[T any] struct {
	faults Notify
	forge  func(T) T
	count  int
	held   *T // shuffled: waits for the next one
}

// NewLine makes a Line; forge makes a notification say that everything it is about was deleted.
func NewLine[T any](f *Set, forge func(T) T) Line[T] {
	if f == nil {
		return Line[T]{}
	}
	return Line[T]{faults: f.Notify, forge: forge}
}

// Sending is one notification to send, or with Err one that is not sent.
type Sending[T any] struct {
	What T
	Err  error
}

// Pass returns what is sent in the place of a notification.
func (l *Line[T]) Pass(n T) []Sending[T] {
	l.count++
	each := func(n int) bool { return n > 0 && l.count%n == 0 }
	out := []Sending[T]{{What: n}}
	switch {
	case each(l.faults.Drop):
		out[0].Err = ErrDropped
	case each(l.faults.Double):
		out = append(out, out[0])
	case each(l.faults.Shuffle) && l.held == nil:
		l.held = &n
		return nil
	case each(l.faults.Forge):
		out[0].What = l.forge(n)
	}
	if l.held != nil {
		out = append(out, l.Release())
	}
	return out
}

// Late tells, after a while, that a notification is still kept back; nil where none is.
func (l *Line[T]) Late() <-chan time.Time {
	if l.held == nil {
		return nil
	}
	return time.After(shuffleWait)
}

// Release gives out the one that is kept back.
func (l *Line[T]) Release() Sending[T] {
	s := Sending[T]{What: *l.held}
	l.held = nil
	return s
}
