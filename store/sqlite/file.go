package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/gofrs/flock"

	"resyncd/store"
)

// Schema is the owner and the content of a File.
type Schema struct {
	Owner       string // "hub"
	Application int64  // the application_id that marks the file
	// Scripts are the schema's steps, oldest first. A released one is never edited.
	Scripts []string
}

// File is a database of another owner with tables of its own, opened and written with the same care
// as that of a Store.
type File struct {
	s    *Store // the file and its connections; none of its tables
	lock *flock.Flock
}

// OpenFile opens the database at path, created if it is missing (mode 0600, its folder 0700) and
// brought to the newest schema. A second one, in this process or another, fails with
// *store.HeldError; other errors are those of Open. A nil log discards.
func OpenFile(ctx context.Context, path string, schema Schema, log *slog.Logger) (*File, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	f := &File{s: &Store{log: log}}
	if err := f.open(ctx, path, schema); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s database %s: %w", schema.Owner, path, err), f.Close())
	}
	return f, nil
}

func (f *File) open(ctx context.Context, path string, schema Schema) error {
	abs, err := prepareFile(path)
	if err != nil {
		return err
	}
	if abs, err = filepath.EvalSymlinks(abs); err != nil { // one database, one name for its lock file
		return err
	}
	s := f.s
	s.path = abs
	lock, got, err := lockFile(abs + ".lock")
	if err != nil {
		return err
	}
	if !got {
		return &store.HeldError{Source: filepath.Base(abs), Holder: "a " + schema.Owner + " that is running"}
	}
	f.lock = lock
	db, err := connect(ctx, dsn(abs, "_txlock=immediate", "_defensive=1"), 1, writerPragmas(0))
	if err != nil {
		return s.fail("connect", err)
	}
	s.w = newWriter(db, abs)
	if err := f.migrate(ctx, schema); err != nil {
		return err
	}
	if err := s.w.wal.open(); err != nil { // not with the first commit: there may be no descriptor left by then (F11)
		return err
	}
	return s.openReader(ctx, []string{"mode=ro"})
}

// migrate looks at the file before it changes anything in it, then brings it to the newest schema in one transaction
// (F18).
func (f *File) migrate(ctx context.Context, schema Schema) error {
	s := f.s
	found, err := s.readIdentity(ctx, s.w.db)
	switch newest := int64(len(schema.Scripts)); {
	case err != nil:
		return s.fail("read what it is", err)
	case found.application != schema.Application && !found.empty():
		return fmt.Errorf("%w of a %s", store.ErrForeign, schema.Owner)
	case found.version > newest:
		return fmt.Errorf("%w (its schema is %d, ours %d)", store.ErrSchema, found.version, newest)
	}
	var mode string
	if err := s.w.db.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return s.fail("switch to a write-ahead log", err)
	}
	if mode != "wal" {
		return fmt.Errorf("switch to a write-ahead log: the file system gave %q; keep the %s's state on a local disk",
			mode, schema.Owner)
	}
	if found.version == int64(len(schema.Scripts)) {
		return nil
	}
	return s.write(ctx, "migrate the schema", func(ctx context.Context, w *writer) error {
		steps := append([]string{}, schema.Scripts[found.version:]...)
		steps = append(steps, fmt.Sprintf("PRAGMA application_id = %d", schema.Application),
			fmt.Sprintf("PRAGMA user_version = %d", len(schema.Scripts)))
		for _, step := range steps {
			if _, err := w.conn.ExecContext(ctx, step); err != nil {
				return err
			}
		}
		return nil
	})
}

// Close closes the database and lets another owner have it.
func (f *File) Close() error {
	errs := []error{f.s.Close()}
	if f.lock != nil {
		errs = append(errs, f.lock.Unlock())
		f.lock = nil
	}
	return errors.Join(errs...)
}

// Tx is a transaction of a File.
type Tx struct{ w *writer }

// Exec runs a statement and returns how many rows it changed.
func (t Tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	return t.w.exec(ctx, query, args...)
}

// Get reads one row; sql.ErrNoRows if there is none.
func (t Tx) Get(ctx context.Context, query string, args []any, dest ...any) error {
	return t.w.get(ctx, query, args, dest...)
}

// Write runs fn in a transaction, which is durable when Write returns nil. what names it in errors.
func (f *File) Write(ctx context.Context, what string, fn func(context.Context, Tx) error) error {
	return f.s.write(ctx, what, func(ctx context.Context, w *writer) error { return fn(ctx, Tx{w}) })
}

// WriteReadable is Write that calls readable, unless nil, once all of it can be read: before it is
// known to survive a power cut, and even if that fails. It is not given up when ctx ends.
func (f *File) WriteReadable(
	ctx context.Context, what string, readable func(), fn func(context.Context, Tx) error,
) error {
	mark, err := f.s.commit(context.WithoutCancel(ctx), what, false, func(ctx context.Context, w *writer) error {
		return fn(ctx, Tx{w})
	})
	if err != nil {
		return err
	}
	if readable != nil {
		readable()
	}
	return f.s.durable(what, mark)
}

// Read calls row for each row that a query finds, until it returns false or an error.
func (f *File) Read(
	ctx context.Context, what, query string, args []any, row func(scan func(...any) error) (more bool, err error),
) error {
	rows, err := f.s.r.query(ctx, query, args...)
	if err != nil {
		return f.s.fail(what, err)
	}
	defer rows.Close()
	for more := true; more && rows.Next(); {
		if more, err = row(rows.Scan); err != nil {
			return f.s.fail(what, err)
		}
	}
	return f.s.fail(what, rows.Err())
}

// Instant is an instant as it is kept: NULL where there is none.
func Instant(m store.Micros) any { return ms(m) }

// IntoInstant reads what Instant wrote.
func IntoInstant(m *store.Micros) sql.Scanner { return (*micros)(m) }
