package store

import (
	"errors"
	"fmt"
	"strings"
)

// Errors that callers decide on.
var (
	// ErrNotFound: no such record.
	ErrNotFound = errors.New("not found")
	// ErrFenced: another process took the Source over; nothing was applied. Stop work on the Source.
	ErrFenced = errors.New("claim lost: another process took the Source over")
	// ErrSchema: the database was written by a newer resyncd.
	ErrSchema = errors.New("state database is newer than this resyncd: upgrade resyncd")
	// ErrForeign: the file is a database, but not ours.
	ErrForeign = errors.New("not a resyncd state database")
	// ErrFull: the disk of the state database is full; nothing was applied (F7). Reading goes on.
	ErrFull = errors.New("no room for the state database: free disk space, then run again")
	// ErrDisk: the disk of the state database failed or takes no writes; nothing was applied (F9).
	ErrDisk = errors.New("the disk of the state database fails: look at it, and whether it is read-only")
	// ErrUnsure: that disk did not confirm a commit, which may or may not be durable. Nothing more
	// is written until the database is opened anew (F10).
	ErrUnsure = errors.New("the disk of the state database did not confirm a write: " +
		"look at it, then start again, which recovers")
	// ErrNameTaken: a new resource has the name of another one's file; nothing was applied. Ask Names again.
	ErrNameTaken = errors.New("mirror name is taken by another resource")
	// ErrReadOnly: the store was opened for reading.
	ErrReadOnly = errors.New("state database was opened for reading only")
	// ErrCorrupt: the database is damaged; the mirror itself is not touched by that.
	ErrCorrupt = errors.New("state database is damaged: " +
		"move it aside and run sync again, the mirror's files are adopted by hashing them")
)

// HeldError names the holder of a Source. Exit code 5.
type HeldError struct {
	Source string
	Holder string // host, process and since when, for people
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("source %s is held by another process (%s)", e.Source, e.Holder)
}

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
