package dbfile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"resyncd/store"
)

type identity struct {
	application, version int64
	tables               int64
}

func (f *File) readIdentity(ctx context.Context, db *sql.DB) (id identity, err error) {
	err = db.QueryRowContext(ctx, `SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_application_id, pragma_user_version`).Scan(&id.application, &id.version, &id.tables)
	return id, err
}

// empty: new, or its creator was killed before the first commit.
func (id identity) empty() bool { return id.application == 0 && id.version == 0 && id.tables == 0 }

// readable reports why the file cannot be read as it is. An older one can.
func (f *File) readable(id identity) error {
	newest := int64(len(f.schema.Scripts))
	switch {
	case id.application != f.schema.Application && f.schema.Owner != "":
		return fmt.Errorf("%w of a %s", store.ErrForeign, f.schema.Owner)
	case id.application != f.schema.Application:
		return store.ErrForeign
	case id.version > newest:
		return fmt.Errorf("%w (its schema is %d, ours %d)", store.ErrSchema, id.version, newest)
	}
	return nil
}

// migrate brings the file to the newest schema in one transaction, so that a kill leaves the old one (F18).
func (f *File) migrate(ctx context.Context) error {
	found, err := f.readIdentity(ctx, f.w.db)
	if err != nil {
		return f.Fail("read what it is", err)
	}
	if !found.empty() {
		if err := f.readable(found); err != nil {
			return err
		}
	}
	var mode string // stored in the file
	if err := f.w.db.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return f.Fail("switch to a write-ahead log", err)
	}
	if mode != "wal" {
		return fmt.Errorf("switch to a write-ahead log: the file system gave %q; keep the database on a local disk",
			mode)
	}
	if f.version = int64(len(f.schema.Scripts)); found.version == f.version {
		return f.tryWrite(ctx)
	}
	return f.applySteps(ctx)
}

// tryWrite finds out whether writing works. SQLite silently opens for reading what it cannot open
// for writing (F11), for all connections.
func (f *File) tryWrite(ctx context.Context) error {
	// BEGIN alone always succeeds.
	try := fmt.Sprintf("BEGIN IMMEDIATE; PRAGMA user_version = %d; ROLLBACK", f.version)
	if _, err := f.w.db.ExecContext(ctx, try); err != nil && !busy(err) {
		return f.Fail("try to write", err)
	}
	return nil
}

func (f *File) applySteps(ctx context.Context) error {
	scripts := f.schema.Scripts
	err := f.Write(ctx, "migrate the schema", func(s *Session) {
		var version int // again: another process may have been faster
		s.Get("PRAGMA user_version", nil, &version)
		for ; !s.Failed() && version < len(scripts); version++ {
			if _, err := f.w.conn.ExecContext(s.ctx, scripts[version]); err != nil {
				s.Fail(fmt.Errorf("step %d: %w", version+1, err))
			}
		}
		s.Exec(fmt.Sprintf("PRAGMA application_id = %d", f.schema.Application))
		s.Exec(fmt.Sprintf("PRAGMA user_version = %d", len(scripts)))
	})
	if errors.Is(err, store.ErrFull) || err == nil {
		return err
	}
	return fmt.Errorf("the old schema is intact: %w", err)
}
