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
	// writeWait bounds how long a write waits for its turn; once it began it runs to its end.
	writeWait = 2 * time.Minute
	// walLimit is the size of the log at which it is folded in and cut, whatever readers did to SQLite's own attempts.
	walLimit = 64 << 20
)

// writer is the only connection that writes, used by one goroutine at a time. Its transactions are plain statements on a
// pinned connection: database/sql's own would prepare each statement anew in each transaction.
type writer struct {
	db    *sql.DB
	turn  chan struct{}
	conn  *sql.Conn            // pinned while a transaction runs, and between them
	stmts map[string]*sql.Stmt // those that return rows
	execs direct
	then  func() // what a transaction has done once it is committed, while nobody else has the turn
	// broken is set when the disk failed to make a commit durable; only reopening, which recovers, ends that (F10).
	broken error
	wal    walSync
	// calm is the size of the log up to which folding it in is not tried again.
	calm int64
}

func newWriter(db *sql.DB, path string) *writer {
	return &writer{
		db: db, turn: make(chan struct{}, 1), stmts: map[string]*sql.Stmt{}, execs: newDirect(), calm: walLimit,
		wal: walSync{path: path + "-wal", sync: syncData},
	}
}

// write runs fn in one transaction that is durable when it returns nil. The caller's cancellation does not reach it: a
// cancelled statement would roll back what is already true on disk. It gives up only while waiting for its turn.
func (s *Store) write(ctx context.Context, what string, fn func(context.Context, *writer) error) error {
	return s.writeSoon(context.WithoutCancel(ctx), what, fn)
}

// writing is a way to write: write or writeLax.
type writing func(ctx context.Context, what string, fn func(context.Context, *writer) error) error

// writeLax is write for what a power cut may take back (store.Commit.Repeatable). The log is one file, and recovery reads
// it from the start up to the first frame that is not whole: what is lost is lost from the end, and the sync of a later
// commit keeps this one too.
func (s *Store) writeLax(ctx context.Context, what string, fn func(context.Context, *writer) error) error {
	return s.writeAs(context.WithoutCancel(ctx), what, true, fn)
}

// writeSoon is write for what need not be recorded: the end of ctx ends the waiting, so that a process that holds the
// database and does not move keeps nobody.
func (s *Store) writeSoon(ctx context.Context, what string, fn func(context.Context, *writer) error) error {
	return s.writeAs(ctx, what, false, fn)
}

func (s *Store) writeAs(ctx context.Context, what string, lax bool, fn func(context.Context, *writer) error) error {
	mark, err := s.commit(ctx, what, lax, fn)
	if err != nil || lax {
		return err
	}
	return s.durable(what, mark)
}

// commit is the part of a write that needs the turn. Others may have it while the log is synced. The mark is for durable.
func (s *Store) commit(ctx context.Context, what string, lax bool, fn func(context.Context, *writer) error) (mark int64, err error) {
	if s.w == nil {
		return 0, fmt.Errorf("%s: %w", what, store.ErrReadOnly)
	}
	w := s.w
	wait, cancel := context.WithTimeout(ctx, writeWait)
	defer cancel()
	ctx = context.WithoutCancel(ctx)
	select {
	case w.turn <- struct{}{}:
	case <-wait.Done():
		return 0, fmt.Errorf("%s: the state database was busy for too long: %w", what, wait.Err())
	}
	defer func() { <-w.turn }()
	if err := w.unusable(); err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	if err := w.transact(ctx, wait, fn); err != nil {
		return 0, s.fail(what, err)
	}
	if w.wrote() {
		mark = w.wal.committed(lax)
	} else {
		mark = w.wal.unchanged(lax)
	}
	s.checkpoint(ctx)
	return mark, nil
}

// durable waits until a commit survives a power cut.
func (s *Store) durable(what string, mark int64) error { return s.fail(what, s.w.wal.reach(mark)) }

// unusable is why nothing is written any more, nil if it may be. The caller has the turn.
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
	w.then = nil
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
		if w.then != nil {
			w.then()
		}
		return nil
	}
	if unsynced(err) {
		w.broken = fmt.Errorf("%w: %w", store.ErrUnsure, err)
	}
	// SQLite has rolled back by itself after some errors; then this one only says so. A connection whose transaction
	// may still be open is not used again, nor is one that SQLite could only open for reading when it was made.
	if _, rerr := w.conn.ExecContext(ctx, "ROLLBACK"); rerr != nil || readOnly(err) {
		w.drop()
	}
	return err
}

// wrote tells whether the transaction left anything in the log. One that changed nothing did not, nor one that only wrote rows
// as they were: SQLite leaves such pages alone.
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

// begin takes the write lock at once: a transaction that upgrades later fails whatever the busy timeout says.
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

// drop gives the connection up; the next transaction opens a fresh one.
func (w *writer) drop() {
	for _, st := range w.stmts {
		_ = st.Close()
	}
	clear(w.stmts)
	_ = w.execs.close(w.conn)
	if w.conn != nil {
		w.wal.left.Store(true)
		// An error from Raw's function that is ErrBadConn makes the pool close it instead of keeping it.
		_ = w.conn.Raw(func(any) error { return errDrop })
		_ = w.conn.Close()
	}
	w.conn = nil
}

func (w *writer) close() error {
	w.turn <- struct{}{} // a commit on its way ends first
	defer func() { <-w.turn }()
	var errs []error
	for _, st := range w.stmts {
		errs = append(errs, st.Close())
	}
	clear(w.stmts)
	errs = append(errs, w.execs.close(w.conn))
	if w.conn != nil {
		errs = append(errs, w.conn.Close())
		w.conn = nil
	}
	w.broken = errClosed
	return errors.Join(append(errs, w.wal.close(), w.db.Close())...)
}

// prepare keeps statements: all queries are constants of this package.
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
	res, err := w.execs.run(ctx, w.conn, query, args)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// insert runs a statement that adds rows to one table and returns the id of the last one.
func (w *writer) insert(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := w.execs.run(ctx, w.conn, query, args)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
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

// checkpoint folds the log into the database once it is large, so that it stays bounded during a long baseline. SQLite's
// own attempts cannot start the log over while any reader is inside; this one waits for them. The caller has the turn.
func (s *Store) checkpoint(ctx context.Context) {
	w := s.w
	size := walSize(s.path)
	if size <= w.calm || w.conn == nil {
		if size <= walLimit {
			w.calm = walLimit
		}
		return
	}
	var blocked, log, done int64
	err := w.conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&blocked, &log, &done)
	if err == nil && blocked == 0 {
		w.calm = walLimit
		return
	}
	w.calm = size + walLimit // not before it grew by as much again
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
