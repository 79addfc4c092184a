package dbfile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"modernc.org/sqlite"

	"resyncd/store"
)

// Session runs statements: all in one transaction where it writes, each for itself where it reads. It remembers its
// first failure and does nothing after it, so that only the end has to be looked at.
type Session struct {
	ctx   context.Context //nolint:containedctx // as in sql.Tx
	f     *File
	what  string // is done, for people
	on    preparer
	stmts *statements
	err   error
	// afterCommit is called while the writer is still held, readable before the commit is known to survive a power cut.
	afterCommit, readable func()
	repeatable            bool
}

// Fail ends the session with an error, unless it is nil or another was first.
func (s *Session) Fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// Err is the first failure, with what was tried.
func (s *Session) Err() error { return s.f.Fail(s.what, s.err) }

// Failed reports a failure, for loops that would not end.
func (s *Session) Failed() bool { return s.err != nil }

// prepare returns nil after a failure, and where an older file that is only read has no such table yet: it counts as
// empty.
func (s *Session) prepare(query string) *sql.Stmt {
	if s.err != nil {
		return nil
	}
	st, err := s.stmts.prepare(s.ctx, s.on, query)
	if s.f.lacks(err) {
		return nil
	}
	s.Fail(err)
	return st
}

// Rows goes over the rows of a query.
func (s *Session) Rows(query string, args ...any) iter.Seq[*sql.Rows] {
	return func(yield func(*sql.Rows) bool) {
		st := s.prepare(query)
		if st == nil {
			return
		}
		rows, err := st.QueryContext(s.ctx, args...)
		if err != nil {
			s.Fail(err)
			return
		}
		defer rows.Close()
		for s.err == nil && rows.Next() && yield(rows) {
			continue
		}
		s.Fail(rows.Err())
	}
}

// Get reads the first row of a query, and reports whether there is one.
func (s *Session) Get(query string, args []any, dest ...any) (found bool) {
	st := s.prepare(query)
	if st == nil {
		return false
	}
	err := st.QueryRowContext(s.ctx, args...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return false
	}
	s.Fail(err)
	return err == nil
}

// Has reports whether a query for a number has a row.
func (s *Session) Has(query string, args ...any) bool { return s.Get(query, args, new(int64)) }

// All reads every row of a query. fields are the places of its columns in a T.
func All[T any](s *Session, fields func(*T) []any, query string, args ...any) []T {
	var out []T
	for rows := range s.Rows(query, args...) {
		var v T
		s.Fail(rows.Scan(fields(&v)...))
		out = append(out, v)
	}
	if s.err != nil {
		return nil
	}
	return out
}

// One reads the first row of a query, and fails with store.ErrNotFound if there is none.
func One[T any](s *Session, fields func(*T) []any, query string, args ...any) (v T) {
	if !s.Get(query, args, fields(&v)...) {
		s.Fail(store.ErrNotFound)
		v = *new(T)
	}
	return v
}

// Exec runs a statement and returns how many rows it changed.
func (s *Session) Exec(query string, args ...any) int64 {
	return s.run(sql.Result.RowsAffected, query, args)
}

// Insert adds rows to one table and returns the id of the last one.
func (s *Session) Insert(query string, args ...any) int64 {
	return s.run(sql.Result.LastInsertId, query, args)
}

// Change is Exec that fails with store.ErrNotFound if there is no such row.
func (s *Session) Change(query string, args ...any) {
	if s.Exec(query, args...) == 0 {
		s.Fail(store.ErrNotFound)
	}
}

func (s *Session) run(answer func(sql.Result) (int64, error), query string, args []any) int64 {
	st := s.prepare(query)
	if st == nil {
		return 0
	}
	res, err := st.ExecContext(s.ctx, args...)
	if err != nil {
		s.Fail(err)
		return 0
	}
	n, err := answer(res)
	s.Fail(err)
	return n
}

