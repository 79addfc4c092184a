package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

const sourceColumns = "id, name, url, root_id, paused, epoch, holder, unclean, policy, created"

func sourceFields(s *store.Source) []any {
	return []any{&s.ID, &s.Name, &s.URL, &s.RootID, &s.Paused, &s.Epoch, &s.Holder, &s.Unclean, &s.Policy,
		column.InstantAt(&s.Created)}
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
	found, err := dbfile.One(ctx, s.db, sourceFields, "SELECT "+sourceColumns+" FROM source WHERE name = ?", name)
	return found, s.db.Fail("read source "+name, err)
}

// Sources implements store.Sources.
func (s *Store) Sources(ctx context.Context) ([]store.Source, error) {
	found, err := dbfile.All(ctx, s.db, sourceFields,
		"SELECT "+sourceColumns+" FROM source WHERE name IS NOT NULL ORDER BY name")
	return found, s.db.Fail("list sources", err)
}

// SetPaused implements store.Sources.
func (s *Store) SetPaused(ctx context.Context, id int64, paused bool) error {
	what := fmt.Sprintf("pause or resume source %d", id)
	return s.db.Write(ctx, what, func(ctx context.Context, w *dbfile.Writer) error {
		return metRow(w.Exec(ctx, "UPDATE source SET paused = ? WHERE id = ? AND name IS NOT NULL", paused, id))
	})
}

// setColumns are those of setFields, stateColumns those of stateFields.
const (
	setColumns   = "id, source_id, capability_list, resources, bytes, " + stateColumns
	stateColumns = `floor, generation, baselines, proven, joint, gone, in_step, problem, last_pull, estimated, flawed`
)

func setFields(t *store.Set) []any {
	return append([]any{&t.ID, &t.SourceID, &t.CapabilityList, &t.Resources, &t.Bytes}, stateFields(&t.SetState)...)
}

func stateFields(t *store.SetState) []any {
	return []any{column.InstantAt(&t.Floor), &t.Generation, &t.Baselines, column.IntervalsAt(&t.Proven),
		column.IntervalsAt(&t.Joint), &t.Gone, &t.InStep, column.CausedAt(&t.Problem, &t.Cause),
		column.InstantAt(&t.LastPull), &t.Estimated, &t.Flawed}
}

// EnsureSet implements store.Sets.
func (s *Store) EnsureSet(ctx context.Context, c store.Claim, capabilityList string) (store.Set, error) {
	const find = "SELECT " + setColumns + " FROM sets WHERE source_id = ? AND capability_list = ?"
	var found []store.Set
	err := s.fenced(ctx, s.db.WriteAsync, "record a set", c, func(ctx context.Context, w *dbfile.Writer) (err error) {
		// The usual case writes nothing, and so syncs nothing: an insert with a conflict still takes an id.
		found, err = dbfile.All(ctx, w, setFields, find, c.SourceID, capabilityList)
		if err != nil || len(found) > 0 {
			return err
		}
		_, err = w.Exec(ctx, "INSERT INTO sets (source_id, capability_list) VALUES (?, ?)", c.SourceID, capabilityList)
		if err != nil {
			return err
		}
		found, err = dbfile.All(ctx, w, setFields, find, c.SourceID, capabilityList)
		return err
	})
	if err != nil {
		return store.Set{}, err
	}
	return found[0], nil
}

// Sets implements store.Sets.
func (s *Store) Sets(ctx context.Context, sourceID int64) (found []store.Set, err error) {
	err = s.db.ReadOnWriter(ctx, true, func(ctx context.Context, from dbfile.Querier) error {
		found, err = dbfile.All(ctx, from, setFields, "SELECT "+setColumns+" FROM sets WHERE source_id = ? ORDER BY id",
			sourceID)
		return err
	})
	return found, s.db.Fail("list sets", err)
}

// Counts implements store.Sets.
func (s *Store) Counts(ctx context.Context, setID int64) (store.Counts, error) {
	sourceID, err := s.ownerOf(ctx, s.db, setID)
	if errors.Is(err, store.ErrNotFound) {
		return store.Counts{}, nil
	}
	if err != nil {
		return store.Counts{}, s.db.Fail("count what a set has outstanding", err)
	}
	const (
		owed    = "(SELECT count(*) FROM resource r CROSS JOIN want w ON w.set_id = ?1 AND w.resource_id = r.id WHERE "
		fetch   = "1 AND w.state IN (1, 3))"
		removal = "2 AND w.state = 2)"
		all     = owed + neverFailed + fetch + " + " + owed + failedBefore + fetch + " + " +
			owed + neverFailed + removal + " + " + owed + failedBefore + removal
	)
	from, to := idRange(sourceID)
	return s.counts(ctx, all, setID, from-1, to)
}

// Withheld implements store.Sets.
func (s *Store) Withheld(ctx context.Context, setID int64) (store.Counts, error) {
	return s.counts(ctx, "0", setID)
}

// counts reads the counts, with what is owed from an expression.
func (s *Store) counts(ctx context.Context, owed string, args ...any) (c store.Counts, err error) {
	const withheld = `,
		(SELECT count(*) FROM want INDEXED BY want_held WHERE set_id = ?1 AND held <> 0),
		(SELECT count(*) FROM want INDEXED BY want_refused WHERE set_id = ?1 AND refused IS NOT NULL)`
	err = s.db.Get(ctx, "SELECT "+owed+withheld, args, &c.Owed, &c.Held, &c.Refused)
	return c, s.db.Fail("count what a set has outstanding", err)
}

// ownerOf returns the Source of a set, remembered: it never changes, and set ids are never given twice.
func (s *Store) ownerOf(ctx context.Context, db dbfile.Querier, setID int64) (int64, error) {
	if id, known := s.owners.Load(setID); known {
		return id.(int64), nil
	}
	var id int64
	err := db.Get(ctx, "SELECT source_id FROM sets WHERE id = ?", []any{setID}, &id)
	if err != nil {
		return 0, s.db.Fail(fmt.Sprintf("find set %d", setID), err)
	}
	s.owners.Store(setID, id)
	return id, nil
}

// owned fails unless the set is one of the claimed Source.
func (s *Store) owned(ctx context.Context, w *dbfile.Writer, c store.Claim, setID int64) error {
	owner, err := s.ownerOf(ctx, w, setID)
	if err == nil && owner != c.SourceID {
		err = fmt.Errorf("set %d is not of the claimed source", setID)
	}
	return err
}
