package rspack

import "fmt"

// Error is why a package or a member of it is refused.
type Error struct {
	Member string // "" for the whole package
	cause  string
	err    error
}

// The causes of refusals, in stable words.
const (
	CausePage      = "html-page"       // in place of a package
	CauseDamaged   = "package-damaged" // or no ZIP file at all
	CauseLimit     = "package-limit"
	CauseMissing   = "member-missing"
	CauseAmbiguous = "member-ambiguous" // several of one name
	CauseRefused   = "member-refused"   // never read: see faults
	CauseWrong     = "member-wrong"     // read, and not what the directory says
)

func refuse(cause, format string, args ...any) *Error {
	return &Error{cause: cause, err: fmt.Errorf(format, args...)}
}

// Cause is why, in a stable word (fetch.CauseOf).
func (e *Error) Cause() string { return e.cause }

func (e *Error) Error() string {
	if e.Member == "" {
		return "refused package: " + e.err.Error()
	}
	return fmt.Sprintf("refused member %.200q of the package: %v", e.Member, e.err)
}

func (e *Error) Unwrap() error { return e.err }

// fault is what the directory alone has against a member. Of two the larger counts.
type fault uint8

const (
	encrypted fault = iota + 1
	unknown
	special
	overlapping
	absent
	unnamed // never found
)

var faults = [...]string{
	encrypted:   "it is encrypted",
	unknown:     "it is packed by another method than deflate",
	special:     "it is a folder, a link or a device",
	overlapping: "it shares bytes with another member",
	absent:      "its bytes would not lie before the directory",
}
