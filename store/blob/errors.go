package blob

import (
	"errors"
	"strconv"
)

// The errors of a mirror are causes: test with errors.Is.
var (
	// ErrKey: the key is not one that a mirror can hold, or the trash id is malformed.
	ErrKey = errors.New("unusable key")
	// ErrNotFound: nothing lies under this key or id.
	ErrNotFound = errors.New("no such file in the mirror")
	// ErrExists: the key or trash id is in use and the call replaces nothing.
	ErrExists = errors.New("already exists")
	// ErrNotRegular: a link, FIFO, device or folder lies where a file was expected.
	ErrNotRegular = errors.New("not a regular file")
	// ErrIsFolder: a folder lies under the key; folders that hold anything are never replaced or removed.
	ErrIsFolder = errors.New("a folder is in the way")
	// ErrParentNotFolder: a component before the last is not a folder, or is a link. KeyError.At names it.
	ErrParentNotFolder = errors.New("a parent is not a folder")
	// ErrStage: the stage is used up, discarded, or belongs to another mirror.
	ErrStage = errors.New("stage is not usable")

	// ErrUnmarked: the root does not carry the marker of this mirror; likely its disk is not mounted (F12).
	ErrUnmarked = errors.New("the root marker of this mirror is missing or another's: is its disk not mounted?")

	// ErrNoSpace: disk or quota full, of bytes or of files (F6, F8).
	ErrNoSpace = errors.New("mirror is full")
	// ErrReadOnly: the file system, or this Mirror, takes no writes (F9).
	ErrReadOnly = errors.New("mirror is read-only")
	// ErrIO: the disk failed (F10).
	ErrIO = errors.New("mirror disk failed")
	// ErrSync: the disk did not confirm that bytes or names are durable; they must be written anew (F10).
	ErrSync = errors.New("mirror disk did not confirm a write")
	// ErrBusy: out of descriptors or kernel memory; it passes (F11).
	ErrBusy = errors.New("out of file descriptors or memory")
)

// Systemic tells whether an error is the whole mirror's and not one file's. Pause this mirror and try again later.
func Systemic(err error) bool {
	for _, cause := range [...]error{ErrNoSpace, ErrReadOnly, ErrIO, ErrSync, ErrBusy, ErrUnmarked} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// Missing tells whether an error says that no file lies there: nothing does, or nothing can.
func Missing(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrParentNotFolder)
}

// KeyError tells which key failed in which attempt.
type KeyError struct {
	Op  string // place, open, stat, trash, remove, restore
	Key string
	At  string // the path of the component in the way, where that is not Key itself
	Err error
}

// Error quotes the key: it may hold anything.
func (e *KeyError) Error() string {
	if e.Key == "" {
		return strconv.Quote(e.At) + ": " + e.Err.Error()
	}
	s := e.Op + " " + strconv.Quote(e.Key)
	if e.At != "" && e.At != e.Key {
		s += " at " + strconv.Quote(e.At)
	}
	return s + ": " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *KeyError) Unwrap() error { return e.Err }
