package sqlite

import (
	"context"
	"database/sql"
)

// asker is what reader and writer share.
type asker interface {
	query(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	get(ctx context.Context, query string, args []any, dest ...any) error
}

// near runs a read, if it is of few rows, on the writing connection if nobody writes at this moment, else on a reader's. SQLite
// throws all that a connection has cached of the database away once another one has committed, so that after each commit of
// ours a reader begins with an empty cache, and the writer with what it wrote. A push is four such reads, each right after
// a commit, which took as long as all its commits. fn closes the rows that it was given.
func (s *Store) near(ctx context.Context, few bool, fn func(context.Context, asker) error) error {
	if !few || s.w == nil {
		return fn(ctx, s.r)
	}
	select {
	case s.w.turn <- struct{}{}:
	default:
		return fn(ctx, s.r)
	}
	defer func() { <-s.w.turn }()
	if s.w.conn == nil || s.w.unusable() != nil {
		return fn(ctx, s.r)
	}
	return fn(context.WithoutCancel(ctx), s.w) // as its writes
}
