// Package blob knows the contents of a mirror: whole files under keys, a stage where new bytes
// wait, a trash where deleted bytes stay for a while. It refuses to know what the bytes mean, which
// Source they come from and why they change.
//
// It is the only way to mirror files (CONTRIBUTING.md 3.5): the engine sees [Mirror], never a path. A local folder
// (store/blob/dir) implements it; blobtest holds the contract as tests for every implementation.
package blob

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Mirror is the contents of one Source's mirror. All methods may be called from several goroutines at once.
//
// Keys are slash-separated relative paths as sync/keymap makes them. They are checked again here
// ([CheckKey]); a bad one is refused with [ErrKey]. Errors about one key are a [*KeyError]; its
// cause is one of the errors of this package, or the system's own.
//
// A lack of descriptors or space is never reported as a missing file (F11): [ErrNotFound] means
// that the store was asked and answered that there is none.
type Mirror interface {
	// NewStage makes an empty temporary file, invisible to readers. The caller ends with Place or Discard.
	NewStage(ctx context.Context) (Stage, error)

	// Spare prepares a stage for the next NewStage, where that saves time; NewStage reports its failures.
	Spare(ctx context.Context)

	// Spool opens the spool of that name ([CheckSpool]), made if absent, with all that was written to it, also by a
	// process that was killed. ErrExists while anybody has it open. An implementation without files keeps spools in a
	// local folder: they are worth a download, not more.
	Spool(ctx context.Context, name string) (Spool, error)

	// Spools calls fn for every spool and the time of its last change, in no order, until fn fails. fn may use Spool.
	Spools(ctx context.Context, fn func(name string, changed time.Time) error) error

	// Place makes a group of stages durable and visible under their keys: data on disk, then the
	// names, then the names on disk. An item whose error is nil survives a power cut (unless
	// durability is off). A name changes from one whole version to the next at once (P2): a reader
	// sees the old bytes or the new. A regular file, a hard link, a symbolic link or a FIFO in the
	// way is replaced, never written through (F87); a folder is not ([ErrIsFolder]).
	//
	// The errors are aligned with the group; a failing item does not fail its neighbours. The
	// second result is set when the trouble is not one item's ([Systemic]): pause work on this
	// mirror and try later. Items whose own error is nil are safe even then.
	//
	// [ErrSync] on an item means that the disk refused to confirm it. If its data could not be confirmed the old
	// version is still in place. If only the new names could not, readers may already see the new version, whole; a
	// power cut may bring back the old one. Nothing is synced a second time (F10): discard the stage and fetch again.
	//
	// A stage whose item has no error is used up. After an error it stays the caller's, to be placed again or, after
	// ErrSync, only to be discarded. The same key twice in a group: the later one wins. A cancelled context stops
	// between items; what was placed until then is still made durable.
	Place(ctx context.Context, group []Placement) ([]error, error)

	// Open opens a regular file for reading. The reader keeps the version that it opened. It never
	// blocks on a FIFO or a device and follows no link. Errors: ErrNotFound, ErrNotRegular,
	// ErrParentNotFolder (which is then ErrNotFound too).
	Open(ctx context.Context, key string) (File, Info, error)

	// Stat reports what lies under the key, of whatever Kind, without following links. Errors as Open.
	Stat(ctx context.Context, key string) (Info, error)

	// Trash moves files (anything but a folder) out of sight, durably, each under an id of the caller's
	// ([NewTrashID]), and prunes folders that it emptied. Errors, aligned with the items: ErrNotFound, ErrIsFolder,
	// ErrExists (the id is taken; nothing was moved), ErrSync (moved, but a power cut may bring it back).
	Trash(ctx context.Context, items []TrashItem) []error

	// Remove deletes files for good, durably, and prunes folders that it emptied, never the root. Errors as Trash.
	Remove(ctx context.Context, keys []string) []error

	// Restore moves a file from the trash to a key, durably; ErrExists if the key is in use,
	// ErrNotFound if there is no such id.
	Restore(ctx context.Context, id, key string) error

	// OpenTrash opens a file in the trash. Its Info has no Key.
	OpenTrash(ctx context.Context, id string) (File, Info, error)

	// DropTrash deletes a file in the trash for good; ErrNotFound if there is none.
	DropTrash(ctx context.Context, id string) error

	// ListTrash calls fn for everything in the trash, in no order, until fn fails.
	ListTrash(ctx context.Context, fn func(TrashInfo) error) error

	// Walk calls fn for everything below the root except folders and the reserved name, in no order, in constant
	// memory (F86), until fn fails. Links, FIFOs and the like are reported by their Kind. A part that cannot be read
	// makes the result an error, after the rest was walked: without nil the walk says nothing about what is absent.
	Walk(ctx context.Context, fn func(Info) error) error

	// Free is how many bytes and files the mirror may still take, MaxUint64 where that is not counted.
	Free(ctx context.Context) (bytes, inodes uint64, err error)

	// FoldsCase reports that keys which differ only in case are one file here (F82).
	FoldsCase() bool

	// Check reports whether the mirror is where it was opened and carries its marker (F12);
	// ErrUnmarked if not. Call it before work that takes absence for a fact.
	Check(ctx context.Context) error

	// Close waits for calls under way; stages not yet placed are lost. No callback of Walk or ListTrash may call it.
	Close() error
}

