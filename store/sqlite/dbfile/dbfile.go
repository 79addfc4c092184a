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

	lib "modernc.org/sqlite/lib"

	"resyncd/store"
)

// Schema is the owner and the content of a File.
type Schema struct {
	Owner       string // whose state it is, "hub"; "" for that of a Destination
	Application int64  // the application_id that marks the file
	// Scripts are the schema's steps, oldest first; the version is how many were applied. A
	// released one is never edited.
	Scripts []string
	// Explain finds the error that callers check behind one about the tables; nil for any other.
	Explain func(error) error
}

// Options say how a File is opened. The zero value is for writing, with the usual caches.
type Options struct {
	// ReadOnly opens an existing database for reading. If no other process has it open, nothing on
	// disk is touched or created; if one does (or was killed), its latest commits are read. Calls
	// that would write fail with store.ErrReadOnly.
	ReadOnly bool
	// Alone has a second opening, in this process or another, fail with *store.HeldError.
	Alone bool
	// Log receives failures of maintenance; nil discards.
	Log *slog.Logger
	// CacheKiB bounds the page cache of the writing connection; 0 means 3,072. The four readers
	// take up to 512 each. The memory used is more than twice that.
	CacheKiB int
	// Sync makes the log durable; only tests replace it.
	Sync func(log *os.File) error
}

// File is an open database.
type File struct {
	path   string
	schema Schema
	log    *slog.Logger
	w      *Writer // nil: read only
	r      *reader
	unlock func() error // nil: others may have it open
	// immutable says that the database was opened without locks because nobody else had it open.
	immutable bool
	version   int64 // of the file's schema; older than the newest only where opened for reading
}

// Open opens the database at path. For writing it is created if it is missing (mode 0600, its
// folder 0700) and brought to the newest schema. Open fails with store.ErrSchema if a newer program
// wrote it, store.ErrForeign if it is another program's, store.ErrCorrupt if it is damaged, and
// with store.ErrNotFound if it is to be read only and is missing.
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

// Close closes the database and lets another process have it. After the last one closed it,
// everything is in the one file.
func (f *File) Close() error {
	var errs []error
	if f.r != nil {
		errs = append(errs, f.r.close()) // first, so that the writer is the last one and folds the log in
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

// Writable reports that the file was opened for writing.
func (f *File) Writable() bool { return f.w != nil }

// Version is how many steps of the schema the file has.
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

// Querier reads.
type Querier interface {
	// Query returns rows, which the caller closes.
	Query(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	// Get reads one row; sql.ErrNoRows if there is none.
	Get(ctx context.Context, query string, args []any, dest ...any) error
}
