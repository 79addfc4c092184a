package health

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"resyncd/cmd/resyncd/internal/console"
	"resyncd/destination/fetch"
	"resyncd/destination/safe"
	"resyncd/store"
	"resyncd/store/blob"
	syncengine "resyncd/sync"
)

func haltedFor(err error) console.Finding {
	h := words().Halts[DiskReason(err)]
	return console.Finding{Level: console.Bad, State: h.State, Why: h.Do + ". Work then goes on by itself. What is " +
		"not fetched stays owed. (" + Clipped(err.Error()) + ")"}
}

// causeOf is a cause in words, "" for one that has none.
func causeOf(cause string) string {
	if code, err := strconv.Atoi(strings.TrimPrefix(cause, fetch.CauseStatus)); err == nil {
		return strings.TrimSpace(fmt.Sprintf("The Source answers %d %s", code, http.StatusText(code)))
	}
	return words().Causes[cause].Said
}

// hint says after a space what an operator can do about a cause.
func hint(cause string) string {
	if strings.HasPrefix(cause, fetch.CauseStatus+"5") {
		cause = fetch.CauseServer
	}
	return spaced(words().Causes[cause].Do)
}

// failing is a failure of the Source in words: what, when it is tried again, and what can be done.
func failing(problem, cause string, s *Standing) string {
	what, details := "The Source cannot be read: "+strings.TrimRight(Clipped(problem), "."), ""
	if said := causeOf(cause); said != "" {
		what, details = said, " ("+Clipped(problem)+")"
	}
	switch {
	case len(s.Status.Sets) == 0: // long before its schedule says so
		what += ". It is asked again soon; Pull asks at once."
	case s.Next.After(s.Now):
		what += ". Tried again " + s.when(s.Next) + "; Pull tries at once."
	case s.Following:
		what += ". It is being tried again."
	default:
		what += "."
	}
	return what + hint(cause) + details
}

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
