// Package exit knows what a command line ends with: codes, advice, the verdict over several parts. It refuses to know
// what the commands do.
package exit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/store"
	"resyncd/store/blob"
)

// The exit codes (contract.md 1).
const (
	Done        = 0
	Failed      = 1
	Misused     = 2
	Owed        = 3
	Differences = 4
	Held        = 5
	Interrupted = 130
)

// Error is an error that knows its exit code. Its text may be empty where the results tell everything.
type Error struct {
	Code int
	Err  error
}

// Error implements error.
func (c *Error) Error() string {
	if c.Err == nil {
		return ""
	}
	return c.Err.Error()
}

// Unwrap is what it wraps.
func (c *Error) Unwrap() error { return c.Err }

// Usage is the error of a wrong command line or configuration.
func Usage(format string, args ...any) error {
	return &Error{Code: Misused, Err: fmt.Errorf(format, args...)}
}

// Ended is what a daemon ended of by itself. A signal that comes meanwhile changes nothing.
type Ended struct{ Err error }

// Error implements error.
func (e *Ended) Error() string { return e.Err.Error() }

// Unwrap is what it wraps.
func (e *Ended) Unwrap() error { return e.Err }

// Code maps an error to its code.
func Code(ctx context.Context, err error) int {
	var ended *Ended
	if errors.As(err, &ended) {
		return Code(context.WithoutCancel(ctx), ended.Err)
	}
	var c *Error
	var held *store.HeldError
	var bad *config.Error
	var help interface{ ExitCode() int }
	switch {
	case err == nil:
		return Done
	case ctx.Err() != nil:
		return Interrupted
	case errors.As(err, &c):
		return c.Code
	case errors.As(err, &held):
		return Held
	case errors.As(err, &bad), errors.As(err, &help): // help of something that is not there
		return Misused
	}
	return Failed
}

// Advised is the text of an error with what to do next.
func Advised(err error) string {
	var held *store.HeldError
	var coding *Error
	var path *fs.PathError
	advice := ""
	switch {
	case errors.As(err, &held):
		advice = "wait until it has ended, or stop it, then run the command again"
	case errors.Is(err, store.ErrFenced):
		advice = "let that process do the work, or stop it and run the command again"
	case errors.Is(err, blob.ErrUnmarked):
		advice = "mount it and run the command again; if the mirror was removed on purpose, run `resyncd source " +
			"forget` first"
	case errors.Is(err, blob.ErrNoSpace):
		advice = "free space or inodes on its disk, then run the command again"
	case errors.Is(err, blob.ErrReadOnly):
		advice = "make its file system writable, then run the command again"
	case errors.Is(err, blob.ErrIO), errors.Is(err, blob.ErrSync):
		advice = "look at the disk, then run the command again"
	case errors.Is(err, blob.ErrBusy):
		advice = "raise the limit of open files (ulimit -n) or stop something else, then run the command again"
	case errors.Is(err, store.ErrForeign):
		advice = "name the right data_dir or folder, or move that file aside"
	case errors.As(err, &coding): // it says what to write instead
	case errors.Is(err, fs.ErrPermission):
		advice = "run it as the user that these files belong to, or change their rights"
	case errors.As(err, &path) && errors.Is(err, fs.ErrNotExist):
		advice = "check the path; the folder that a file is to lie in must be there"
	}
	if advice == "" {
		return err.Error()
	}
	return err.Error() + "; " + advice
}
