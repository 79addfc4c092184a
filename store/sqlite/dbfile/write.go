package dbfile

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"

	"resyncd/store"
)

const (
	// writeWait bounds the wait for the writer.
	writeWait = 2 * time.Minute
	// walLimit is the size at which the log is folded in, though readers kept SQLite from it.
	walLimit = 64 << 20
)

// writer is the only connection that writes, used by the goroutine that has put a token into sem.
// Its transactions are plain statements, because database/sql's own prepare each statement anew.
type writer struct {
	db    *sql.DB
	sem   chan struct{}
	conn  *sql.Conn
	stmts statements
	// broken: the disk did not make a commit durable. Only reopening, which recovers, ends that (F10).
	broken error
	wal    walSync
	// checkpointAbove is the size of the log above which a checkpoint is due.
	checkpointAbove int64
}

// Write runs fn in one transaction that is durable when it returns nil, or repeatable. The end of ctx does not
// reach fn: a cancelled statement would roll back what is already true on disk.
func (f *File) Write(ctx context.Context, what string, fn func(*Session)) error {
	return f.WriteBestEffort(context.WithoutCancel(ctx), what, fn)
}

// WriteBestEffort is Write that gives up when ctx ends before the writer is free.
func (f *File) WriteBestEffort(ctx context.Context, what string, fn func(*Session)) error {
	s, mark, err := f.commit(ctx, what, fn)
	if err != nil || s.repeatable {
		return err
	}
	if s.readable != nil {
		s.readable()
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
func (f *File) commit(ctx context.Context, what string, fn func(*Session)) (s *Session, mark int64, err error) {
	if f.w == nil {
		return nil, 0, fmt.Errorf("%s: %w", what, store.ErrReadOnly)
	}
	w := f.w
	wait, cancel := context.WithTimeout(ctx, writeWait)
	defer cancel()
	select {
	case w.sem <- struct{}{}:
	case <-wait.Done():
		return nil, 0, fmt.Errorf("%s: the state database was busy for too long: %w", what, wait.Err())
	}
	defer func() { <-w.sem }()
	if err := w.unusable(); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", what, err)
	}
	s = &Session{ctx: context.WithoutCancel(ctx), f: f, what: what, stmts: &w.stmts}
	if err := w.transact(s, wait, fn); err != nil {
		return nil, 0, f.Fail(what, err)
	}
	mark = w.wal.committed(w.wrote(), s.repeatable)
	f.checkpoint(s.ctx)
	return s, mark, nil
}

func (f *File) durable(what string, mark int64) error { return f.Fail(what, f.w.wal.waitFor(mark)) }

// unusable is why nothing is written any more. The caller holds the writer.
func (w *writer) unusable() error {
	if w.broken == nil {
		w.broken = w.wal.failure()
	}
	return w.broken
}

func (w *writer) transact(s *Session, wait context.Context, fn func(*Session)) error {
	if err := w.begin(s.ctx, wait); err != nil {
		return err
	}
	s.on = w.conn
	ended := false
	defer func() { // fn panicked
		if !ended {
			w.drop()
		}
	}()
	fn(s)
	ended = true
	s.Exec("COMMIT")
	if s.err == nil {
		if s.afterCommit != nil {
			s.afterCommit()
		}
		return nil
	}
	if unsynced(s.err) {
		w.broken = fmt.Errorf("%w: %w", store.ErrUnsure, s.err)
	}
	// This fails where SQLite rolled back by itself. A connection in doubt is not used again.
	if _, err := w.conn.ExecContext(s.ctx, "ROLLBACK"); err != nil || readOnly(s.err) {
		w.drop()
	}
	return s.err
}

// wrote reports whether the transaction left anything in the log.
func (w *writer) wrote() bool {
	pages := 0
	err := w.conn.Raw(func(conn any) error {
		status, ok := conn.(sqlite.DBStatus)
		if !ok {
			return errors.ErrUnsupported
		}
		var err error
		pages, _, err = status.Status(sqlite.DBStatusCacheWrite, true)
		return err
	})
	return err != nil || pages > 0
}

// begin takes the write lock at once, because an upgrade later fails whatever the busy timeout.
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
		begun, err := w.stmts.prepare(ctx, w.conn, "BEGIN IMMEDIATE")
		if err == nil {
			_, err = begun.ExecContext(ctx)
		}
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

func (w *writer) drop() {
	_ = w.stmts.close()
	if w.conn != nil {
		w.wal.writerClosed.Store(true)
		// ErrBadConn makes the pool close the connection.
		_ = w.conn.Raw(func(any) error { return driver.ErrBadConn })
		_ = w.conn.Close()
	}
	w.conn = nil
}

func (w *writer) close() error {
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

// walSync makes commits durable by one fdatasync of the log for all who wait, while the writer is free. Recovery
// reads the log up to the first incomplete frame, so a sync covers every earlier commit; what left the log SQLite has
// synced. A commit can be read before it is durable. Another commit that follows from it is safe, because it becomes
// durable later; a change of the mirror waits (Durable).
type walSync struct {
	path string
	sync func(*os.File) error

	commits atomic.Int64 // written to the log by this process
	wanted  atomic.Int64 // the newest that somebody waits for
	failed  atomic.Pointer[error]

	// writerClosed since the log was opened: SQLite may have removed it.
	writerClosed atomic.Bool

	mu   sync.Mutex  // held while the log is synced
	file *os.File    // receives the error of every write that the kernel lost (F10)
	info os.FileInfo // of file
	done int64       // commits that are durable
}

// committed is the mark of a transaction. One that wrote nothing may have read an async commit. The
// caller holds the writer.
func (y *walSync) committed(wrote, async bool) int64 {
	n := y.newest()
	if wrote {
		n = y.commits.Add(1)
	}
	if !async {
		y.wanted.Store(n)
	}
	return n
}

func (y *walSync) newest() int64 { return y.commits.Load() }

// failure is why no further commit can be trusted. The kernel reports a lost write once, so no
// failed sync is tried again (F10).
func (y *walSync) failure() error {
	if err := y.failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (y *walSync) waitFor(commit int64) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.extend(commit)
}

func (y *walSync) extend(commit int64) error {
	if y.done >= commit {
		return nil
	}
	if err := y.failure(); err != nil {
		return err
	}
	if y.file == nil {
		return errClosed
	}
	covered := y.commits.Load()
	there, err := y.isCurrent()
	if there {
		err = y.sync(y.file)
	}
	if err != nil {
		return y.fail(err)
	}
	y.done = covered
	return nil
}

func (y *walSync) fail(err error) error {
	err = fmt.Errorf("%w: sync its log: %w", store.ErrUnsure, err)
	y.failed.Store(&err)
	return err
}

// close makes durable what somebody waits for, because the log may go. The caller holds the writer.
func (y *walSync) close() error {
	y.mu.Lock()
	defer y.mu.Unlock()
	var err error
	if y.failure() == nil {
		err = y.extend(y.wanted.Load())
	}
	if y.file != nil {
		err = errors.Join(err, y.file.Close())
		y.file = nil
	}
	return err
}

// open opens the log before anything is written, so that a commit that cannot be synced (F11) has no effect.
func (y *walSync) open() error {
	y.mu.Lock()
	defer y.mu.Unlock()
	if err := y.failure(); err != nil {
		return err
	}
	if y.file != nil {
		there, err := y.isCurrent()
		if err != nil {
			return y.fail(err)
		}
		if there {
			y.writerClosed.Store(false)
			return nil
		}
		y.done = y.commits.Load()
		_ = y.file.Close()
		y.file = nil
	}
	f, err := os.OpenFile(y.path, os.O_RDWR, 0) // for Windows
	if err != nil {
		return err
	}
	is, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	y.file, y.info = f, is
	y.writerClosed.Store(false)
	return nil
}

// isCurrent: the open log is the one at its path. SQLite removes it when the last connection closes and all is in the
// database. After any other loss SQLite goes on writing to a file that nobody would find (P4).
func (y *walSync) isCurrent() (bool, error) {
	at, err := os.Stat(y.path)
	switch {
	case err == nil && os.SameFile(at, y.info):
		return true, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	case y.writerClosed.Load() && !linked(y.file):
		return false, nil
	}
	return false, fmt.Errorf("%s is not the file any more that is written to: its folder was moved, restored, "+
		"removed or mounted over while this process ran. What it wrote last is in the old one: put that back, then "+
		"start again", y.path)
}
