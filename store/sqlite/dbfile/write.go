package dbfile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	driver "modernc.org/sqlite"

	"resyncd/store"
)

const (
	// writeWait bounds the wait for the writer.
	writeWait = 2 * time.Minute
	// walLimit is the size at which the log is folded in, though readers kept SQLite from it.
	walLimit = 64 << 20
)

// Writer is the only connection that writes, used by the goroutine that has put a token into sem.
// Its transactions are plain statements, because database/sql's own prepare each statement anew.
type Writer struct {
	db    *sql.DB
	sem   chan struct{}
	conn  *sql.Conn
	stmts statements
	// afterCommit is called while the writer is still held.
	afterCommit func()
	// broken: the disk did not make a commit durable. Only reopening, which recovers, ends that (F10).
	broken error
	wal    walSync
	// checkpointAbove is the size of the log above which a checkpoint is due.
	checkpointAbove int64
}

func newWriter(db *sql.DB, path string, sync func(*os.File) error) *Writer {
	if sync == nil {
		sync = syncData
	}
	return &Writer{
		db: db, sem: make(chan struct{}, 1), checkpointAbove: walLimit, wal: walSync{path: path + "-wal", sync: sync},
	}
}

// Write runs fn in one transaction that is durable when it returns nil. The end of ctx does not
// reach fn: a cancelled statement would roll back what is already true on disk.
func (f *File) Write(ctx context.Context, what string, fn func(context.Context, *Writer) error) error {
	return f.WriteReadable(ctx, what, nil, fn)
}

// WriteAsync is Write for what a power cut may take back (store.Commit.Repeatable). The sync of a
// later commit keeps it too.
func (f *File) WriteAsync(ctx context.Context, what string, fn func(context.Context, *Writer) error) error {
	_, err := f.commit(context.WithoutCancel(ctx), what, true, fn)
	return err
}

// WriteReadable is Write that calls readable, unless nil, before the commit is known to survive a power cut.
func (f *File) WriteReadable(ctx context.Context, what string, readable func(),
	fn func(context.Context, *Writer) error) error {
	return f.write(context.WithoutCancel(ctx), what, readable, fn)
}

// WriteBestEffort is Write that gives up when ctx ends before the writer is free.
func (f *File) WriteBestEffort(ctx context.Context, what string, fn func(context.Context, *Writer) error) error {
	return f.write(ctx, what, nil, fn)
}

func (f *File) write(ctx context.Context, what string, readable func(),
	fn func(context.Context, *Writer) error) error {
	mark, err := f.commit(ctx, what, false, fn)
	if err != nil {
		return err
	}
	if readable != nil {
		readable()
	}
	return f.durable(what, mark)
}

// Durable returns once every commit so far survives a power cut.
func (f *File) Durable() error {
	if f.w == nil {
		return nil
	}
	return f.durable("wait until the state is durable", f.w.wal.newest())
}

// commit holds the writer, which is free again while durable syncs the log up to mark.
func (f *File) commit(ctx context.Context, what string, async bool,
	fn func(context.Context, *Writer) error) (mark int64, err error) {
	if f.w == nil {
		return 0, fmt.Errorf("%s: %w", what, store.ErrReadOnly)
	}
	w := f.w
	wait, cancel := context.WithTimeout(ctx, writeWait)
	defer cancel()
	ctx = context.WithoutCancel(ctx)
	select {
	case w.sem <- struct{}{}:
	case <-wait.Done():
		return 0, fmt.Errorf("%s: the state database was busy for too long: %w", what, wait.Err())
	}
	defer func() { <-w.sem }()
	if err := w.unusable(); err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	if err := w.transact(ctx, wait, fn); err != nil {
		return 0, f.Fail(what, err)
	}
	mark = w.wal.committed(w.wrote(), async)
	f.checkpoint(ctx)
	return mark, nil
}

func (f *File) durable(what string, mark int64) error { return f.Fail(what, f.w.wal.waitFor(mark)) }

// unusable is why nothing is written any more. The caller holds the writer.
func (w *Writer) unusable() error {
	if w.broken == nil {
		w.broken = w.wal.failure()
	}
	return w.broken
}

