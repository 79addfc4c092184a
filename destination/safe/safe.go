// Package safe knows how a bug in one piece of work is kept from ending all others (F5, P11). It refuses to know what
// the work is and who is told.
package safe

import (
	"fmt"
	"log/slog"
	"runtime/debug"
)

// PanicError is the failure of work that panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("work panicked: %v", e.Value) }

// Unwrap is the value, where it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// LogValue tells a log where it was too.
func (e *PanicError) LogValue() slog.Value {
	return slog.GroupValue(slog.Any("panic", e.Value), slog.String("stack", string(e.Stack)))
}

// Do carries out work, and turns a panic of it into a *PanicError.
func Do(work func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return work()
}
