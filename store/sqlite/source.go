package sqlite

import (
	"context"
	"fmt"
	"time"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

const sourceColumns = "id, name, url, root_id, paused, epoch, holder, unclean, policy, created"

func scanSource(row rowScanner) (s store.Source, err error) {
	err = row.Scan(&s.ID, &s.Name, &s.URL, &s.RootID, &s.Paused, &s.Epoch, &s.Holder, &s.Unclean, &s.Policy,
		column.IntoInstant(&s.Created))
	return s, err
}

// EnsureSource implements store.Sources.
func (s *Store) EnsureSource(ctx context.Context, name, url string) (store.Source, error) {
	found, err := s.Source(ctx, name)
	if err == nil && found.URL == url {
		return found, nil // the usual case writes nothing
	}
	err = s.db.Write(ctx, "record source "+name, func(ctx context.Context, w *dbfile.Writer) error {
		_, err := w.Exec(ctx, `INSERT INTO source (name, url, created) VALUES (?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET url = excluded.url`, name, url, column.Instant(store.MicrosOf(time.Now())))
		return err
	})
	if err != nil {
		return store.Source{}, err
	}
	return s.Source(ctx, name)
}

// Source implements store.Sources.
func (s *Store) Source(ctx context.Context, name string) (store.Source, error) {
	what := "read source " + name
	rows, err := s.db.Query(ctx, "SELECT "+sourceColumns+" FROM source WHERE name = ?", name)
	if err != nil {
		return store.Source{}, s.db.Fail(what, err)
	}
	found, err := collect(rows, scanSource)
	if err != nil {
		return store.Source{}, s.db.Fail(what, err)
	}
	if len(found) == 0 {
		return store.Source{}, fmt.Errorf("%s: %w", what, store.ErrNotFound)
	}
	return found[0], nil
}

// Sources implements store.Sources.
func (s *Store) Sources(ctx context.Context) ([]store.Source, error) {
	rows, err := s.db.Query(ctx, "SELECT "+sourceColumns+" FROM source WHERE name IS NOT NULL ORDER BY name")
	if err != nil {
		return nil, s.db.Fail("list sources", err)
	}
	found, err := collect(rows, scanSource)
	return found, s.db.Fail("list sources", err)
}

// SetPaused implements store.Sources.
func (s *Store) SetPaused(ctx context.Context, id int64, paused bool) error {
	what := fmt.Sprintf("pause or resume source %d", id)
	return s.db.Write(ctx, what, func(ctx context.Context, w *dbfile.Writer) error {
		n, err := w.Exec(ctx, "UPDATE source SET paused = ? WHERE id = ? AND name IS NOT NULL", column.Flag(paused), id)
		if err == nil && n == 0 {
			return store.ErrNotFound
		}
		return err
	})
}
