package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"iter"
	"math/rand/v2"
	"slices"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

// idBits is how many bits of a resource's id count within its Source.
const idBits = 40

// idRange is the range of the ids of a Source's resources: from <= id < to.
func idRange(sourceID int64) (from, to int64) { return sourceID << idBits, (sourceID + 1) << idBits }

// Columns of a resource and of a want, in the order of resourceRow.dest.
const (
	resourceColumns = "r.id, r.uri, r.key, r.have, r.length, r.file, r.action, r.due, r.failure"
	wantColumns     = "w.set_id, w.state, w.v_from, w.v_until, w.generation, w.held, w.refused, w.said"
	// allWants joins the wants of all sets of a Source, one row each, or one row without any.
	allWants = ` LEFT JOIN want w ON w.set_id IN (SELECT t.id FROM sets t WHERE t.source_id = ?1)
		AND w.resource_id = r.id`
)

type resourceRow struct {
	res   store.Resource
	want  store.Want
	setID sql.NullInt64
	to    []any
}

func (x *resourceRow) scan(row *sql.Rows) error {
	x.res, x.want = store.Resource{}, store.Want{}
	if x.to == nil {
		r, w := &x.res, &x.want
		x.to = []any{
			&r.ID, &r.URI, &r.Key, column.IntoNumber(&r.Have.State), &r.Have.Length, column.IntoFile(&r.Have),
			column.IntoNumber(&r.Work.Action), column.InstantAt(&r.Work.Due), column.IntoFailure(&r.Work),
			&x.setID, column.IntoNumber(&w.State), column.InstantAt(&w.Version.From),
			column.InstantAt(&w.Version.Until), column.IntoNumber(&w.Generation), column.IntoBool(&w.Held),
			column.IntoText(&w.Refused), column.IntoWant(w),
		}
	}
	if err := row.Scan(x.to...); err != nil {
		return err
	}
	x.res.SourceID = x.res.ID >> idBits
	return nil
}

// resources reads up to limit resources of one Source in id order with all wants, which are a row each. There is no
// LIMIT, because the wants multiply the rows: unread rows cost nothing, as long as the order is that of an index
// (TestPlans).
func resources(r *dbfile.Session, sourceID int64, from, where string, limit int, args ...any) (out []*store.Resource) {
	if limit <= 0 {
		return nil
	}
	var x resourceRow
	for rows := range r.Rows("SELECT "+resourceColumns+", "+wantColumns+" FROM "+from+allWants+" WHERE "+where,
		append([]any{sourceID}, args...)...) {
		r.Fail(x.scan(rows))
		if len(out) == 0 || out[len(out)-1].ID != x.res.ID {
			if len(out) >= limit {
				break
			}
			found := x.res
			out = append(out, &found)
		}
		if x.setID.Valid {
			x.want.SetID = x.setID.Int64
			last := out[len(out)-1]
			last.Wants = append(last.Wants, x.want)
		}
	}
	for _, r := range out {
		slices.SortFunc(r.Wants, func(a, b store.Want) int { return cmp.Compare(a.SetID, b.SetID) })
	}
	return out
}

