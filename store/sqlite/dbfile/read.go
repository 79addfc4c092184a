package dbfile

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"maps"
	"slices"
	"sync"
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

func (s *statements) query(ctx context.Context, on preparer, query string, args []any) (*sql.Rows, error) {
	st, err := s.prepare(ctx, on, query)
	if err != nil {
		return nil, err
	}
	return st.QueryContext(ctx, args...)
}

func (s *statements) get(ctx context.Context, on preparer, query string, args, dest []any) error {
	st, err := s.prepare(ctx, on, query)
	if err != nil {
		return err
	}
	return st.QueryRowContext(ctx, args...).Scan(dest...)
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

// Query implements Querier, on connections that only read.
func (f *File) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return f.r.stmts.query(ctx, f.r.db, query, args)
}

// Get implements Querier.
func (f *File) Get(ctx context.Context, query string, args []any, dest ...any) error {
	return f.r.stmts.get(ctx, f.r.db, query, args, dest)
}

// All reads every row of a query. fields are the places of its columns in a T.
func All[T any](ctx context.Context, from Querier, fields func(*T) []any, query string, args ...any) ([]T, error) {
	rows, err := from.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		var v T
		if err := rows.Scan(fields(&v)...); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// One reads the first row of a query; sql.ErrNoRows if there is none.
func One[T any](ctx context.Context, from Querier, fields func(*T) []any, query string, args ...any) (T, error) {
	var v, none T
	if err := from.Get(ctx, query, args, fields(&v)...); err != nil {
		return none, err
	}
	return v, nil
}

// ReadOnWriter runs a read of few rows on the writing connection if it is free, because a reader's
// cache is empty after each commit. fn closes its rows.
func (f *File) ReadOnWriter(ctx context.Context, few bool, fn func(context.Context, Querier) error) error {
	if !few || f.w == nil {
		return fn(ctx, f)
	}
	select {
	case f.w.sem <- struct{}{}:
	default:
		return fn(ctx, f)
	}
	defer func() { <-f.w.sem }()
	if f.w.conn == nil || f.w.unusable() != nil {
		return fn(ctx, f)
	}
	return fn(context.WithoutCancel(ctx), f.w)
}

// Queries are the statements used so far, for tests of their plans.
func (f *File) Queries() []string {
	all := f.r.stmts.queries()
	if f.w != nil {
		all = append(all, f.w.stmts.queries()...)
	}
	return all
}
