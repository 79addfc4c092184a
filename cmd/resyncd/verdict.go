package main

import (
	"errors"

	"resyncd/store"
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
	var held *store.HeldError
	var c *coded
	switch {
	case errors.As(err, &held):
		v.held++
	case errors.As(err, &c) && c.code == exitUsage:
		v.misused++
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
