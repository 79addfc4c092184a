// Package blob knows the contents of a mirror: whole files under keys, a stage where new bytes
// wait, a trash where deleted bytes stay for a while. It refuses to know what the bytes mean, which
// Source they come from and why they change.
//
// It is the only way to mirror files (CONTRIBUTING.md 3.5): the engine sees [Mirror], never a path. A local folder
// (store/blob/dir) implements it; blobtest holds the contract as tests for every implementation.
package blob

import (
	"context"
	"io"
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
	switch k {
	case KindFile:
		return "file"
	case KindFolder:
		return "folder"
	case KindSymlink:
		return "symbolic link"
	default:
		return "special file"
	}
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
