package dbfile

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"modernc.org/sqlite"
)

var (
	errDrop   = driver.ErrBadConn
	errClosed = errors.New("state database is closed")
)

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
