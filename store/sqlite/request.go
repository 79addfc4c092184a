package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

const requestColumns = "id, source, command, args, state, created, beat, progress, exit_code, problem"

func requestFields(r *store.Request) []any {
	return []any{&r.ID, &r.Source, &r.Command, &r.Args, &r.State, column.InstantAt(&r.Created),
		column.InstantAt(&r.Beat), &r.Progress, &r.ExitCode, &r.Problem}
}

// AddRequest implements store.Requests.
func (s *Store) AddRequest(ctx context.Context, r *store.Request) error {
	created := r.Created
	if created <= 0 { // not set; Tidy needs it
		created = store.MicrosOf(time.Now())
	}
	var id int64
	err := s.db.WriteBestEffort(ctx, "record a request", func(ctx context.Context, w *dbfile.Writer) (err error) {
		id, err = w.Insert(ctx, "INSERT INTO request (source, command, args, state, created) VALUES (?, ?, ?, ?, ?)",
			r.Source, r.Command, r.Args, string(store.RequestWaiting), int64(created))
		return err
	})
	if err != nil {
		return err
	}
	*r = store.Request{ID: id, Source: r.Source, Command: r.Command, Args: r.Args, State: store.RequestWaiting,
		Created: created, Beat: store.NoTime}
	return nil
}

// TakeRequests implements store.Requests. It is called several times a second, so without a request
// it only reads, in an index of the waiting ones.
func (s *Store) TakeRequests(ctx context.Context, now store.Micros) ([]store.Request, error) {
	const what = "take requests"
	if s.db.Writable() {
		var id int64
		err := s.db.Get(ctx, "SELECT id FROM request WHERE state = 'waiting' LIMIT 1", nil, &id)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, nil
		}
		if err != nil {
			return nil, s.db.Fail(what, err)
		}
	}
	var taken []store.Request
	err := s.db.Write(ctx, what, func(ctx context.Context, w *dbfile.Writer) (err error) {
		taken, err = dbfile.All(ctx, w, requestFields,
			"UPDATE request SET state = 'taken', beat = ? WHERE state = 'waiting' RETURNING "+requestColumns,
			column.Instant(now))
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(taken, func(a, b store.Request) int { return cmp.Compare(a.ID, b.ID) })
	return taken, nil
}

// AnswerRequest implements store.Requests.
func (s *Store) AnswerRequest(ctx context.Context, id int64, lines []string, progress []byte, beat store.Micros) error {
	return s.db.Write(ctx, fmt.Sprintf("answer request %d", id), func(ctx context.Context, w *dbfile.Writer) error {
		err := metRow(w.Exec(ctx, "UPDATE request SET progress = coalesce(?, progress), beat = ? WHERE id = ?",
			progress, column.Instant(beat), id))
		if err != nil || len(lines) == 0 {
			return err
		}
		var next int64
		err = w.Get(ctx, "SELECT coalesce(max(n), -1) + 1 FROM request_line WHERE request_id = ?", []any{id}, &next)
		if err != nil {
			return err
		}
		for i, line := range lines {
			_, err := w.Exec(ctx, "INSERT INTO request_line (request_id, n, line) VALUES (?, ?, ?)", id, next+int64(i),
				line)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// EndRequest implements store.Requests.
func (s *Store) EndRequest(ctx context.Context, id int64, exitCode int, problem string) error {
	return s.db.Write(ctx, fmt.Sprintf("end request %d", id), func(ctx context.Context, w *dbfile.Writer) error {
		return metRow(w.Exec(ctx, "UPDATE request SET state = 'done', exit_code = ?, problem = ? WHERE id = ?",
			exitCode, problem, id))
	})
}

// Request implements store.Requests.
func (s *Store) Request(ctx context.Context, id int64, from int) (store.Request, error) {
	what := fmt.Sprintf("read request %d", id)
	if s.lacks(schemaPush) {
		return store.Request{}, fmt.Errorf("%s: %w", what, store.ErrNotFound)
	}
	r, err := dbfile.One(ctx, s.db, requestFields, "SELECT "+requestColumns+" FROM request WHERE id = ?", id)
	if err != nil {
		return store.Request{}, s.db.Fail(what, err)
	}
	// The lines after the state: a finished request has all of them.
	r.Output, err = dbfile.All(ctx, s.db, textField,
		"SELECT line FROM request_line WHERE request_id = ? AND n >= ? ORDER BY n", id, from)
	return r, s.db.Fail(what, err)
}

// DropRequest implements store.Requests.
func (s *Store) DropRequest(ctx context.Context, id int64) (taken bool, err error) {
	what := fmt.Sprintf("take request %d back", id)
	err = s.db.WriteBestEffort(ctx, what, func(ctx context.Context, w *dbfile.Writer) error {
		if _, err := w.Exec(ctx, "DELETE FROM request WHERE id = ? AND state = 'waiting'", id); err != nil {
			return err
		}
		return w.Get(ctx, "SELECT EXISTS (SELECT 1 FROM request WHERE id = ?)", []any{id}, &taken)
	})
	return taken, err
}
