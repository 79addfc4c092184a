package dbfile

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/gofrs/flock"
	"modernc.org/sqlite"

	"resyncd/store"
)

const (
	busyTimeout     = 5000     // ms
	journalLimit    = 64 << 20 // of the log, after checkpoints
	checkpointPages = 4000     // of the log, for a checkpoint
	// In KiB. The memory held is more than twice the sum.
	writerCache = 3_072
	readerCache = 512
	readers     = 4
)

// The settings of connections. A mistyped one is silently ignored (TestSettings).
func writerPragmas() []string {
	return []string{
		"synchronous = 1", // NORMAL, because walSync syncs each commit that must survive a power cut (P4)
		"foreign_keys = 1",
		"temp_store = 2", // memory, because /tmp may be small
		fmt.Sprint("cache_size = ", -writerCache),
		fmt.Sprint("journal_size_limit = ", journalLimit),
		fmt.Sprint("wal_autocheckpoint = ", checkpointPages),
	}
}

func readerPragmas() []string {
	return []string{"query_only = 1", "temp_store = 2", fmt.Sprint("cache_size = ", -readerCache)}
}

// dsn names the database for SQLite: a "?" or "#" in an unescaped path would end it early.
func dsn(path string, params ...string) string {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path)}
	if !strings.HasPrefix(u.Path, "/") {
		u.Path = "/" + u.Path // a Windows drive
	}
	return "file:" + u.EscapedPath() + "?" + strings.Join(append([]string{"_dqs=0"}, params...), "&")
}

type firstReadConnector struct {
	driver.Connector
	pragmas []string
}

// Connect implements driver.Connector. A connection that never read, and cannot write the log's
// index, removes the log with all in it as it closes. So the log is kept until it has read.
func (s firstReadConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := s.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.firstRead(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func (s firstReadConnector) firstRead(ctx context.Context, conn driver.Conn) error {
	c, ok := conn.(interface {
		driver.ExecerContext
		sqlite.FileControl
	})
	if !ok {
		return errors.ErrUnsupported
	}
	run := func(query string) error {
		_, err := c.ExecContext(ctx, query, nil)
		return err
	}
	if _, err := c.FileControlPersistWAL("main", 1); err != nil {
		return err
	}
	if err := run(fmt.Sprintf("PRAGMA busy_timeout = %d", busyTimeout)); err != nil {
		return err
	}
	if err := run("SELECT count(*) FROM sqlite_schema"); err != nil {
		return fmt.Errorf("read it for the first time: %w", err)
	}
	if _, err := c.FileControlPersistWAL("main", 0); err != nil {
		return err
	}
	for _, p := range s.pragmas {
		if err := run("PRAGMA " + p); err != nil {
			return fmt.Errorf("set %s: %w", p, err)
		}
	}
	return nil
}

func connect(ctx context.Context, dsn string, size int, pragmas []string) (*sql.DB, error) {
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(firstReadConnector{connector, pragmas})
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	if err := db.PingContext(ctx); err != nil { // the first one now, because later no descriptor may be left (F11)
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func (f *File) openWrite(ctx context.Context, path string, o Options) error {
	abs, err := prepareFile(path)
	if err != nil {
		return err
	}
	if abs, err = filepath.EvalSymlinks(abs); err != nil { // one name for its lock file
		return err
	}
	f.path = abs
	if o.Alone {
		unlock, free, err := Lock(abs + ".lock")
		if err != nil {
			return err
		}
		if !free {
			return &store.HeldError{Source: filepath.Base(abs), Holder: "a " + f.schema.Owner + " that is running"}
		}
		f.unlock = unlock
	}
	db, err := connect(ctx, dsn(abs, "_txlock=immediate", "_defensive=1"), 1, writerPragmas())
	if err != nil {
		return f.Fail("connect", err)
	}
	f.w = &writer{
		db: db, sem: make(chan struct{}, 1), checkpointAbove: walLimit, wal: walSync{path: abs + "-wal", sync: o.Sync},
	}
	if err := f.migrate(ctx); err != nil {
		return err
	}
	if err := f.w.wal.open(); err != nil { // now, because later no descriptor may be left (F11)
		return err
	}
	return f.openReader(ctx, []string{"mode=ro"})
}

// prepareFile makes the file, which SQLite would make readable for all.
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
	// Opening an existing one here and closing it would drop this process's locks on it (POSIX).
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

// openRead leaves no trace. Without a log nobody has the database open, and "immutable" keeps SQLite from making one.
func (f *File) openRead(ctx context.Context, path string) error {
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if abs, err = filepath.EvalSymlinks(abs); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: no state database there; `resyncd sync` makes one", store.ErrNotFound)
	} else if err != nil {
		return err
	}
	f.path = abs
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
	if f.immutable = !exists(abs + "-wal"); f.immutable {
		params = append(params, "immutable=1")
	}
	if err := f.openReader(ctx, params); err != nil {
		return err
	}
	found, err := f.readIdentity(ctx, f.r.db)
	if err != nil {
		return f.Fail("read what it is", err)
	}
	if found.empty() {
		return errEmpty()
	}
	f.version = found.version
	return f.readable(found)
}

func errEmpty() error {
	return fmt.Errorf("%w: the state database is empty; `resyncd sync` fills it", store.ErrNotFound)
}

func (f *File) openReader(ctx context.Context, params []string) error {
	db, err := connect(ctx, dsn(f.path, params...), readers, readerPragmas())
	if err != nil {
		return f.Fail("connect for reading", err)
	}
	f.r = &reader{db: db}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// MakeFolder makes a folder and its missing parents, durably: SQLite syncs only what is in the folder (P4).
func MakeFolder(path string) error { return makeFolder(path, syncFolder) }

func makeFolder(path string, sync func(folder *os.File) error) error {
	var grown []string
	for dir := path; !exists(dir) && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		grown = append(grown, filepath.Dir(dir))
	}
	if err := os.MkdirAll(path, 0o700); err != nil || runtime.GOOS == "windows" { // Windows has no sync of folders
		return err
	}
	for _, dir := range grown {
		f, err := os.Open(dir)
		if err != nil {
			return err
		}
		if err := errors.Join(sync(f), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// syncFolder makes the names in a folder durable, where its file system can.
func syncFolder(f *os.File) error {
	err := f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// Lock takes the lock of a file without waiting; its holder's death releases it. NFS locks only
// files that are open for writing.
func Lock(path string) (unlock func() error, free bool, err error) {
	lock := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR))
	free, err = lock.TryLock()
	return lock.Unlock, free, err
}

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
