package pull

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/transfer"
)

// Other programs may change the mirror. So every run looks at some files, and at all if one differs.

// lookSample is how many files a run looks at.
const lookSample = 64

// errLook means that the mirror cannot be compared, so no set is in step.
var errLook = errors.New("could not compare the mirror with its state")

// BeginLook decides whether all files are looked at. Files of deleted resources go before a baseline drops their rows.
func (s *Source) BeginLook(ctx context.Context) (err error) {
	s.Wide = s.Full
	if s.Target.Mirror == nil {
		return nil
	}
	if !s.Wide && s.Target.Mirror.Check(ctx) == nil {
		if s.Wide, err = s.Astray(ctx); err != nil || !s.Wide {
			return err
		}
		s.Log.Warn(
			"the mirror is not what the state says: all its files are looked at; " +
				"those of which the state knows nothing stay, see `resyncd verify`")
	}
	s.Wide = true
	_, err = s.LookAt(ctx, store.ScanQuery{Filter: store.FilterAbsent}, s.Name)
	return err
}

// look compares files at the end of a pull; those that differ are owed before the set is in step.
func (p *Puller) look(ctx context.Context) error {
	if p.Target.Mirror == nil || !p.Wide && (p.first || p.Out.Kind != "baseline") {
		return nil
	}
	q := store.ScanQuery{SetID: p.Set.ID, Filter: store.FilterMirrored}
	if p.Wide && p.Last {
		q.SetID = 0 // includes rows that no set of this run wants, or they stay astray for ever
	}
	unseen, err := p.LookAt(ctx, q, p.Plan.Name)
	if unseen != nil {
		p.Fail(unseen)
	}
	return err
}

// Astray reports whether a file of a random sample differs from its row.
func (s *Source) Astray(ctx context.Context) (bool, error) {
	rs, err := s.Store.Sample(ctx, s.SourceID, lookSample)
	if err != nil {
		return false, err
	}
	var ids []int64
	for _, r := range rs {
		if s.strays(ctx, r) {
			ids = append(ids, r.ID)
		}
	}
	if len(ids) == 0 {
		return false, nil
	}
	s.Rows.Lock() // excludes rows that changed between reading and look
	defer s.Rows.Unlock()
	if rs, err = s.Store.ByIDs(ctx, ids); err != nil {
		return false, err
	}
	return slices.ContainsFunc(s.Idle(rs), func(r *store.Resource) bool { return s.strays(ctx, r) }), nil
}

// strays reports another file than the row tells. An unknown one may be the operator's unless it was deleted.
func (s *Source) strays(ctx context.Context, r *store.Resource) bool {
	if r.Work.Action != store.ActionNone {
		return false
	}
	if r.Have.State == store.HaveNone {
		if w := merge.Effective(r.Wants); w == nil || w.State != store.WantAbsent {
			return false
		}
	}
	return s.Differs(ctx, r)
}

type sighting struct {
	id      int64
	was, is store.Have
}

// LookAt compares resources with their files and corrects wrong rows. It also returns why that could not be done.
func (s *Source) LookAt(ctx context.Context, q store.ScanQuery, told func(ids []int64)) (unseen, err error) {
	defer s.Await()()
	q.SourceID = s.SourceID
	files := 0
	err = s.seen(ctx)
	if err == nil {
		err = transfer.Examine(ctx, s.Store, q, s.sight, func(_ int, seen []*sighting) error {
			n, err := s.correct(ctx, seen, told)
			files += n
			return err
		})
	}
	if files > 0 {
		s.Observe.Rotten(int64(files))
		s.Log.Warn("mirror files are not what the state says; they are owed now", "files", files)
	}
	if errors.Is(err, errLook) && ctx.Err() == nil {
		return err, nil
	}
	return nil, err
}

// seen makes sure that a lost disk does not look like lost files (F12).
func (s *Source) seen(ctx context.Context) error {
	if err := s.Target.Mirror.Check(ctx); err != nil {
		return fmt.Errorf("%w: %w", errLook, err)
	}
	return nil
}

func (s *Source) sight(ctx context.Context, r *store.Resource) (*sighting, error) {
	if !s.strays(ctx, r) {
		return nil, nil
	}
	find := s.Actual
	if r.Have.State == store.HaveNone {
		find = s.Intruder
	}
	now, err := find(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errLook, err)
	}
	if now == nil {
		return nil, nil
	}
	return &sighting{r.ID, r.Have, *now}, nil
}

