package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"resyncd/store"
)

const setColumns = `id, source_id, capability_list, floor, generation, baselines, proven, joint, resources, bytes, gone,
	in_step, problem, last_pull, estimated, flawed`

func scanSet(row rowScanner) (t store.Set, err error) {
	err = row.Scan(&t.ID, &t.SourceID, &t.CapabilityList, (*micros)(&t.Floor), &t.Generation, &t.Baselines,
		(*intervals)(&t.Proven), (*intervals)(&t.Joint), &t.Resources, &t.Bytes, &t.Gone, &t.InStep, &t.Problem,
		(*micros)(&t.LastPull), &t.Estimated, &t.Flawed)
	t.Problem, t.Cause = store.CutCause(t.Problem)
	return t, err
}

// intervals are kept as JSON: [[from, until], …].
type intervals []store.Interval

func (v *intervals) Scan(from any) error {
	s, ok := from.(string)
	if !ok {
		return fmt.Errorf("%w: intervals are a %T", errPayload, from)
	}
	var pairs [][2]store.Micros
	if err := json.Unmarshal([]byte(s), &pairs); err != nil {
		return fmt.Errorf("%w: %w", errPayload, err)
	}
	*v = nil
	for _, p := range pairs {
		*v = append(*v, store.Interval{From: p[0], Until: p[1]})
	}
	return nil
}

func (v intervals) text() (string, error) {
	pairs := make([][2]store.Micros, len(v))
	for i, iv := range v {
		pairs[i] = [2]store.Micros{iv.From, iv.Until}
	}
	b, err := json.Marshal(pairs)
	return string(b), err
}

// EnsureSet implements store.Sets.
func (s *Store) EnsureSet(ctx context.Context, c store.Claim, capabilityList string) (store.Set, error) {
	const find = "SELECT " + setColumns + " FROM sets WHERE source_id = ? AND capability_list = ?"
	var found []store.Set
	err := s.fencedBy(ctx, s.writeAsync, "record a set", c, func(ctx context.Context, w *writer) error {
		look := func() error {
			rows, err := w.query(ctx, find, c.SourceID, capabilityList)
			if err != nil {
				return err
			}
			found, err = collect(rows, scanSet)
			return err
		}
		// The usual case writes nothing, and so syncs nothing: an insert with a conflict still
		// takes an id.
		if err := look(); err != nil || len(found) > 0 {
			return err
		}
		if _, err := w.exec(ctx, "INSERT INTO sets (source_id, capability_list) VALUES (?, ?)", c.SourceID,
			capabilityList); err != nil {
			return err
		}
		return look()
	})
	if err != nil {
		return store.Set{}, err
	}
	return found[0], nil
}

// Sets implements store.Sets.
func (s *Store) Sets(ctx context.Context, sourceID int64) ([]store.Set, error) {
	var found []store.Set
	err := s.readOnWriter(ctx, true, func(ctx context.Context, from querier) error {
		rows, err := from.query(ctx, "SELECT "+setColumns+" FROM sets WHERE source_id = ? ORDER BY id", sourceID)
		if err != nil {
			return err
		}
		found, err = collect(rows, scanSet)
		return err
	})
	return found, s.fail("list sets", err)
}

// Counts implements store.Sets.
func (s *Store) Counts(ctx context.Context, setID int64) (store.Counts, error) {
	sourceID, err := s.ownerOf(ctx, s.r, setID)
	if errors.Is(err, store.ErrNotFound) {
		return store.Counts{}, nil
	}
	if err != nil {
		return store.Counts{}, s.fail("count what a set has outstanding", err)
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
	err = s.r.get(ctx, "SELECT "+owed+withheld, args, &c.Owed, &c.Held, &c.Refused)
	return c, s.fail("count what a set has outstanding", err)
}

// ownerOf returns the Source of a set, remembered: it never changes, and set ids are never given
// twice.
func (s *Store) ownerOf(ctx context.Context, db querier, setID int64) (int64, error) {
	s.mu.Lock()
	id, known := s.owners[setID]
	s.mu.Unlock()
	if known {
		return id, nil
	}
	err := db.get(ctx, "SELECT source_id FROM sets WHERE id = ?", []any{setID}, &id)
	if err != nil {
		return 0, s.fail(fmt.Sprintf("find set %d", setID), err)
	}
	s.mu.Lock()
	s.owners[setID] = id
	s.mu.Unlock()
	return id, nil
}

// Recount implements store.Sets.
func (s *Store) Recount(ctx context.Context, c store.Claim, setID int64) (resources, bytes int64, err error) {
	err = s.fenced(ctx, "recount a set", c, func(ctx context.Context, w *writer) error {
		if err := s.owned(ctx, w, c, setID); err != nil {
			return err
		}
		return recount(ctx, w, setID, &resources, &bytes)
	})
	return resources, bytes, err
}

func recount(ctx context.Context, w *writer, setID int64, resources, bytes *int64) error {
	return w.get(ctx, `UPDATE sets SET (resources, bytes) =
		(SELECT count(*), coalesce(sum(r.length), 0) FROM want w CROSS JOIN resource r ON r.id = w.resource_id
			WHERE w.set_id = sets.id AND (w.state IN (1, 3) OR w.held <> 0) AND r.have <> 0)
		WHERE id = ? RETURNING resources, bytes`, []any{setID}, resources, bytes)
}

// owned fails unless the set is one of the claimed Source.
func (s *Store) owned(ctx context.Context, w *writer, c store.Claim, setID int64) error {
	owner, err := s.ownerOf(ctx, w, setID)
	if err == nil && owner != c.SourceID {
		err = fmt.Errorf("set %d is not of the claimed source", setID)
	}
	return err
}
