// Package dbfile knows how one SQLite file is opened, written so that it survives a power cut, read
// and closed. It refuses to know what is in its tables.
package dbfile

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	driver "modernc.org/sqlite"
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
	if o.Sync == nil {
		o.Sync = syncData
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

func code(err error) int {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return e.Code()
	}
	return 0
}

// Fail says what was tried, and maps SQLite's codes to the errors that callers check.
func (f *File) Fail(what string, err error) error {
	if err == nil {
		return nil
	}
	var known error
	switch kind := code(err) & 0xff; {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%s: %w", what, store.ErrNotFound)
	case (kind == lib.SQLITE_CORRUPT || kind == lib.SQLITE_NOTADB) && f.immutable && exists(f.path+"-wal"):
		return fmt.Errorf("%s: another process began to write %s meanwhile, run again: %w", what, f.path, err)
	case kind == lib.SQLITE_CANTOPEN || kind == lib.SQLITE_READONLY:
		return fmt.Errorf("%s: cannot write %s (is its disk read-only, or its folder another user's?): %w", what,
			f.path, err)
	case kind == lib.SQLITE_CORRUPT:
		known = store.ErrCorrupt
	case kind == lib.SQLITE_NOTADB:
		known = store.ErrForeign
	case kind == lib.SQLITE_FULL:
		known = store.ErrFull
	case unsynced(err):
		known = store.ErrUnsure
	case kind == lib.SQLITE_IOERR:
		known = store.ErrDisk
	case f.schema.Explain != nil:
		known = f.schema.Explain(err)
	}
	if known != nil {
		return fmt.Errorf("%s: %w (%s: %w)", what, known, f.path, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Repeats reports a second row with a value of a unique index, or of "table.column".
func Repeats(err error, index string) bool {
	return code(err) == lib.SQLITE_CONSTRAINT_UNIQUE && strings.Contains(err.Error(), index)
}

func busy(err error) bool { return code(err)&0xff == lib.SQLITE_BUSY }

func readOnly(err error) bool { return code(err)&0xff == lib.SQLITE_READONLY }

// unsynced: the disk did not make a commit durable. Another try could be lost (F10).
func unsynced(err error) bool {
	c := code(err)
	return c == lib.SQLITE_IOERR_FSYNC || c == lib.SQLITE_IOERR_DIR_FSYNC
}

// lacks reports a statement about a table, or its index, that an older file which is only read does not have yet.
func (f *File) lacks(err error) bool {
	return err != nil && f.version < int64(len(f.schema.Scripts)) &&
		(strings.Contains(err.Error(), "no such table") || strings.Contains(err.Error(), "no such index"))
}