func (w *Writer) transact(ctx, wait context.Context, fn func(context.Context, *Writer) error) error {
	if err := w.begin(ctx, wait); err != nil {
		return err
	}
	w.afterCommit = nil
	ended := false
	defer func() { // fn panicked
		if !ended {
			w.drop()
		}
	}()
	err := fn(ctx, w)
	ended = true
	if err == nil {
		_, err = w.Exec(ctx, "COMMIT")
	}
	if err == nil {
		if w.afterCommit != nil {
			w.afterCommit()
		}
		return nil
	}
	if unsynced(err) {
		w.broken = fmt.Errorf("%w: %w", store.ErrUnsure, err)
	}
	// This fails where SQLite rolled back by itself. A connection in doubt is not used again.
	if _, rerr := w.conn.ExecContext(ctx, "ROLLBACK"); rerr != nil || readOnly(err) {
		w.drop()
	}
	return err
}

// wrote reports whether the transaction left anything in the log.
func (w *Writer) wrote() bool {
	pages := 0
	err := w.conn.Raw(func(conn any) error {
		status, ok := conn.(driver.DBStatus)
		if !ok {
			return errors.ErrUnsupported
		}
		var err error
		pages, _, err = status.Status(driver.DBStatusCacheWrite, true)
		return err
	})
	return err != nil || pages > 0
}

// begin takes the write lock at once, because an upgrade later fails whatever the busy timeout.
func (w *Writer) begin(ctx, wait context.Context) error {
	fresh := w.conn == nil
	if fresh {
		conn, err := w.db.Conn(ctx)
		if err != nil {
			return err
		}
		w.conn = conn
	}
	for {
		_, err := w.Exec(ctx, "BEGIN IMMEDIATE")
		if busy(err) && wait.Err() == nil {
			continue // after the busy timeout
		}
		if err == nil && fresh { // there is a log, with nothing of ours in it
			err = w.wal.open()
		}
		if err != nil {
			w.drop()
		}
		return err
	}
}

func (w *Writer) drop() {
	_ = w.stmts.close()
	if w.conn != nil {
		w.wal.writerClosed.Store(true)
		// ErrBadConn makes the pool close the connection.
		_ = w.conn.Raw(func(any) error { return errDrop })
		_ = w.conn.Close()
	}
	w.conn = nil
}

func (w *Writer) close() error {
	w.sem <- struct{}{}
	defer func() { <-w.sem }()
	errs := []error{w.stmts.close()}
	if w.conn != nil {
		errs = append(errs, w.conn.Close())
		w.conn = nil
	}
	w.broken = errClosed
	return errors.Join(append(errs, w.wal.close(), w.db.Close())...)
}

// Exec runs a statement and returns how many rows it changed.
func (w *Writer) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := w.run(ctx, query, args)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Insert adds rows to one table and returns the id of the last one.
func (w *Writer) Insert(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := w.run(ctx, query, args)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

func (w *Writer) run(ctx context.Context, query string, args []any) (sql.Result, error) {
	st, err := w.stmts.prepare(ctx, w.conn, query)
	if err != nil {
		return nil, err
	}
	return st.ExecContext(ctx, args...)
}

// Query implements Querier, inside the transaction.
func (w *Writer) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return w.stmts.query(ctx, w.conn, query, args)
}

// Get implements Querier.
func (w *Writer) Get(ctx context.Context, query string, args []any, dest ...any) error {
	return w.stmts.get(ctx, w.conn, query, args, dest)
}

// AfterCommit has do called after the commit, before anyone else writes.
func (w *Writer) AfterCommit(do func()) { w.afterCommit = do }

// checkpoint folds a large log in and waits for readers, which SQLite itself does not. The caller holds the writer.
func (f *File) checkpoint(ctx context.Context) {
	w := f.w
	size := int64(0)
	if info, err := os.Stat(f.path + "-wal"); err == nil {
		size = info.Size()
	}
	if size <= w.checkpointAbove || w.conn == nil {
		if size <= walLimit {
			w.checkpointAbove = walLimit
		}
		return
	}
	var blocked, log, done int64
	err := w.conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&blocked, &log, &done)
	if err == nil && blocked == 0 {
		w.checkpointAbove = walLimit
		return
	}
	w.checkpointAbove = size + walLimit
	f.log.Warn("the log of the state database could not be folded in: another process reads for a long time",
		"path", f.path, "bytes", size, "err", err)
}
