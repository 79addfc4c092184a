package feed

import (
	"errors"
	"fmt"
)

// Error is why a document was refused, or why reading stopped. Failures of the underlying reader (network, disk) are no
// Errors; they come wrapped, for errors.Is and errors.As.
type Error struct {
	Line    int   // from 1
	Offset  int64 // in bytes of its UTF-8 form, from its first '<' on
	Problem string
}

func (e *Error) Error() string {
	return fmt.Sprintf("refused feed at line %d: %s", e.Line, e.Problem)
}

// errLimit is the decoder's read error where a token or an entry is larger than its limit.
var errLimit = errors.New("larger than allowed")

// entryError is why one entry was skipped; the document goes on.
type entryError string

func (e entryError) Error() string { return string(e) }

// quote shortens foreign text for a message, so that no peer decides its length.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
