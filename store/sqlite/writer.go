package sqlite

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

// writer is the only connection that writes, used by the goroutine that has put a token into sem.
// Its transactions are plain statements on a pinned connection: database/sql's own would prepare
// each statement anew in each transaction.
type writer struct {
	db          *sql.DB
	sem         chan struct{}
	conn        *sql.Conn // pinned while a transaction runs, and between them
	stmts       map[string]*sql.Stmt
	afterCommit func() // set by a transaction, called after its commit while the writer is still held
	// broken is set when the disk failed to make a commit durable; only reopening, which recovers,
	// ends that (F10).
	broken error
	wal    walSync
	// checkpointAbove is the size of the log above which folding it in is tried again.
	checkpointAbove int64
}

func newWriter(db *sql.DB, path string) *writer {
	return &writer{
		db: db, sem: make(chan struct{}, 1), stmts: map[string]*sql.Stmt{}, checkpointAbove: walLimit,
		wal: walSync{path: path + "-wal", sync: syncData},
	}
}

// write runs fn in one transaction that is durable when it returns nil. The caller's cancellation
// does not reach fn: a cancelled statement would roll back what is already true on disk. It only
// ends the wait for the writer.
func (s *Store) write(ctx context.Context, what string, fn func(context.Context, *writer) error) error {
	return s.writeBestEffort(context.WithoutCancel(ctx), what, fn)
}

// writeFunc is a way to write: write or writeAsync.
type writeFunc func(ctx context.Context, what string, fn func(context.Context, *writer) error) error

// writeAsync is write for what a power cut may take back (store.Commit.Repeatable). Recovery reads
// the log up to the first incomplete frame, so only the last commits are lost, and the sync of a
// later commit keeps this one too.
func (s *Store) writeAsync(ctx context.Context, what string, fn func(context.Context, *writer) error) error {
	return s.writeAs(context.WithoutCancel(ctx), what, true, fn)
}

// writeBestEffort is write for what need not be recorded: the end of ctx ends the wait, so that
// another process that holds the database without progress blocks nobody.
func (s *Store) writeBestEffort(ctx context.Context, what string, fn func(context.Context, *writer) error) error {
	return s.writeAs(ctx, what, false, fn)
}

func (s *Store) writeAs(ctx context.Context, what string, async bool, fn func(context.Context, *writer) error) error {
	mark, err := s.commit(ctx, what, async, fn)
	if err != nil || async {
		return err
	}
	return s.durable(what, mark)
}

// commit is the part of a write that holds the writer, which is free again while the log is synced.
// The mark is for durable.
func (s *Store) commit(ctx context.Context, what string, async bool,
	fn func(context.Context, *writer) error) (mark int64, err error) {
	if s.w == nil {
		return 0, fmt.Errorf("%s: %w", what, store.ErrReadOnly)
	}
	w := s.w
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
		return 0, s.fail(what, err)
	}
	if w.wrote() {
		mark = w.wal.committed(async)
	} else {
		mark = w.wal.unchanged(async)
	}
	s.checkpoint(ctx)
	return mark, nil
}

// durable waits until a commit survives a power cut.
func (s *Store) durable(what string, mark int64) error { return s.fail(what, s.w.wal.waitFor(mark)) }

// unusable is why nothing is written any more, nil if writing works. The caller holds the writer.
func (w *writer) unusable() error {
	if w.broken == nil {
		w.broken = w.wal.failure()
	}
	return w.broken
}

func (w *writer) transact(ctx, wait context.Context, fn func(context.Context, *writer) error) error {
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
		_, err = w.exec(ctx, "COMMIT")
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
func (w *writer) wrote() bool {
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
func (w *writer) begin(ctx, wait context.Context) error {
	fresh := w.conn == nil
	if fresh {
		conn, err := w.db.Conn(ctx)
		if err != nil {
			return err
		}
		w.conn = conn
	}
	for {
		_, err := w.exec(ctx, "BEGIN IMMEDIATE")
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
func (w *writer) drop() {
	for _, st := range w.stmts {
		_ = st.Close()
	}
	clear(w.stmts)
	if w.conn != nil {
		w.wal.writerClosed.Store(true)
		// An error from Raw's function that is ErrBadConn makes the pool close it instead of
		// keeping it.
		_ = w.conn.Raw(func(any) error { return errDrop })
		_ = w.conn.Close()
	}
	w.conn = nil
}

func (w *writer) close() error {
	w.sem <- struct{}{} // a running commit ends first
	defer func() { <-w.sem }()
	var errs []error
	for _, st := range w.stmts {
		errs = append(errs, st.Close())
	}
	clear(w.stmts)
	if w.conn != nil {
		errs = append(errs, w.conn.Close())
		w.conn = nil
	}
	w.broken = errClosed
	return errors.Join(append(errs, w.wal.close(), w.db.Close())...)
}

// prepare keeps statements, because all queries are constants of this package.
func (w *writer) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if st := w.stmts[query]; st != nil {
		return st, nil
	}
	st, err := w.conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	w.stmts[query] = st
	return st, nil
}

// exec runs a statement and returns how many rows it changed.
func (w *writer) exec(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := w.run(ctx, query, args)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// insert runs a statement that adds rows to one table and returns the id of the last one.
func (w *writer) insert(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := w.run(ctx, query, args)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

func (w *writer) run(ctx context.Context, query string, args []any) (sql.Result, error) {
	st, err := w.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	return st.ExecContext(ctx, args...)
}

func (w *writer) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	st, err := w.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	return st.QueryContext(ctx, args...)
}

// get reads one row; sql.ErrNoRows if there is none.
func (w *writer) get(ctx context.Context, query string, args []any, dest ...any) error {
	st, err := w.prepare(ctx, query)
	if err != nil {
		return err
	}
	return st.QueryRowContext(ctx, args...).Scan(dest...)
}

// checkpoint folds the log into the database once it is large, so that it stays bounded during a
// long baseline. SQLite's own attempts cannot start the log over while any reader is inside; this
// one waits for them. The caller holds the writer.
func (s *Store) checkpoint(ctx context.Context) {
	w := s.w
	size := walSize(s.path)
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
	s.log.Warn("the log of the state database could not be folded in: another process reads for a long time",
		"path", s.path, "bytes", size, "err", err)
}

func walSize(path string) int64 {
	info, err := os.Stat(path + "-wal")
	if err != nil {
		return 0
	}
	return info.Size()
}
