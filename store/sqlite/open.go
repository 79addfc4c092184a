package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	driver "modernc.org/sqlite"

	"resyncd/store"
)

const (
	busyTimeout     = 5000     // ms; longer would hold up a shutdown (dependencies.md 3.1)
	journalLimit    = 64 << 20 // bytes the log keeps after it was folded in
	checkpointPages = 4000     // 16 MiB: how much SQLite lets the log grow before it folds it in
	// KiB. SQLite lets its connections lend one another what they do not use, and a page of 4 KiB takes 9 of the allocator:
	// a catch-up holds 2.3 times the sum of those at work.
	writerCache = 3_072
	readerCache = 512
	readers     = 4
)

// pragma is a setting that must read back as it was asked for: a mistyped one is ignored without a word.
type pragma struct{ name, value string }

func writerPragmas(cacheKiB int) []pragma {
	if cacheKiB <= 0 {
		cacheKiB = writerCache
	}
	return []pragma{
		{"busy_timeout", strconv.Itoa(busyTimeout)},
		{"synchronous", "1"}, // NORMAL: SQLite syncs what it folds in, and walSync each commit that must survive a power cut (P4)
		{"foreign_keys", "1"},
		{"temp_store", "2"}, // memory: /tmp may be small, and no statement here sorts or journals much
		{"cache_size", strconv.Itoa(-cacheKiB)},
		{"journal_size_limit", strconv.Itoa(journalLimit)},
		{"wal_autocheckpoint", strconv.Itoa(checkpointPages)},
	}
}

func readerPragmas() []pragma {
	return []pragma{
		{"busy_timeout", strconv.Itoa(busyTimeout)},
		{"query_only", "1"},
		{"temp_store", "2"},
		{"cache_size", strconv.Itoa(-readerCache)},
	}
}

// dsn names the database for SQLite. Only the file: form carries its parameters, and a "?" or "#" in a path would end it
// early, so the path is escaped.
func dsn(path string, params []string, pragmas []pragma) string {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path)}
	if !strings.HasPrefix(u.Path, "/") {
		u.Path = "/" + u.Path // a Windows drive
	}
	q := append([]string{"_dqs=0"}, params...)
	for _, p := range pragmas {
		q = append(q, "_pragma="+p.name+"("+p.value+")")
	}
	return "file:" + u.EscapedPath() + "?" + strings.Join(q, "&")
}

// connect opens a pool and reads its settings back.
func connect(ctx context.Context, dsn string, size int, pragmas []pragma) (*sql.DB, error) {
	driver.StrictPragmas(true)
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	for _, p := range pragmas {
		var got string
		if err := db.QueryRowContext(ctx, "PRAGMA "+p.name).Scan(&got); err != nil {
			return nil, errors.Join(fmt.Errorf("read setting %s: %w", p.name, err), db.Close())
		}
		if got != p.value {
			return nil, errors.Join(fmt.Errorf("setting %s is %s, asked for %s", p.name, got, p.value), db.Close())
		}
	}
	return db, nil
}

func (s *Store) openWrite(ctx context.Context, path string, cacheKiB int) error {
	abs, err := prepareFile(path)
	if err != nil {
		return err
	}
	if abs, err = filepath.EvalSymlinks(abs); err != nil { // one database, one name for its lock files
		return err
	}
	s.path = abs
	pragmas := writerPragmas(cacheKiB)
	db, err := connect(ctx, dsn(abs, []string{"_txlock=immediate", "_defensive=1"}, pragmas), 1, pragmas)
	if err != nil {
		return s.fail("connect", err)
	}
	s.w = newWriter(db, abs)
	if err := s.migrate(ctx); err != nil {
		return err
	}
	if err := s.w.wal.open(); err != nil { // not with the first commit: there may be no descriptor left by then (F11)
		return err
	}
	return s.openReader(ctx, []string{"mode=ro"})
}

// prepareFile makes the folder and an empty file with the right modes: SQLite would make it readable for all.
func prepareFile(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if err := MakeFolder(filepath.Dir(abs)); err != nil {
		return "", err
	}
	f, err := os.OpenFile(abs, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		return abs, f.Close()
	}
	if !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	// Never open an existing one here: closing it would drop the locks this process may hold on it (POSIX).
	info, err := os.Stat(abs)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%w: not a regular file", store.ErrForeign)
	case info.Mode().Perm()&0o077 != 0:
		return abs, os.Chmod(abs, 0o600)
	}
	return abs, nil
}

// openRead opens without leaving a trace. Without a log beside the database nobody has it open and all of it is in the one
// file: "immutable" then keeps SQLite from making a log of its own. With one, its commits must be seen.
func (s *Store) openRead(ctx context.Context, path string) error {
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if abs, err = filepath.EvalSymlinks(abs); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: no state database there; `resyncd sync` makes one", store.ErrNotFound)
	} else if err != nil {
		return err
	}
	s.path = abs
	info, err := os.Stat(abs)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: not a regular file", store.ErrForeign)
	case info.Size() == 0:
		return errEmpty()
	}
	params := []string{"mode=ro"}
	if s.immutable = !exists(abs + "-wal"); s.immutable {
		params = append(params, "immutable=1")
	}
	if err := s.openReader(ctx, params); err != nil {
		return err
	}
	found, err := s.readIdentity(ctx, s.r.db)
	if err != nil {
		return s.fail("read what it is", err)
	}
	if found.empty() {
		return errEmpty()
	}
	s.schema = found.version
	return found.readable()
}

// errEmpty: somebody was killed before the first commit.
func errEmpty() error {
	return fmt.Errorf("%w: the state database is empty; `resyncd sync` fills it", store.ErrNotFound)
}

func (s *Store) openReader(ctx context.Context, params []string) error {
	pragmas := readerPragmas()
	db, err := connect(ctx, dsn(s.path, params, pragmas), readers, pragmas)
	if err != nil {
		return s.fail("connect for reading", err)
	}
	s.r = &reader{db: db, stmts: map[string]*sql.Stmt{}}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