// AfterCommit has do called after the commit, before anyone else writes.
func (s *Session) AfterCommit(do func()) { s.afterCommit = do }

// WhenReadable has do called, unless nil, before the commit is known to survive a power cut.
func (s *Session) WhenReadable(do func()) { s.readable = do }

// Repeatable says that a power cut may take this transaction back (store.Commit.Repeatable). The sync of a later commit
// keeps it too.
func (s *Session) Repeatable() { s.repeatable = true }

var errClosed = errors.New("state database is closed")

// statements are prepared once; all queries are constants.
type statements struct {
	mu   sync.Mutex
	kept map[string]*sql.Stmt
}

type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

func (s *statements) prepare(ctx context.Context, on preparer, query string) (*sql.Stmt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.kept[query]; st != nil {
		return st, nil
	}
	st, err := on.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	if s.kept == nil {
		s.kept = map[string]*sql.Stmt{}
	}
	s.kept[query] = st
	return st, nil
}

func (s *statements) queries() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.kept))
}

func (s *statements) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, st := range s.kept {
		errs = append(errs, st.Close())
	}
	clear(s.kept)
	return errors.Join(errs...)
}

// reader is a pool of connections that cannot write. A long read keeps the log from being folded
// in, so everything large is paged by key.
type reader struct {
	db    *sql.DB
	stmts statements
}

func (r *reader) close() error { return errors.Join(r.stmts.close(), r.db.Close()) }

// Read is a session that only reads.
func (f *File) Read(ctx context.Context, what string) *Session {
	return &Session{ctx: ctx, f: f, what: what, on: f.r.db, stmts: &f.r.stmts}
}

// ReadFew reads few rows on the writing connection if it is free, because a reader's cache is empty after each commit.
func (f *File) ReadFew(ctx context.Context, what string, few bool, fn func(*Session)) error {
	s := f.Read(ctx, what)
	if few && f.w != nil {
		select {
		case f.w.sem <- struct{}{}:
			defer func() { <-f.w.sem }()
			if f.w.conn != nil && f.w.unusable() == nil {
				s = &Session{ctx: context.WithoutCancel(ctx), f: f, what: what, on: f.w.conn, stmts: &f.w.stmts}
			}
		default:
		}
	}
	fn(s)
	return s.Err()
}

// Queries are the statements used so far, for tests of their plans.
func (f *File) Queries() []string {
	all := f.r.stmts.queries()
	if f.w != nil {
		all = append(all, f.w.stmts.queries()...)
	}
	return all
}

const snapshotPages = 4096

type backuper interface {
	NewBackup(dst string) (*sqlite.Backup, error)
}

// CopyTo copies the database, as of one instant, into the new file to (mode 0600), beside any
// writer. The copy is not synced.
func (f *File) CopyTo(ctx context.Context, to string) error {
	to, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	copied, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("copy the state database: %w", err)
	}
	if err := copied.Close(); err != nil {
		return err
	}
	if err := f.copyPages(ctx, to); err != nil {
		return errors.Join(f.Fail("copy the state database", err), os.Remove(to))
	}
	return nil
}

// copyPages copies all pages in one read transaction, so that no writer shows up half.
func (f *File) copyPages(ctx context.Context, to string) error {
	conn, err := f.r.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil {
		return err
	}
	defer func() { _, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") }()
	var n int64
	// It takes the read lock.
	if err := conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&n); err != nil {
		return err
	}
	return conn.Raw(func(c any) error {
		source, ok := c.(backuper)
		if !ok {
			return errors.New("this driver cannot copy databases")
		}
		backup, err := source.NewBackup(dsn(to, "_pragma=synchronous(0)", "_pragma=journal_mode(OFF)"))
		if err != nil {
			return err
		}
		for more := true; more && err == nil; {
			if err = ctx.Err(); err == nil {
				more, err = backup.Step(snapshotPages)
			}
		}
		return errors.Join(err, backup.Finish())
	})
}
