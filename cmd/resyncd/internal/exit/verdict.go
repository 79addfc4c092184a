package exit

import (
	"errors"

	"resyncd/store"
	syncengine "resyncd/sync"
)

// Verdict counts how sets or Sources went: a run of several is failed only if all failed (contract.md 1).
type Verdict struct {
	Parts, Failed, held, misused int
	Differ, Owed                 bool
}

// Fail counts a part that came to nothing.
func (v *Verdict) Fail(err error) {
	v.Parts++
	v.Failed++
	var c *Error
	switch {
	case IsHeld(err), errors.As(err, &c) && c.Code == Held:
		v.held++
	case errors.As(err, &c) && c.Code == Misused:
		v.misused++
	}
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
	code := Done
	switch {
	case v.Parts > 0 && v.held == v.Parts:
		code = Held
	case v.Parts > 0 && v.misused == v.Parts:
		code = Misused
	case v.Parts > 0 && v.Failed == v.Parts:
		code = Failed
	case v.Differ:
		code = Differences
	case v.Failed > 0 || v.Owed:
		code = Owed
	}
	if code == Done {
		return nil
	}
	return &Error{Code: code}
}

// IsHeld reports that another process holds the Source.
func IsHeld(err error) bool {
	var held *store.HeldError
	return errors.As(err, &held)
}
