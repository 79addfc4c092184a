package store

import "strings"

// The causes that the engine itself knows, beside those of fetch and rsdoc.
const (
	CauseDisk  = "disk"  // the mirror takes no files
	CauseClock = "clock" // the Source's is ahead
)

// causeMark parts a text from its cause where both are kept in one. It is no character of a text for people.
const causeMark = "\x1f"

// WithCause is a text that carries its cause.
func WithCause(text, cause string) string {
	if text == "" || cause == "" {
		return text
	}
	return text + causeMark + cause
}

// CutCause parts what WithCause made. A text without a cause is one by itself.
func CutCause(kept string) (text, cause string) {
	text, cause, _ = strings.Cut(kept, causeMark)
	return text, cause
}
