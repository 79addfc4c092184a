package main

import (
	"errors"

	syncengine "resyncd/sync"
)

// verdict counts how the parts of a command went, sets or whole Sources, and draws the exit code (contract.md 1): a run
// of several is failed only if all failed.
type verdict struct {
	parts, failed, held, misused int
	differ, owed                 bool
}

// fail counts a part that came to nothing.
func (v *verdict) fail(err error) {
	v.parts++
	v.failed++
	var c *coded
	switch {
	case isHeld(err), errors.As(err, &c) && c.code == exitHeld:
		v.held++
	case errors.As(err, &c) && c.code == exitUsage:
		v.misused++
	}
}

// count counts a set by its result.
func (v *verdict) count(r *syncengine.Result) {
	if r.Unavailable {
		v.fail(nil)
	} else {
		v.parts++
	}
	if !r.InStep && !r.DryRun {
		v.owed = true
	}
}

// err is the exit code as an error without text: everything was told already.
func (v *verdict) err() error {
	code := exitDone
	switch {
	case v.parts > 0 && v.held == v.parts:
		code = exitHeld
	case v.parts > 0 && v.misused == v.parts:
		code = exitUsage
	case v.parts > 0 && v.failed == v.parts:
		code = exitFailed
	case v.differ:
		code = exitDifferences
	case v.failed > 0 || v.owed:
		code = exitOwed
	}
	if code == exitDone {
		return nil
	}
	return &coded{code: code}
}