// Stage is one new version being written: bytes that no reader sees yet. It is for one goroutine at a time.
type Stage interface {
	// Write appends with one system call, so pass full buffers (performance.md 7.3). After an error
	// the stage takes no more until Reset.
	io.Writer

	// Reset makes the stage empty again, for a second attempt.
	Reset() error

	// SetModTime sets the modification time of the placed file; the zero time leaves it to the store.
	SetModTime(t time.Time)

	// Close ends the writing and may close the descriptor, so that thousands of stages can wait for one Place.
	Close() error

	// Discard removes the stage. It may be called at any time, more than once, and after Place.
	Discard() error
}

// Spool is a large file that is no mirror file, kept until it is discarded. A power cut may lose or spoil what was
// written, so what is read has to be checked. ReadAt may be called by many goroutines, beside Write, the rest by one.
type Spool interface {
	io.ReaderAt
	io.Writer // appends
	Size() int64

	// Reset makes it empty.
	Reset() error
	// Close ends the use and keeps the bytes; Discard removes them. After either, the other does nothing.
	Close() error
	Discard() error
}

// Placement is one item of Mirror.Place.
type Placement struct {
	Stage Stage
	Key   string

	// Displace, if not empty, is a trash id for what lies under Key now. A regular file stays
	// readable under its key until the new one takes over.
	Displace string

	// Displaced is set by Place, whatever the item's error, if something now lies in the trash under Displace.
	Displaced bool
}

// File is an opened mirror file.
type File interface {
	io.Reader
	io.Seeker
	io.Closer
}

// Kind is what lies under a key.
type Kind uint8

// The kinds. Place makes only KindFile; other programs make the rest.
const (
	KindFile Kind = iota
	KindFolder
	KindSymlink
	KindOther // FIFO, socket, device
)

// String names the kind for people.
func (k Kind) String() string {
	return [...]string{"file", "folder", "symbolic link", "special file"}[min(k, KindOther)]
}

// Info is what a store knows of a file without reading it.
type Info struct {
	Key     string
	Kind    Kind
	Length  int64 // bytes; of a regular file
	ModTime int64 // nanoseconds since 1970, UTC
}

// TrashItem is one item of Mirror.Trash: the key of the file, and the id under which it is kept.
type TrashItem struct {
	Key string
	ID  string
}

// TrashInfo is one file in the trash.
type TrashInfo struct {
	ID      string
	Kind    Kind
	Length  int64
	ModTime int64     // the file's own, nanoseconds since 1970, UTC
	Trashed time.Time // when its id was made, zero if the id has no time ([NewTrashID])
}

// MaxKey is the greatest length of a key in bytes (contract.md 5, F84).
const MaxKey = 1024

// Reserved is the root's name for our own files. No key lies there, in any letter case.
const Reserved = ".resyncd"

// CheckKey reports why a mirror cannot hold a file under this key: it must be local, without empty,
// "." or ".." segment or NUL, not below Reserved, and of at most MaxKey bytes.
func CheckKey(key string) error {
	if len(key) > MaxKey {
		return fmt.Errorf("%w: longer than %d bytes", ErrKey, MaxKey)
	}
	return CheckForeignKey(key)
}

// CheckForeignKey is CheckKey without the limit of length: other programs' files must be visible and removable.
func CheckForeignKey(key string) error {
	if strings.IndexByte(key, 0) >= 0 {
		return fmt.Errorf("%w: holds a NUL byte", ErrKey)
	}
	first, _, _ := strings.Cut(key, "/")
	if strings.EqualFold(first, Reserved) {
		return fmt.Errorf("%w: %s is reserved", ErrKey, Reserved)
	}
	for rest, more := key, true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		if segment == "" || segment == "." || segment == ".." {
			return fmt.Errorf("%w: empty, \".\" or \"..\" segment", ErrKey)
		}
	}
	return nil
}

// Trash ids made here are 12 hex digits of milliseconds and 20 of chance, so that the age of a file
// in the trash is known even when the state database is lost.
const idTimeDigits, idDigits = 12, 32

var (
	ownID = regexp.MustCompile(`^[0-9a-f]{32}$`)
	anyID = regexp.MustCompile(`^[0-9A-Za-z_-]{1,64}$`)

	spoolName = regexp.MustCompile(`^[0-9a-f]{1,64}$`)
)

// NewTrashID makes a unique id for a file that is trashed now. The caller records it before or after.
func NewTrashID(now time.Time) string {
	var chance [(idDigits - idTimeDigits) / 2]byte
	rand.Read(chance[:]) // never fails (crypto/rand)
	return fmt.Sprintf("%012x", uint64(max(now.UnixMilli(), 0))&(1<<48-1)) + hex.EncodeToString(chance[:])
}

// TrashTime is when an id of NewTrashID was made; the zero time for any other id.
func TrashTime(id string) time.Time {
	if !ownID.MatchString(id) {
		return time.Time{}
	}
	ms, _ := strconv.ParseInt(id[:idTimeDigits], 16, 64) // it has such digits
	return time.UnixMilli(ms).UTC()
}

// CheckTrashID reports why an id cannot name a file in every store: it must be 1 to 64 letters, digits, "-" or "_".
func CheckTrashID(id string) error {
	if !anyID.MatchString(id) {
		return fmt.Errorf("%w: trash id %.80q", ErrKey, id)
	}
	return nil
}

// CheckSpool reports why a spool cannot have that name: it must be 1 to 64 hex digits in lower case, of a digest.
func CheckSpool(name string) error {
	if !spoolName.MatchString(name) {
		return fmt.Errorf("%w: spool %.80q", ErrKey, name)
	}
	return nil
}

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
