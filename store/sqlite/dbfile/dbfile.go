// Package dbfile knows how one SQLite file is opened, written so that it survives a power cut, read
// and closed. It refuses to know what is in its tables.
package dbfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	lib "modernc.org/sqlite/lib"

	"resyncd/store"
)

// Schema is the owner and the content of a File.
type Schema struct {
	Owner       string // "hub"; "" for a Destination
	Application int64  // the application_id that marks the file
	// Scripts are the schema's steps, oldest first. A released one is never edited.
	Scripts []string
	// Explain maps an error about the tables to one that callers check, or to nil.
	Explain func(error) error
}

// Options say how a File is opened. The zero value is for writing.
type Options struct {
	// ReadOnly opens an existing database and leaves no trace. Writes fail with store.ErrReadOnly.
	ReadOnly bool
	// Alone makes a second opening, by any process, fail with *store.HeldError.
	Alone bool
	// Log receives failures of maintenance; nil discards.
	Log *slog.Logger
	// Sync makes the log durable; only tests replace it.
	Sync func(log *os.File) error
}

// File is an open database.
type File struct {
	path   string
	schema Schema
	log    *slog.Logger
	w      *writer // nil: read only
	r      *reader
	unlock func() error // nil: others may have it open
	// immutable: opened without locks, because nobody else had it open.
	immutable bool
	version   int64 // may be old in a file opened for reading
}

// Open opens the database at path. For writing it is made where it is missing (mode 0600, its folder 0700) and
// brought to the newest schema. The errors are store.ErrSchema, ErrForeign, ErrCorrupt and, for reading, ErrNotFound.
func Open(ctx context.Context, path string, schema Schema, o Options) (*File, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	f := &File{schema: schema, log: o.Log}
	var err error
	if o.ReadOnly {
		err = f.openRead(ctx, path)
	} else {
		err = f.openWrite(ctx, path, o)
	}
	if err != nil {
		owner := cmp.Or(schema.Owner, "state")
		return nil, errors.Join(fmt.Errorf("open %s database %s: %w", owner, path, err), f.Close())
	}
	return f, nil
}

// Close closes the database. The last process leaves everything in the one file.
func (f *File) Close() error {
	var errs []error
	if f.r != nil {
		errs = append(errs, f.r.close()) // the writer is last and folds the log in
	}
	if f.w != nil {
		errs = append(errs, f.w.close())
	}
	if f.unlock != nil {
		errs = append(errs, f.unlock())
		f.unlock = nil
	}
	return errors.Join(errs...)
}

// Path is the one name of the file.
func (f *File) Path() string { return f.path }

func (f *File) Writable() bool { return f.w != nil }

// Version is the version of the file's schema.
func (f *File) Version() int64 { return f.version }

// Check looks for damage.
func (f *File) Check(ctx context.Context) error {
	var found string
	if err := f.r.db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found); err != nil {
		return f.Fail("check the state database", err)
	}
	if found != "ok" {
		return fmt.Errorf("check the state database %s: %w (%s)", f.path, store.ErrCorrupt, found)
	}
	return nil
}

// Library is the version of SQLite, for people.
func Library() string { return lib.SQLITE_VERSION }
