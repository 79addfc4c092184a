package sqlite

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"resyncd/store"
)

// hubApplicationID marks a file as that of a hub: "rshb".
const hubApplicationID = 0x72736862

//go:embed hubmigrations/*.sql
var hubMigrations embed.FS

// Hub is a store.HubState on one file of its own.
type Hub struct {
	s    *Store // the file and its connections; none of its tables
	lock *fileLock
}

var _ store.HubState = (*Hub)(nil)

// OpenHub opens a hub's database at path, created if it is missing (mode 0600, its folder 0700) and brought to the newest
// schema. A hub has it to itself: a second one, in this process or another, fails with *store.HeldError. Other errors
// are those of Open. Options.ReadOnly is not for hubs.
func OpenHub(ctx context.Context, path string, o Options) (*Hub, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	h := &Hub{s: &Store{log: o.Log}}
	if err := h.open(ctx, path, o); err != nil {
		return nil, errors.Join(fmt.Errorf("open hub database %s: %w", path, err), h.Close())
	}
	return h, nil
}

func (h *Hub) open(ctx context.Context, path string, o Options) error {
	if o.ReadOnly {
		return store.ErrReadOnly
	}
	abs, err := prepareFile(path)
	if err != nil {
		return err
	}
	if abs, err = filepath.EvalSymlinks(abs); err != nil { // one database, one name for its lock file
		return err
	}
	s := h.s
	s.path = abs
	lock, got, err := lockFile(abs + ".lock")
	if err != nil {
		return err
	}
	if !got {
		return &store.HeldError{Source: filepath.Base(abs), Holder: "a hub that is running"}
	}
	h.lock = lock
	pragmas := writerPragmas(o.CacheKiB)
	db, err := connect(ctx, dsn(abs, []string{"_txlock=immediate", "_defensive=1"}, pragmas), 1, pragmas)
	if err != nil {
		return s.fail("connect", err)
	}
	s.w = newWriter(db, abs)
	if err := h.migrate(ctx); err != nil {
		return err
	}
	if err := s.w.wal.open(); err != nil { // not with the first commit: there may be no descriptor left by then (F11)
		return err
	}
	return s.openReader(ctx, []string{"mode=ro"})
}

// migrate looks at the file before it changes anything in it, then brings it to the newest schema in one transaction
// (F18).
func (h *Hub) migrate(ctx context.Context) error {
	s := h.s
	scripts, err := hubScripts()
	if err != nil {
		return err
	}
	found, err := s.readIdentity(ctx, s.w.db)
	switch newest := int64(len(scripts)); {
	case err != nil:
		return s.fail("read what it is", err)
	case found.application != hubApplicationID && !found.empty():
		return fmt.Errorf("%w of a hub", store.ErrForeign)
	case found.version > newest:
		return fmt.Errorf("%w (its schema is %d, ours %d)", store.ErrSchema, found.version, newest)
	}
	var mode string
	if err := s.w.db.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return s.fail("switch to a write-ahead log", err)
	}
	if mode != "wal" {
		return fmt.Errorf("switch to a write-ahead log: the file system gave %q; keep the hub's state on a local disk", mode)
	}
	if found.version == int64(len(scripts)) {
		return nil
	}
	return s.write(ctx, "migrate the schema", func(ctx context.Context, w *writer) error {
		steps := scripts[found.version:]
		steps = append(steps, fmt.Sprintf("PRAGMA application_id = %d", hubApplicationID),
			fmt.Sprintf("PRAGMA user_version = %d", len(scripts)))
		for _, step := range steps {
			if _, err := w.conn.ExecContext(ctx, step); err != nil {
				return err
			}
		}
		return nil
	})
}

// hubScripts are the schema's steps, oldest first. A released one is never edited.
func hubScripts() ([]string, error) {
	names, err := fs.Glob(hubMigrations, "hubmigrations/*.sql") // sorted
	if err != nil {
		return nil, err
	}
	out := make([]string, len(names))
	for i, name := range names {
		b, err := hubMigrations.ReadFile(name)
		if err != nil {
			return nil, err
		}
		out[i] = string(b)
	}
	return out, nil
}

// Close closes the database and lets another hub have it.
func (h *Hub) Close() error {
	errs := []error{h.s.Close()}
	if h.lock != nil {
		errs = append(errs, h.lock.release())
		h.lock = nil
	}
	return errors.Join(errs...)
}
