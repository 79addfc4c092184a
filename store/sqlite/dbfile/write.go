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
	// writeWait bounds how long a write waits for the writer; once it began it runs to its end.
	writeWait = 2 * time.Minute
	// walLimit is the size at which the log is folded in and cut, even if readers prevented
	// SQLite's own attempts.
	walLimit = 64 << 20
)

// Writer is the only connection that writes, used by the goroutine that has put a token into sem.
// Its transactions are plain statements on a pinned connection: database/sql's own would prepare
// each statement anew in each transaction.
type Writer struct {
	db    *sql.DB
	sem   chan struct{}
	conn  *sql.Conn // pinned while a transaction runs, and between them
	stmts statements
	// afterCommit is set by a transaction, and called after its commit while the writer is held.
	afterCommit func()
	// broken is set when the disk failed to make a commit durable; only reopening, which recovers,
	// ends that (F10).
	broken error
	wal    walSync
	// checkpointAbove is the size of the log above which folding it in is tried again.
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

// Write runs fn in one transaction that is durable when it returns nil. The caller's cancellation
// does not reach fn: a cancelled statement would roll back what is already true on disk. It only
// ends the wait for the writer.
func (f *File) Write(ctx context.Context, what string, fn func(context.Context, *Writer) error) error {
	return f.WriteBestEffort(context.WithoutCancel(ctx), what, fn)
}

// WriteAsync is Write for what a power cut may take back (store.Commit.Repeatable). Recovery reads
// the log up to the first incomplete frame, so only the last commits are lost, and the sync of a
// later commit keeps this one too.
func (f *File) WriteAsync(ctx context.Context, what string, fn func(context.Context, *Writer) error) error {
	_, err := f.commit(context.WithoutCancel(ctx), what, true, fn)
	return err
}

// WriteBestEffort is Write for what need not be recorded: the end of ctx ends the wait, so that
// another process that holds the database without progress blocks nobody.
func (f *File) WriteBestEffort(ctx context.Context, what string, fn func(context.Context, *Writer) error) error {
	mark, err := f.commit(ctx, what, false, fn)
	if err != nil {
		return err
	}
	return f.durable(what, mark)
}

// WriteReadable is Write that calls readable once all of it can be read: before it is known to
// survive a power cut, and even if that fails.
func (f *File) WriteReadable(ctx context.Context, what string, readable func(),
	fn func(context.Context, *Writer) error) error {
	mark, err := f.commit(context.WithoutCancel(ctx), what, false, fn)
	if err != nil {
		return err
	}
	if readable != nil {
		readable()
	}
	return f.durable(what, mark)
}

// Durable returns once every commit so far survives a power cut. It shares a sync with those who
// wait for a commit.
func (f *File) Durable() error {
	if f.w == nil {
		return nil
	}
	return f.durable("wait until the state is durable", f.w.wal.newest())
}

// commit is the part of a write that holds the writer, which is free again while the log is synced.
// The mark is for durable.
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
	if w.wrote() {
		mark = w.wal.committed(async)
	} else {
		mark = w.wal.unchanged(async)
	}
	f.checkpoint(ctx)
	return mark, nil
}

// durable waits until a commit survives a power cut.
func (f *File) durable(what string, mark int64) error { return f.Fail(what, f.w.wal.waitFor(mark)) }

// unusable is why nothing is written any more, nil if writing works. The caller holds the writer.
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
	defer func() { // a caller's function that panics (ChangeSubscription) must not leave the write lock behind
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
	// SQLite has rolled back by itself after some errors; then this fails harmlessly. A connection
	// whose transaction may still be open is not used again, nor is one that SQLite could only open
	// for reading.
	if _, rerr := w.conn.ExecContext(ctx, "ROLLBACK"); rerr != nil || readOnly(err) {
		w.drop()
	}
	return err
}

// wrote reports whether the transaction left anything in the log. SQLite leaves pages alone whose
// rows did not change.
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

// begin takes the write lock at once: a transaction that upgrades later fails whatever the busy
// timeout says.
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
			continue // each try waits for the busy timeout
		}
		if err == nil && fresh { // by now there is a log, and nothing of ours in it
			err = w.wal.open()
		}
		if err != nil {
			w.drop()
		}
		return err
	}
}

// drop gives the connection up; the next transaction opens a new one.
func (w *Writer) drop() {
	_ = w.stmts.close()
	if w.conn != nil {
		w.wal.writerClosed.Store(true)
		// An error from Raw's function that is ErrBadConn makes the pool close it instead of
		// keeping it.
		_ = w.conn.Raw(func(any) error { return errDrop })
		_ = w.conn.Close()
	}
	w.conn = nil
}

func (w *Writer) close() error {
	w.sem <- struct{}{} // a running commit ends first
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

// Insert runs a statement that adds rows to one table and returns the id of the last one.
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

// checkpoint folds the log into the database once it is large, so that it stays bounded during a
// long baseline. SQLite's own attempts cannot start the log over while any reader is inside; this
// one waits for them. The caller holds the writer.
func (f *File) checkpoint(ctx context.Context) {
	w := f.w
	size := walSize(f.path)
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
	w.checkpointAbove = size + walLimit // not before it grew by as much again
	f.log.Warn("the log of the state database could not be folded in: another process reads for a long time",
		"path", f.path, "bytes", size, "err", err)
}

func walSize(path string) int64 {
	info, err := os.Stat(path + "-wal")
	if err != nil {
		return 0
	}
	return info.Size()
}
