package dbfile

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"resyncd/store"
)

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
