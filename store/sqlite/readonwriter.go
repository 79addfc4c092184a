package sqlite

import (
	"context"
	"database/sql"
)

// querier is what reader and writer share.
type querier interface {
	query(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	get(ctx context.Context, query string, args []any, dest ...any) error
}

// readOnWriter runs a small read on the writing connection if it is free, else on a reader's.
// SQLite drops a connection's cache once another one has committed, so after each commit a reader
// begins with an empty cache, and the reads of a push would take as long as its commits. fn closes
// its rows.
func (s *Store) readOnWriter(ctx context.Context, few bool, fn func(context.Context, querier) error) error {
	if !few || s.w == nil {
		return fn(ctx, s.r)
	}
	select {
	case s.w.sem <- struct{}{}:
	default:
		return fn(ctx, s.r)
	}
	defer func() { <-s.w.sem }()
	if s.w.conn == nil || s.w.unusable() != nil {
		return fn(ctx, s.r)
	}
	return fn(context.WithoutCancel(ctx), s.w) // uncancelled, as its writes
}
