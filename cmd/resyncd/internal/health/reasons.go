package health

import (
	"errors"

	"resyncd/destination/fetch"
	"resyncd/destination/safe"
	"resyncd/store"
	"resyncd/store/blob"
	syncengine "resyncd/sync"
)

// PullResult is how a pull ended, in a word.
func PullResult(r *syncengine.Result) string {
	switch {
	case r.Unavailable:
		return "failed"
	case r.Problem != "":
		return "partial"
	}
	return "ok"
}

// ReasonOf is the class of what kept a pull from being whole.
func ReasonOf(err error) string {
	switch kind := fetch.KindOf(err); {
	case kind != fetch.KindUnknown:
		return kind.String()
	case blob.Systemic(err):
		return "disk"
	}
	return "document"
}

// DiskReason is why a mirror does not take files.
func DiskReason(err error) string {
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

// TroubleReason is why a Source cannot be worked on.
func TroubleReason(err error) string {
	var held *store.HeldError
	var panicked *safe.PanicError
	switch {
	case errors.As(err, &held):
		return "held"
	case errors.Is(err, store.ErrFenced):
		return "fenced"
	case errors.As(err, &panicked):
		return "panic"
	case blob.Systemic(err):
		return DiskReason(err)
	case errors.Is(err, store.ErrFull), errors.Is(err, store.ErrCorrupt):
		return "state"
	}
	return "other"
}
