package sqlite

import (
	"context"
	"fmt"
	"slices"

	"resyncd/store"
)

// Scan implements store.Resources.
func (s *Store) Scan(ctx context.Context, q store.ScanQuery) ([]*store.Resource, error) {
	const what = "list resources"
	switch q.Filter {
	case store.FilterAll:
		return s.scanRows(ctx, what, q, "")
	case store.FilterMirrored:
		return s.scanRows(ctx, what, q, " AND r.have <> 0")
	case store.FilterPushed:
		if q.SetID == 0 {
			return nil, fmt.Errorf("%s: pushed wants are those of a set, and none is given", what)
		}
		if s.lacks(schemaPush) {
			return nil, nil
		}
		fallthrough
	case store.FilterOwed, store.FilterHeld, store.FilterRefused, store.FilterAbsent:
		ids, err := s.scanIDs(ctx, q)
		if err != nil {
			return nil, s.db.Fail(what, err)
		}
		return s.ByIDs(ctx, ids)
	}
	return nil, fmt.Errorf("%s: unknown filter %d", what, q.Filter)
}

// scanRows reads the filters that most resources match.
func (s *Store) scanRows(ctx context.Context, what string, q store.ScanQuery,
	filter string) ([]*store.Resource, error) {
	from, to := idRange(q.SourceID)
	after := max(q.After, from-1)
	if q.SetID == 0 {
		return s.resources(ctx, what, q.SourceID, "resource r", "r.id > ? AND r.id < ?"+filter+" ORDER BY r.id",
			q.Limit, after, to)
	}
	return s.resources(ctx, what, q.SourceID, "want x CROSS JOIN resource r ON r.id = x.resource_id",
		"x.set_id = ? AND x.resource_id > ? AND x.resource_id < ?"+filter+" ORDER BY x.resource_id", q.Limit, q.SetID,
		after, to)
}

// scanIDs finds the next rows of the filters that few resources match, each in a partial index of
// only those.
func (s *Store) scanIDs(ctx context.Context, q store.ScanQuery) ([]int64, error) {
	from, to := idRange(q.SourceID)
	after := max(q.After, from-1)
	var ids []int64
	add := func(query string, args ...any) error {
		rows, err := s.db.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		more, err := collect(rows, scanID)
		ids = append(ids, more...)
		return err
	}
	if q.Filter == store.FilterOwed {
		for _, a := range []struct {
			action store.Action
			states string
		}{{store.ActionFetch, "(1, 3)"}, {store.ActionRemove, "(2)"}} {
			for _, owed := range []string{neverFailed, failedBefore} {
				query := "SELECT r.id FROM resource r WHERE " + owed + "?4"
				if q.SetID != 0 {
					query = "SELECT r.id FROM resource r CROSS JOIN want w ON w.set_id = ?1 AND w.resource_id = r.id WHERE " + owed +
						"?4 AND w.state IN " + a.states
				}
				if err := add(query+" ORDER BY r.id LIMIT ?5", q.SetID, after, to, int64(a.action),
					q.Limit); err != nil {
					return nil, err
				}
			}
		}
	} else {
		table, filter := "want INDEXED BY want_held", "held <> 0"
		switch q.Filter {
		case store.FilterRefused:
			table, filter = "want INDEXED BY want_refused", "refused IS NOT NULL"
		case store.FilterPushed:
			table, filter = "want INDEXED BY want_pushed", "pushed <> 0"
		case store.FilterAbsent:
			table, filter = "want INDEXED BY want_absent", "state = 2"
		}
		sets, err := s.setIDs(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, set := range sets {
			err := add("SELECT resource_id FROM "+table+
				" WHERE set_id = ? AND resource_id > ? AND resource_id < ? AND "+filter+
				" ORDER BY resource_id LIMIT ?", set, after, to, q.Limit)
			if err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	return ids[:min(len(ids), max(q.Limit, 0))], nil
}

// setIDs are the sets of a query.
func (s *Store) setIDs(ctx context.Context, q store.ScanQuery) ([]int64, error) {
	if q.SetID != 0 {
		return []int64{q.SetID}, nil
	}
	rows, err := s.db.Query(ctx, "SELECT id FROM sets WHERE source_id = ?", q.SourceID)
	if err != nil {
		return nil, err
	}
	return collect(rows, scanID)
}

func scanID(row rowScanner) (id int64, err error) { return id, row.Scan(&id) }
