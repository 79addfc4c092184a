package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"resyncd/store"
)

// applicationID marks a file as ours: "rsyd".
const applicationID = 0x72737964

//go:embed migrations/*.sql
var migrations embed.FS

// migrationScripts are the schema's steps, oldest first; the schema version is how many were
// applied. A released one is never edited: changes are new files.
func migrationScripts() ([]string, error) {
	names, err := fs.Glob(migrations, "migrations/*.sql") // sorted
	if err != nil {
		return nil, err
	}
	out := make([]string, len(names))
	for i, name := range names {
		b, err := migrations.ReadFile(name)
		if err != nil {
			return nil, err
		}
		out[i] = string(b)
	}
	return out, nil
}

// identity is what a file says of itself.
type identity struct {
	application, version int64
	tables               int64
	newest               int64 // schema version of this program
}

func (s *Store) readIdentity(ctx context.Context, db *sql.DB) (identity, error) {
	scripts, err := migrationScripts()
	if err != nil {
		return identity{}, err
	}
	id := identity{newest: int64(len(scripts))}
	for query, to := range map[string]*int64{
		"PRAGMA application_id":              &id.application,
		"PRAGMA user_version":                &id.version,
		"SELECT count(*) FROM sqlite_schema": &id.tables,
	} {
		if err := db.QueryRowContext(ctx, query).Scan(to); err != nil {
			return identity{}, err
		}
	}
	return id, nil
}

// empty reports a new file, or one whose creator was killed before its first commit.
func (id identity) empty() bool { return id.application == 0 && id.version == 0 && id.tables == 0 }

// readable reports why the file cannot be read as it is. An older one can: a missing table counts
// as empty (Store.lacks), so that `status` works before the first run of a new program.
func (id identity) readable() error {
	switch {
	case id.application != applicationID:
		return store.ErrForeign
	case id.version > id.newest:
		return fmt.Errorf("%w (its schema is %d, ours %d)", store.ErrSchema, id.version, id.newest)
	}
	return nil
}

// schemaPush is the schema version that added subscriptions, the inbox, pushed wants and requests.
const schemaPush = 2

// schemaFeed added kept content, edits and the shares of the inbox.
const schemaFeed = 3

// schemaChronicle added the chronicle.
const schemaChronicle = 4

// lacks reports that the database is an older one, opened for reading, without what that version
// added.
func (s *Store) lacks(version int64) bool { return s.schema < version }

// migrate reads the file's identity before it changes anything, then brings it to the newest schema
// in one transaction, so that a kill leaves the old one (F18).
func (s *Store) migrate(ctx context.Context) error {
	found, err := s.readIdentity(ctx, s.w.db)
	if err != nil {
		return s.fail("read what it is", err)
	}
	if found.application != applicationID && !found.empty() {
		return store.ErrForeign
	}
	if found.version > found.newest {
		return found.readable()
	}
	var mode string // stored in the file, so it is set once the file is known to be ours
	if err := s.w.db.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return s.fail("switch to a write-ahead log", err)
	}
	if mode != "wal" {
		return fmt.Errorf("switch to a write-ahead log: the file system gave %q; keep the state database on a local disk", mode)
	}
	s.schema = found.newest
	if found.version == found.newest {
		return s.writable(ctx)
	}
	scripts, err := migrationScripts()
	if err != nil {
		return err
	}
	return s.applyMigrations(ctx, scripts)
}

// writable checks that a write is possible. SQLite silently opens for reading what it cannot open
// for writing, for instance for want of a descriptor (F11), and then the index of its log (-shm)
// stays read-only for all connections until the last is closed. A database that another process is
// writing to passes.
func (s *Store) writable(ctx context.Context) error {
	// the first alone always succeeds
	try := fmt.Sprintf("BEGIN IMMEDIATE; PRAGMA user_version = %d; ROLLBACK", s.schema)
	if _, err := s.w.db.ExecContext(ctx, try); err != nil && !busy(err) {
		return s.fail("try to write", err)
	}
	return nil
}

func (s *Store) applyMigrations(ctx context.Context, scripts []string) error {
	err := s.write(ctx, "migrate the schema", func(ctx context.Context, w *writer) error {
		var version int // again: another process may have been faster
		if err := w.conn.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
			return err
		}
		for ; version < len(scripts); version++ {
			if _, err := w.conn.ExecContext(ctx, scripts[version]); err != nil {
				return fmt.Errorf("step %d: %w", version+1, err)
			}
		}
		for _, p := range []string{
			fmt.Sprintf("PRAGMA application_id = %d", applicationID),
			fmt.Sprintf("PRAGMA user_version = %d", len(scripts)),
		} {
			if _, err := w.conn.ExecContext(ctx, p); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, store.ErrFull) || err == nil {
		return err
	}
	return fmt.Errorf("the old schema is intact: %w", err)
}
