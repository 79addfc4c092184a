package store

import "strings"

// The causes that the engine itself knows, beside those of fetch and rsdoc.
const (
	CauseDisk  = "disk"  // the mirror takes no files
	CauseClock = "clock" // the Source's is ahead
)

// causeMark parts a text from its cause where both are kept in one. Texts for people rarely hold it.
const causeMark = "\x1f"

// WithCause is a text that carries its cause. A text that holds the mark itself gets one more, or it would be cut
// there.
func WithCause(text, cause string) string {
	if text == "" || cause == "" && !strings.Contains(text, causeMark) {
		return text
	}
	return text + causeMark + cause
}

// CutCause parts what WithCause made. A text without a cause is one by itself.
func CutCause(kept string) (text, cause string) {
	i := strings.LastIndex(kept, causeMark)
	if i < 0 {
		return kept, ""
	}
	return kept[:i], kept[i+len(causeMark):]
}
