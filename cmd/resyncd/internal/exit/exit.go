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
	syncengine "resyncd/sync"
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
	if ended, ok := errors.AsType[*Ended](err); ok {
		return Code(context.WithoutCancel(ctx), ended.Err)
	}
	var coded *Error
	var bad *config.Error
	var help interface{ ExitCode() int }
	switch {
	case err == nil:
		return Done
	case ctx.Err() != nil:
		return Interrupted
	case errors.As(err, &coded):
		return coded.Code
	case IsHeld(err):
		return Held
	case errors.As(err, &bad), errors.As(err, &help): // help of something that is not there
		return Misused
	}
	return Failed
}

// IsHeld reports that another process holds the Source.
func IsHeld(err error) bool {
	_, held := errors.AsType[*store.HeldError](err)
	return held
}

// advice is what to do next about an error.
var advice = []struct {
	about error
	text  string
}{
	{store.ErrFenced, "let that process do the work, or stop it and run the command again"},
	{blob.ErrUnmarked, "mount it and run the command again; if the mirror was removed on purpose, run `resyncd " +
		"source forget` first"},
	{blob.ErrNoSpace, "free space or inodes on its disk, then run the command again"},
	{blob.ErrReadOnly, "make its file system writable, then run the command again"},
	{blob.ErrIO, "look at the disk, then run the command again"},
	{blob.ErrSync, "look at the disk, then run the command again"},
	{blob.ErrBusy, "raise the limit of open files (ulimit -n) or stop something else, then run the command again"},
	{store.ErrForeign, "name the right data_dir or folder, or move that file aside"},
}

// Advised is the text of an error with what to do next.
func Advised(err error) string {
	if IsHeld(err) {
		return err.Error() + "; wait until it has ended, or stop it, then run the command again"
	}
	for _, a := range advice {
		if errors.Is(err, a.about) {
			return err.Error() + "; " + a.text
		}
	}
	var coded *Error
	var path *fs.PathError
	switch {
	case errors.As(err, &coded): // it says what to write instead
	case errors.Is(err, fs.ErrPermission):
		return err.Error() + "; run it as the user that these files belong to, or change their rights"
	case errors.As(err, &path) && errors.Is(err, fs.ErrNotExist):
		return err.Error() + "; check the path; the folder that a file is to lie in must be there"
	}
	return err.Error()
}

// Verdict counts how sets or Sources went: a run of several is failed only if all failed (contract.md 1).
type Verdict struct {
	Parts, Failed int
	Differ, Owed  bool
	by            map[int]int // of those that failed, by their code
}

// Fail counts a part that came to nothing.
func (v *Verdict) Fail(err error) {
	if v.by == nil {
		v.by = map[int]int{}
	}
	v.by[Code(context.Background(), err)]++
	v.Parts++
	v.Failed++
}

// Count counts a set by its result.
func (v *Verdict) Count(r *syncengine.Result) {
	if r.Unavailable {
		v.Fail(nil)
	} else {
		v.Parts++
	}
	if !r.InStep && !r.DryRun {
		v.Owed = true
	}
}

// Err is the exit code as an error without text.
func (v *Verdict) Err() error {
	all := v.Parts > 0 && v.Failed == v.Parts
	switch {
	case all && v.by[Held] == v.Parts:
		return &Error{Code: Held}
	case all && v.by[Misused] == v.Parts:
		return &Error{Code: Misused}
	case all:
		return &Error{Code: Failed}
	case v.Differ:
		return &Error{Code: Differences}
	case v.Failed > 0 || v.Owed:
		return &Error{Code: Owed}
	}
	return nil
}
