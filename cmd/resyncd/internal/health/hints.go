package health

import (
	"regexp"
	"strings"

	"resyncd/cmd/resyncd/internal/console"
	"resyncd/store/blob"
)

// halts say what a mirror that takes no files means (F6 to F12), by diskReason.
var halts = map[string]struct{ state, do string }{
	"full":      {"disk full", "The mirror's disk is full: free space or inodes on it"},
	"read-only": {"disk read-only", "The mirror's disk takes no writes: make its file system writable"},
	"unmounted": {"disk missing", "The mirror's folder is not the one that it was: mount its disk"},
	"busy":      {"out of resources", "Out of file descriptors or memory: raise the limit of open files if this stays"},
	"io":        {"disk failing", "The mirror's disk fails: look at it"},
}

func haltedFor(err error) Finding {
	h := halts[DiskReason(err)]
	return Finding{console.Bad, h.state, h.do + ". Work then goes on by itself. What is not fetched stays owed. (" + Clipped(err.Error()) + ")"}
}

// answerIn is what a Source answered, if it answered one thing only.
func answerIn(problem string) (said string) {
	for _, m := range answered.FindAllStringSubmatch(problem, -1) {
		one := strings.TrimSpace(m[1])
		if said != "" && one != said {
			return ""
		}
		said = one
	}
	return said
}

var answered = regexp.MustCompile(`answered ([1-5][0-9]{2}[ A-Za-z'-]*)`)

// causes are failures told without a status code, in words that stand before the attempts one by one.
var causes = []struct{ in, said string }{
	{"no such host", "The Source's host name is not known"},
	{"connection refused", "The Source does not take connections"},
	{"x509:", "The Source's certificate is not accepted"},
	{"an HTML page in place of", "The Source answers HTML pages in place of its documents"},
	{inTheFuture, "The Source's clock is wrong"},
}

// inTheFuture is said of a document whose interval has not begun (sync).
const inTheFuture = "lies in the future by the Source's own clock"

// causeOf is the one cause of a failure, "" if there are several or none that is known: a reader must not have to find it
// among all that was tried.
func causeOf(problem string) string {
	if said := answerIn(problem); said != "" {
		return "The Source answers " + said
	}
	if all := answered.FindAllString(problem, -1); len(all) > 0 {
		for _, one := range all {
			if !strings.HasPrefix(one, "answered 5") {
				return ""
			}
		}
		return "The Source answers server errors (5xx)"
	}
	for _, c := range causes {
		if strings.Contains(problem, c.in) {
			return c.said
		}
	}
	return ""
}

// failing is a failure of the Source in words: what, when it is tried again, and what can be done.
func failing(problem string, s *Standing) string {
	what, details := "The Source cannot be read: "+strings.TrimRight(Clipped(problem), "."), ""
	if said := causeOf(problem); said != "" {
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
	return what + hint(problem) + details
}

// hints say what an operator can do about failures that are theirs to mend.
var hints = []struct{ in, do string }{
	{"answered 401", "Check the Source's `auth`."},
	{"answered 403", "Check the Source's `auth`, or ask its publisher."},
	{"answered 407", "Check the Source's `auth`."},
	{"answered 404", "If the Source has moved, change its `url`."},
	{"answered 410", "If the Source has moved, change its `url`."},
	{"answered 5", "That is the publisher's to mend; the mirror keeps what it has."},
	{"an HTML page in place of", "It may show an error, maintenance or login page there: look at `url` in a browser."},
	{"answered 429", "The Source asks for patience: lower `rate` or `concurrency`."},
	{"x509:", "Its certificate is not accepted: the publisher has to renew it, the mirror keeps what it has."},
	{"tls:", "The secure connection fails: the publisher has to mend it, the mirror keeps what it has."},
	{"no such host", "Its name is not known: check `url` and this machine's DNS."},
	{"connection refused", "Nothing listens there: the Source is down, or `url` names another port."},
	{"not allowed", "Addresses that are not public need `network.allow`."},
	{"max_resource", "Raise `max_resource` if it is wanted."},
	{"bytes are needed", "Free space on the mirror's disk."},
	{inTheFuture, "Its publisher has to set it and make its documents anew; the mirror keeps what it has, and comes into step by itself then."},
	{"listed is", "The Source's list and its files disagree; when it is read anew that may mend itself."},
	{blob.ErrUnmarked.Error(), "Mount the mirror's disk."},
}

func hint(problem string) string {
	for _, h := range hints {
		if strings.Contains(problem, h.in) {
			return " " + h.do
		}
	}
	return ""
}
