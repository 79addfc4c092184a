package main

import (
	"errors"

	"resyncd/destination/fetch"
	"resyncd/store"
	"resyncd/store/blob"
	syncengine "resyncd/sync"
	"resyncd/sync/queue"
)

// pullResult is how a pull ended, in a word.
func pullResult(r *syncengine.Result) string {
	switch {
	case r.Unavailable:
		return "failed"
	case r.Problem != "":
		return "partial"
	}
	return "ok"
}

// reasonOf is the class of what kept a pull from being whole.
func reasonOf(err error) string {
	switch kind := fetch.KindOf(err); {
	case kind != fetch.KindUnknown:
		return kind.String()
	case blob.Systemic(err):
		return "disk"
	}
	return "document"
}

// diskReason is why a mirror does not take files.
func diskReason(err error) string {
	switch {
	case errors.Is(err, blob.ErrNoSpace):
		return "full"
	case errors.Is(err, blob.ErrReadOnly):
		return "read-only"
	case errors.Is(err, blob.ErrUnmarked):
		return "unmounted"
	case errors.Is(err, blob.ErrBusy):
		return "busy"
	}
	return "io"
}

// troubleReason is why a Source cannot be worked on.
func troubleReason(err error) string {
	var held *store.HeldError
	var panicked *queue.PanicError
	switch {
	case errors.As(err, &held):
		return "held"
	case errors.Is(err, store.ErrFenced):
		return "fenced"
	case errors.As(err, &panicked):
		return "panic"
	case blob.Systemic(err):
		return diskReason(err)
	case errors.Is(err, store.ErrFull), errors.Is(err, store.ErrCorrupt):
		return "state"
	}
	return "other"
}
