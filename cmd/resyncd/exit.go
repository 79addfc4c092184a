package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/store"
	"resyncd/store/blob"
)

// The exit codes of contract.md 1, the same for all commands.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitOwed        = 3
	exitDifferences = 4
	exitHeld        = 5
	exitInterrupted = 130
)

// coded is an error that already knows its exit code. Its text may be empty: the results have told everything.
type coded struct {
	code int
	err  error
}

func (c *coded) Error() string {
	if c.err == nil {
		return ""
	}
	return c.err.Error()
}

func (c *coded) Unwrap() error { return c.err }

func usage(format string, args ...any) error {
	return &coded{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// exitCode maps an error to its code; the only place that does (models.md 4).
func exitCode(ctx context.Context, err error) int {
	var c *coded
	var held *store.HeldError
	var bad *config.Error
	var help cli.ExitCoder
	switch {
	case err == nil:
		return exitDone
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.As(err, &c):
		return c.code
	case errors.As(err, &held):
		return exitHeld
	case errors.As(err, &bad), errors.As(err, &help): // help of something that is not there
		return exitUsage
	}
	return exitFailed
}

// advised is the text of an error with what to do next, where the error itself does not say it.
func advised(err error) string {
	var held *store.HeldError
	var coding *coded
	var path *fs.PathError
	advice := ""
	switch {
	case errors.As(err, &held):
		advice = "wait until it has ended, or stop it, then run the command again"
	case errors.Is(err, store.ErrFenced):
		advice = "let that process do the work, or stop it and run the command again"
	case errors.Is(err, blob.ErrUnmarked):
		advice = "mount it and run the command again; if the mirror was removed on purpose, run `resyncd source forget` first"
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
	case errors.As(err, &coding): // it says what was asked for, and what to write instead
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
