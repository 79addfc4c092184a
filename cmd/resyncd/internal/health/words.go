package health

import (
	_ "embed" // for what is said
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"resyncd/cmd/resyncd/internal/console"
	"resyncd/destination/fetch"
	"resyncd/destination/safe"
	"resyncd/store"
	"resyncd/store/blob"
	syncengine "resyncd/sync"
	"resyncd/sync/report"
)

//go:embed words.yaml
var wordsFile []byte

// wordsOf are all that is said to operators of how a Source stands.
type wordsOf struct {
	Findings         map[string]console.Finding
	Rejections, Hubs map[string]string
	Halts            map[string]struct{ State, Do string }
	Causes           map[string]struct{ Said, Do string }
}

var words = sync.OnceValue(func() (w wordsOf) {
	if err := yaml.Unmarshal(wordsFile, &w); err != nil {
		panic("health: words.yaml: " + err.Error()) // a test reads it
	}
	return w
})

// say is a finding of words.yaml.
func say(key string, args ...any) console.Finding {
	f := words().Findings[key]
	f.Why = fmt.Sprintf(f.Why, args...)
	return f
}

// spaced puts a sentence, if there is one, behind another.
func spaced(text string) string {
	if text == "" {
		return ""
	}
	return " " + text
}

// reasonFor is a channel's reason as part of a sentence.
func reasonFor(c *report.ChannelStatus) string {
	if c.Reason == nil || *c.Reason == "" {
		return "it gave no reason"
	}
	return strings.TrimRight(Clipped(*c.Reason), ".")
}

// count writes a number with its word.
func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// stampOf writes an instant for people.
func stampOf(t time.Time) string {
	if t.Year() < 1 || t.IsZero() { // all that was before
		return "an unknown time"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// when writes an instant near now, as the end of a sentence.
func (s *Standing) when(t time.Time) string {
	switch {
	case t.IsZero():
		return "soon"
	case t.UTC().Format(time.DateOnly) == s.Now.UTC().Format(time.DateOnly):
		return "at " + t.UTC().Format("15:04:05 UTC")
	}
	return "on " + stampOf(t)
}

// longestWhy is how many bytes of a text of somebody else are shown where it is part of a sentence.
const longestWhy = 400

// Clipped makes a text of others part of a line.
func Clipped(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= longestWhy {
		return text
	}
	cut := longestWhy
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// sentence begins a text as a sentence does, and leaves its end open. A URL or a name in lower case keeps it.
func sentence(text string) string {
	text = strings.TrimRight(Clipped(text), ".")
	first, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return text
	}
	if word, _, _ := strings.Cut(text, " "); strings.ContainsAny(word, "/:.") {
		return text
	}
	return string(unicode.ToUpper(first)) + text[size:]
}

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