// correct records sightings, except of rows with newer work.
func (s *Source) correct(ctx context.Context, seen []*sighting, told func(ids []int64)) (n int, err error) {
	if len(seen) == 0 {
		return 0, nil
	}
	if err := s.seen(ctx); err != nil {
		return 0, err
	}
	ids, by := make([]int64, len(seen)), make(map[int64]*sighting, len(seen))
	for i, v := range seen {
		ids[i], by[v.id] = v.id, v
	}
	s.Rows.Lock()
	defer s.Rows.Unlock()
	rs, err := s.Store.ByIDs(ctx, ids)
	if err != nil {
		return 0, err
	}
	rev := s.NewRevision()
	for _, r := range s.Idle(rs) {
		v := by[r.ID]
		if r.Have != v.was || r.Work.Action != store.ActionNone {
			continue
		}
		r.Have = v.is
		work := merge.WorkForAll(r.Wants, &v.is, rev.Now)
		rev.Change(store.ResourceChange{ID: r.ID, Have: &v.is, Work: &work})
		rev.Count(r.Wants, v.was, r)
	}
	if ids, err = rev.Write(ctx); len(ids) > 0 {
		told(ids)
	}
	return len(ids), err
}

// SweepPage is how many resources are judged and committed at once.
const SweepPage = 1000

// EndOfTime is later than every planned time.
const EndOfTime = store.Micros(1) << 62

// Pages reads the rows behind an id, none at the end.
type Pages func(ctx context.Context, after int64) ([]*store.Resource, error)

// Scan pages over the rows of a query.
func (s *Source) Scan(q store.ScanQuery) Pages {
	return func(ctx context.Context, after int64) ([]*store.Resource, error) {
		q.SourceID, q.After, q.Limit = s.SourceID, after, SweepPage
		return s.Store.Scan(ctx, q)
	}
}

// Owed pages over the rows with work, due or not: of the given actions, or first fetches, then removals.
func (s *Source) Owed(actions ...store.Action) Pages {
	if len(actions) == 0 {
		actions = []store.Action{store.ActionFetch, store.ActionRemove}
	}
	return func(ctx context.Context, after int64) ([]*store.Resource, error) {
		for {
			rs, err := s.Store.Due(ctx, store.DueQuery{
				SourceID: s.SourceID, Action: actions[0], Now: EndOfTime, After: after, Limit: SweepPage,
			})
			if err != nil || len(rs) > 0 || len(actions) == 1 {
				return rs, err
			}
			actions, after = actions[1:], 0
		}
	}
}

// All returns the rows of all pages.
func (read Pages) All(ctx context.Context) iter.Seq2[*store.Resource, error] {
	return func(yield func(*store.Resource, error) bool) {
		for after := int64(0); ; {
			rs, err := read(ctx, after)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, r := range rs {
				if after = r.ID; !yield(r, nil) {
					return
				}
			}
			if len(rs) == 0 {
				return
			}
		}
	}
}

// Revision is one commit that changes rows. The row lock is held from their reading to Write, or wants would be lost.
type Revision struct {
	store.Commit
	Now store.Micros
	s   *Source
}

func (s *Source) NewRevision() *Revision {
	return &Revision{Commit: store.Commit{Claim: s.Claim}, Now: s.LocalNow(), s: s}
}

// Change adds the change of a row.
func (v *Revision) Change(rc store.ResourceChange) {
	v.s.Touch(&rc, v.Now)
	v.Resources = append(v.Resources, rc)
}

// Count adds the difference between a row as it was and is to the totals of its sets.
func (v *Revision) Count(wants []store.Want, have store.Have, r *store.Resource) {
	merge.Total(&v.Commit, wants, &have, r.Wants, &r.Have)
}

// Event adds a line to the history of a row.
func (v *Revision) Event(r *store.Resource, what string, at store.Version) {
	v.Events = append(v.Events, store.Event{SourceID: v.s.SourceID, URI: r.URI, At: v.Now, What: what, Version: at})
}

// Write commits the changes, and returns the rows that have work then.
func (v *Revision) Write(ctx context.Context) ([]int64, error) {
	if len(v.Resources) == 0 {
		return nil, nil
	}
	if err := v.s.Store.Commit(ctx, &v.Commit); err != nil {
		return nil, err
	}
	ids := make([]int64, 0, len(v.Resources))
	for i := range v.Resources {
		if w := v.Resources[i].Work; w != nil && w.Action != store.ActionNone {
			ids = append(ids, v.Resources[i].ID)
		}
	}
	return ids, nil
}

// Revise writes what change makes of each page of rows, and names the rows that have work then.
func (s *Source) Revise(
	ctx context.Context, read Pages, name func([]int64), change func(*Revision, []*store.Resource) error,
) error {
	after := int64(0)
	page := func() (more bool, err error) {
		s.Rows.Lock()
		defer s.Rows.Unlock()
		rs, err := read(ctx, after)
		if err != nil || len(rs) == 0 {
			return false, err
		}
		after = rs[len(rs)-1].ID
		v := s.NewRevision()
		if err := change(v, rs); err != nil {
			return false, err
		}
		ids, err := v.Write(ctx)
		if len(ids) > 0 && name != nil {
			name(ids)
		}
		return err == nil, err
	}
	for {
		if more, err := page(); !more {
			return err
		}
	}
}
