package sqlite

import (
	"context"
	"database/sql"
)

// asker is a connection that can be asked: the writing one, or any of the readers'.
type asker interface {
	query(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// near runs a read of a few rows on the writing connection if nobody writes at this moment, else on a reader's. SQLite
// throws all that a connection has cached of the database away once another one has committed, so that after each commit of
// ours a reader begins with an empty cache, and the writer with what it wrote. A push is four such reads, each right after
// a commit, which took as long as all its commits. fn closes the rows that it was given.
func (s *Store) near(ctx context.Context, fn func(context.Context, asker) error) error {
	if s.w == nil {
		return fn(ctx, s.r)
	}
	select {
	case s.w.turn <- struct{}{}:
	default:
		return fn(ctx, s.r)
	}
	defer func() { <-s.w.turn }()
	if s.w.conn == nil || s.w.broken != nil {
		return fn(ctx, s.r)
	}
	return fn(context.WithoutCancel(ctx), s.w) // as its writes
}
