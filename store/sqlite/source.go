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

const (
	sourceColumns = "id, name, url, root_id, paused, epoch, holder, unclean, policy, created"
	selectSource  = "SELECT " + sourceColumns + " FROM source WHERE "
)

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
	err = s.db.Write(ctx, "record source "+name, func(tx *dbfile.Session) {
		tx.Exec(`INSERT INTO source (name, url, created) VALUES (?, ?, ?) ON CONFLICT (name)
			DO UPDATE SET url = excluded.url`, name, url, column.Instant(store.MicrosOf(time.Now())))
	})
	if err != nil {
		return store.Source{}, err
	}
	return s.Source(ctx, name)
}

// Source implements store.Sources.
func (s *Store) Source(ctx context.Context, name string) (store.Source, error) {
	r := s.db.Read(ctx, "read source "+name)
	return dbfile.One(r, sourceFields, selectSource+"name = ?", name), r.Err()
}

// Sources implements store.Sources.
func (s *Store) Sources(ctx context.Context) ([]store.Source, error) {
	r := s.db.Read(ctx, "list sources")
	return dbfile.All(r, sourceFields, selectSource+"name IS NOT NULL ORDER BY name"), r.Err()
}

// SetPaused implements store.Sources.
func (s *Store) SetPaused(ctx context.Context, id int64, paused bool) error {
	return s.db.Write(ctx, fmt.Sprintf("pause or resume source %d", id), func(tx *dbfile.Session) {
		tx.Change("UPDATE source SET paused = ? WHERE id = ? AND name IS NOT NULL", paused, id)
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

// EnsureSet implements store.Sources.
func (s *Store) EnsureSet(ctx context.Context, c store.Claim, capabilityList string) (set store.Set, err error) {
	err = s.fenced(ctx, "record a set", c, func(tx *dbfile.Session) {
		tx.Repeatable()
		find := func() bool {
			return tx.Get("SELECT "+setColumns+" FROM sets WHERE source_id = ? AND capability_list = ?",
				[]any{c.SourceID, capabilityList}, setFields(&set)...)
		}
		// The usual case writes nothing, and so syncs nothing: an insert with a conflict still takes an id.
		if !find() {
			tx.Exec("INSERT INTO sets (source_id, capability_list) VALUES (?, ?)", c.SourceID, capabilityList)
			find()
		}
	})
	return set, err
}

// Sets implements store.Sources.
func (s *Store) Sets(ctx context.Context, sourceID int64) (found []store.Set, err error) {
	err = s.db.ReadFew(ctx, "list sets", true, func(r *dbfile.Session) {
		found = dbfile.All(r, setFields, "SELECT "+setColumns+" FROM sets WHERE source_id = ? ORDER BY id", sourceID)
	})
	return found, err
}

const countWhat = "count what a set has outstanding"

// Counts implements store.Sources.
func (s *Store) Counts(ctx context.Context, setID int64) (store.Counts, error) {
	r := s.db.Read(ctx, countWhat)
	sourceID, known := ownerOf(r, setID)
	if !known {
		return store.Counts{}, r.Err()
	}
	const (
		owed    = "(SELECT count(*) FROM resource r CROSS JOIN want w ON w.set_id = ?1 AND w.resource_id = r.id WHERE "
		fetch   = "1 AND w.state IN (1, 3))"
		removal = "2 AND w.state = 2)"
		all     = owed + neverFailed + fetch + " + " + owed + failedBefore + fetch + " + " +
			owed + neverFailed + removal + " + " + owed + failedBefore + removal
	)
	from, to := idRange(sourceID)
	return counts(r, all, setID, from-1, to), r.Err()
}

// Withheld implements store.Sources.
func (s *Store) Withheld(ctx context.Context, setID int64) (store.Counts, error) {
	r := s.db.Read(ctx, countWhat)
	return counts(r, "0", setID), r.Err()
}

// counts reads the counts, with what is owed from an expression.
func counts(r *dbfile.Session, owed string, args ...any) (c store.Counts) {
	r.Get("SELECT "+owed+`,
		(SELECT count(*) FROM want INDEXED BY want_held WHERE set_id = ?1 AND held <> 0),
		(SELECT count(*) FROM want INDEXED BY want_refused WHERE set_id = ?1 AND refused IS NOT NULL)`, args,
		&c.Owed, &c.Held, &c.Refused)
	return c
}

// ownerOf returns the Source of a set.
func ownerOf(r *dbfile.Session, setID int64) (sourceID int64, known bool) {
	known = r.Get("SELECT source_id FROM sets WHERE id = ?", []any{setID}, &sourceID)
	return sourceID, known
}

// owned fails unless the set is one of the claimed Source.
func owned(tx *dbfile.Session, c store.Claim, setID int64) {
	switch owner, known := ownerOf(tx, setID); {
	case !known:
		tx.Fail(fmt.Errorf("find set %d: %w", setID, store.ErrNotFound))
	case owner != c.SourceID:
		tx.Fail(fmt.Errorf("set %d is not of the claimed source", setID))
	}
}

// claim was granted by this Store. The lock shows that its holder lives; the epoch shows which of
// two is newer should the lock fail (its file removed, a network file system).
type claim struct {
	epoch  int64
	unlock func() error
}

func (s *Store) lockPath(sourceID int64) string {
	return fmt.Sprintf("%s-source-%d.lock", s.db.Path(), sourceID)
}

// Claim implements store.Sources.
func (s *Store) Claim(ctx context.Context, sourceID int64, holder string) (store.Claim, func() error, error) {
	if !s.db.Writable() {
		return store.Claim{}, nil, fmt.Errorf("claim a source: %w", store.ErrReadOnly)
	}
	r := s.db.Read(ctx, fmt.Sprintf("claim source %d", sourceID))
	known := dbfile.One(r, sourceFields, selectSource+"id = ? AND name IS NOT NULL", sourceID)
	if err := r.Err(); err != nil {
		return store.Claim{}, nil, err
	}
	unlock, free, err := dbfile.Lock(s.lockPath(sourceID))
	switch {
	case err != nil:
		return store.Claim{}, nil, fmt.Errorf("claim source %s: %w", known.Name, err)
	case !free:
		return store.Claim{}, nil, &store.HeldError{Source: known.Name, Holder: known.Holder}
	}
	c := &claim{unlock: unlock}
	err = s.db.Write(ctx, "claim source "+known.Name, func(tx *dbfile.Session) {
		tx.Repeatable() // a power cut also ends the process that the epoch would fence off
		c.epoch = dbfile.One(tx, idField, `UPDATE source SET epoch = epoch + 1, holder = ?
			WHERE id = ? AND name IS NOT NULL RETURNING epoch`, holder, sourceID)
	})
	if err != nil {
		return store.Claim{}, nil, errors.Join(err, unlock())
	}
	s.mu.Lock()
	s.claims[sourceID] = c
	s.mu.Unlock()
	return store.Claim{SourceID: sourceID, Epoch: c.epoch}, func() error { return s.unclaim(sourceID, c) }, nil
}

func (s *Store) unclaim(sourceID int64, c *claim) error {
	s.mu.Lock()
	mine := s.claims[sourceID] == c
	if mine {
		delete(s.claims, sourceID)
	}
	s.mu.Unlock()
	if !mine {
		return nil
	}
	return c.unlock()
}

// held reports whether this Store granted the claim and did not release it.
func (s *Store) held(c store.Claim) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.claims[c.SourceID]
	return h != nil && h.epoch == c.Epoch
}

// fenced runs fn in a transaction that succeeds only while the claim is the newest of its Source.
func (s *Store) fenced(ctx context.Context, what string, c store.Claim, fn func(*dbfile.Session)) error {
	if s.db.Writable() && !s.held(c) {
		return fmt.Errorf("%s: %w", what, store.ErrFenced)
	}
	return s.db.Write(ctx, what, func(tx *dbfile.Session) {
		if tx.Has("SELECT 1 FROM source WHERE id = ? AND epoch = ? AND name IS NOT NULL", c.SourceID, c.Epoch) {
			fn(tx)
		} else {
			tx.Fail(store.ErrFenced)
		}
	})
}
