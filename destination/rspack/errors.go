package rspack

import "fmt"

// Error is why a package or a member of it is refused.
type Error struct {
	Member string // as it was asked for, "" for the whole package
	Detail string
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
	CauseRefused   = "member-refused"   // never read: encrypted, a link, an unknown method, bytes of another
	CauseWrong     = "member-wrong"     // read, and not what the directory says
)

func refuse(cause, format string, args ...any) *Error {
	return &Error{Detail: fmt.Sprintf(format, args...), cause: cause}
}

// Cause is why, in a stable word.
func (e *Error) Cause() string { return e.cause }

func (e *Error) Error() string {
	if e.Member == "" {
		return "refused package: " + e.Detail
	}
	return fmt.Sprintf("refused member %.200q of a package: %s", e.Member, e.Detail)
}

// Unwrap is what the data itself turned out to be.
func (e *Error) Unwrap() error { return e.err }

// fault is what the directory alone says against a member. Of several the largest is told.
type fault uint8

const (
	unnamed fault = iota + 1
	encrypted
	method_
	special
	lengths
	overlap
	outside
)

var faults = [...]string{
	encrypted: "it is encrypted",
	method_:   "it is packed by a method other than stored and deflated",
	special:   "it is a folder, a link or a device",
	lengths:   "it is stored, but its two lengths differ",
	overlap:   "it shares bytes with another member",
	outside:   "its bytes would lie outside of the package",
}