// Resource implements store.Resources.
func (s *Store) Resource(ctx context.Context, sourceID int64, uri string) (*store.Resource, error) {
	var found []*store.Resource
	err := s.db.ReadFew(ctx, "read a resource", true, func(r *dbfile.Session) {
		found = resources(r, sourceID, "resource r", "r.source_id = ? AND r.uri = ?", 1, sourceID, uri)
		if len(found) == 0 {
			r.Fail(store.ErrNotFound)
		}
	})
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// Work is in two indexes, because most of it never failed, and a query has to name one. The number
// of an action follows.
const (
	neverFailed  = "r.failure IS NULL AND r.action <> 0 AND r.id > ?2 AND r.id < ?3 AND r.action = "
	failedBefore = "r.failure IS NOT NULL AND r.action <> 0 AND r.id > ?2 AND r.id < ?3 AND r.action = "
)

// Due implements store.Resources.
func (s *Store) Due(ctx context.Context, q store.DueQuery) (found []*store.Resource, err error) {
	const (
		of  = "SELECT r.id FROM resource r WHERE "
		due = "?4 AND (r.due IS NULL OR r.due <= ?5 OR r.due > ?7)"
	)
	from, to := idRange(q.SourceID)
	err = s.db.ReadFew(ctx, "list due work", q.Limit <= probeSize, func(r *dbfile.Session) {
		found = resources(r, q.SourceID, "("+of+neverFailed+due+" UNION ALL "+of+failedBefore+due+
			" ORDER BY 1 LIMIT ?6) j CROSS JOIN resource r ON r.id = j.id", "true", q.Limit, max(q.After, from-1), to,
			int64(q.Action), int64(q.Now), q.Limit, int64(q.Now+store.LatestDue))
	})
	return found, err
}

// NextDue implements store.Resources. Work without an instant is due at once: the earliest instant there is.
func (s *Store) NextDue(ctx context.Context, sourceID int64) (store.Micros, error) {
	const (
		first = "SELECT * FROM (SELECT r.due FROM resource r WHERE " + neverFailed
		query = first + "1 ORDER BY r.id LIMIT 1) UNION ALL " + first + "2 ORDER BY r.id LIMIT 1) UNION ALL " +
			"SELECT * FROM (SELECT due FROM resource WHERE source_id = ?1 AND action <> 0 AND failure IS NOT NULL " +
			"ORDER BY due LIMIT 1)"
	)
	from, to := idRange(sourceID)
	var found []store.Micros
	err := s.db.ReadFew(ctx, "find the next due work", true, func(r *dbfile.Session) {
		found = dbfile.All(r, func(due *store.Micros) []any { return []any{column.InstantAt(due)} }, query, sourceID,
			from-1, to)
	})
	if err != nil || len(found) == 0 {
		return store.NoTime, err
	}
	return max(slices.Min(found), store.Beginning), nil
}

// ByIDs implements store.Resources.
func (s *Store) ByIDs(ctx context.Context, ids []int64) (found []*store.Resource, err error) {
	err = s.db.ReadFew(ctx, "read resources", len(ids) <= probeSize, func(r *dbfile.Session) { found = byIDs(r, ids) })
	return found, err
}

func byIDs(r *dbfile.Session, ids []int64) (out []*store.Resource) {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	for len(ids) > 0 { // Source by Source
		n := 1
		for n < len(ids) && ids[n]>>idBits == ids[0]>>idBits {
			n++
		}
		out = append(out, resources(r, ids[0]>>idBits, "json_each(?2) j CROSS JOIN resource r ON r.id = j.value",
			"true", n, column.IDs(ids[:n]))...)
		ids = ids[n:]
	}
	return out
}

const unlistedPage = 20_000

// Unlisted implements store.Resources.
func (s *Store) Unlisted(ctx context.Context, setID, generation int64, until store.Micros) iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		r := s.db.Read(ctx, "list what a baseline did not name")
		for after, more := int64(-1), true; more; {
			last := int64(1 << 62)
			more = r.Get(`SELECT resource_id FROM want WHERE set_id = ? AND resource_id > ? ORDER BY resource_id
				LIMIT 1 OFFSET ?`, []any{setID, after, unlistedPage - 1}, &last)
			ids := dbfile.All(r, idField, `SELECT resource_id FROM want WHERE set_id = ?
				AND resource_id > ? AND resource_id <= ? AND state IN (1, 3) AND generation <> ?
				AND (v_until IS NULL OR v_until <= ?) ORDER BY resource_id`,
				setID, after, last, generation, int64(until))
			for _, id := range ids {
				if !yield(id, nil) {
					return
				}
			}
			after = last
		}
		if err := r.Err(); err != nil {
			yield(0, err)
		}
	}
}

// Sample implements store.Resources. It draws random ids of the range, so a row behind a wide hole
// is drawn more often.
func (s *Store) Sample(ctx context.Context, sourceID int64, n int) ([]*store.Resource, error) {
	r := s.db.Read(ctx, "sample resources")
	from, to := idRange(sourceID)
	const of = "FROM resource WHERE id >= ? AND id < ?"
	ids := dbfile.All(r, idField, "SELECT id "+of+" ORDER BY id LIMIT ?", from, to, n+1)
	if len(ids) > n {
		first, last := ids[0], dbfile.One(r, idField, "SELECT coalesce(max(id), 0) "+of, from, to)
		ids = make([]int64, n)
		for i := range ids {
			ids[i] = first + rand.Int64N(max(last-first, 0)+1)
		}
		ids = dbfile.All(r, idField, `SELECT coalesce((SELECT r.id FROM resource r WHERE r.id >= j.value AND r.id < ?2
			ORDER BY r.id LIMIT 1), 0) FROM json_each(?1) j`, column.IDs(ids), to)
	}
	return byIDs(r, ids), r.Err()
}
