package sqlite

import (
	"cmp"
	"context"
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
	err := s.db.WriteBestEffort(ctx, "record a request", func(tx *dbfile.Session) {
		id = tx.Insert("INSERT INTO request (source, command, args, state, created) VALUES (?, ?, ?, ?, ?)",
			r.Source, r.Command, r.Args, string(store.RequestWaiting), int64(created))
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
	if r := s.db.Read(ctx, what); s.db.Writable() && !r.Has("SELECT id FROM request WHERE state = 'waiting' LIMIT 1") {
		return nil, r.Err()
	}
	var taken []store.Request
	err := s.db.Write(ctx, what, func(tx *dbfile.Session) {
		taken = dbfile.All(tx, requestFields,
			"UPDATE request SET state = 'taken', beat = ? WHERE state = 'waiting' RETURNING "+requestColumns,
			column.Instant(now))
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(taken, func(a, b store.Request) int { return cmp.Compare(a.ID, b.ID) })
	return taken, nil
}

// AnswerRequest implements store.Requests.
func (s *Store) AnswerRequest(ctx context.Context, id int64, lines []string, progress []byte, beat store.Micros) error {
	return s.db.Write(ctx, fmt.Sprintf("answer request %d", id), func(tx *dbfile.Session) {
		tx.Change("UPDATE request SET progress = coalesce(?, progress), beat = ? WHERE id = ?", progress,
			column.Instant(beat), id)
		for _, line := range lines {
			tx.Exec(`INSERT INTO request_line (request_id, n, line) SELECT ?1, coalesce(max(n), -1) + 1, ?2
				FROM request_line WHERE request_id = ?1`, id, line)
		}
	})
}

// EndRequest implements store.Requests.
func (s *Store) EndRequest(ctx context.Context, id int64, exitCode int, problem string) error {
	return s.db.Write(ctx, fmt.Sprintf("end request %d", id), func(tx *dbfile.Session) {
		tx.Change("UPDATE request SET state = 'done', exit_code = ?, problem = ? WHERE id = ?", exitCode, problem, id)
	})
}

// Request implements store.Requests.
func (s *Store) Request(ctx context.Context, id int64, from int) (store.Request, error) {
	r := s.db.Read(ctx, fmt.Sprintf("read request %d", id))
	found := dbfile.One(r, requestFields, "SELECT "+requestColumns+" FROM request WHERE id = ?", id)
	// The lines after the state: a finished request has all of them.
	found.Output = dbfile.All(r, textField, "SELECT line FROM request_line WHERE request_id = ? AND n >= ? ORDER BY n",
		id, from)
	return found, r.Err()
}

// DropRequest implements store.Requests.
func (s *Store) DropRequest(ctx context.Context, id int64) (taken bool, err error) {
	err = s.db.WriteBestEffort(ctx, fmt.Sprintf("take request %d back", id), func(tx *dbfile.Session) {
		tx.Exec("DELETE FROM request WHERE id = ? AND state = 'waiting'", id)
		taken = tx.Has("SELECT id FROM request WHERE id = ?", id)
	})
	return taken, err
}
