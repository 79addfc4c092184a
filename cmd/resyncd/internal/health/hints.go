package health

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"resyncd/cmd/resyncd/internal/console"
	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/destination/safe"
	"resyncd/store"
	"resyncd/store/blob"
	syncengine "resyncd/sync"
	"resyncd/sync/transfer"
)

// halts say what a mirror that takes no files means (F6 to F12), by diskReason.
var halts = map[string]struct{ state, do string }{
	"full":      {"disk full", "The mirror's disk is full: free space or inodes on it"},
	"read-only": {"disk read-only", "The mirror's disk takes no writes: make its file system writable"},
	"unmounted": {"disk missing", "The mirror's folder is not the one that it was: mount its disk"},
	"busy":      {"out of resources", "Out of file descriptors or memory: raise the limit of open files if this stays"},
	"io":        {"disk failing", "The mirror's disk fails: look at it"},
}

func haltedFor(err error) console.Finding {
	h := halts[DiskReason(err)]
	return finding(console.Bad, h.state, h.do+". Work then goes on by itself. What is not fetched stays owed. ("+
		Clipped(err.Error())+")")
}

// causes say what is wrong with a Source, and what an operator can do, by the cause of a failure (store.Set.Cause) or,
// of a resource, its class.
var causes = map[string]struct{ said, do string }{
	fetch.CauseStatus + "401": {"", "Check the Source's `auth`."},
	fetch.CauseStatus + "403": {"", "Check the Source's `auth`, or ask its publisher."},
	fetch.CauseStatus + "407": {"", "Check the Source's `auth`."},
	fetch.CauseStatus + "404": {"", "If the Source has moved, change its `url`."},
	fetch.CauseStatus + "410": {"", "If the Source has moved, change its `url`."},
	fetch.CauseStatus + "429": {"", "The Source asks for patience: lower `rate` or `concurrency`."},
	fetch.CauseServer:         {"The Source answers server errors (5xx)", serverHint},
	fetch.CauseHost: {"The Source's host name is not known", "Its name is not known: check `url` and this " +
		"machine's DNS."},
	fetch.CauseConnection: {"The Source does not take connections",
		"Nothing listens there: the Source is down, or `url` names another port."},
	fetch.CauseCertificate: {"The Source's certificate is not accepted",
		"Its certificate is not accepted: the publisher has to renew it, the mirror keeps what it has."},
	fetch.CauseTLS: {"", "The secure connection fails: the publisher has to mend it, the mirror keeps " +
		"what it has."},
	fetch.CauseAddress: {"", "Addresses that are not public need `network.allow`."},
	rsdoc.CausePage: {"The Source answers HTML pages in place of its documents",
		"It may show an error, maintenance or login page there: look at `url` in a browser."},
	store.CauseClock: {"The Source's clock is wrong", "Its publisher has to set it and make its documents anew; " +
		"the mirror keeps what it has, and comes into step by itself then."},
	fetch.TooLarge.String(): {"", "Raise `max_resource` if it is wanted."},
	transfer.ClassNoRoom:    {"", "Free space on the mirror's disk."},
	transfer.ClassMismatch: {"", "The Source's list and its files disagree; when it is read anew that may " +
		"mend itself."},
}

const serverHint = "That is the publisher's to mend; the mirror keeps what it has."

// causeOf is a cause in words, "" for one that has none.
func causeOf(cause string) string {
	if code, err := strconv.Atoi(strings.TrimPrefix(cause, fetch.CauseStatus)); err == nil {
		return strings.TrimSpace(fmt.Sprintf("The Source answers %d %s", code, http.StatusText(code)))
	}
	return causes[cause].said
}

// hint says after a space what an operator can do about a cause.
func hint(cause string) string {
	do := causes[cause].do
	if strings.HasPrefix(cause, fetch.CauseStatus+"5") {
		do = serverHint
	}
	if do == "" {
		return ""
	}
	return " " + do
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
