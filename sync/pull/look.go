package pull

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/verify"
)

// Other programs may empty the mirror or replace it by an older copy. So every run looks at some files before it
// reports a set in step, and at all files if one differs from its row.

// lookSample is how many files a run looks at.
const lookSample = 64

// errLook means that the mirror cannot be compared, so no set is in step.
var errLook = errors.New("could not compare the mirror with its state")

// BeginLook decides whether this run looks at all files. Files of deleted resources that came back are removed first,
// because a baseline drops their rows.
func (s *Source) BeginLook(ctx context.Context) error {
	s.Wide = s.Full
	if s.Target.Mirror == nil {
		return nil
	}
	if !s.Wide {
		s.Wide = s.Target.Mirror.Check(ctx) != nil
	}
	if !s.Wide {
		var err error
		if s.Wide, err = s.Astray(ctx); err != nil || !s.Wide {
			return err
		}
		s.Log.Warn(
			"the mirror is not what the state says: all its files are looked at; those of which the state knows nothing stay, see `resyncd verify`")
	}
	resume := s.Await()
	defer resume()
	err := s.LookAt(ctx, store.ScanQuery{Filter: store.FilterAbsent}, s.Name)
	if errors.Is(err, errLook) && ctx.Err() == nil {
		return nil
	}
	return err
}

// look compares files at the end of a pull; different files are owed before the set is in step. A later baseline looks
// too, because only that finds the loss of a single file for certain.
func (p *Puller) look(ctx context.Context) error {
	if p.Target.Mirror == nil || !p.Wide && (p.first || p.Out.Kind != "baseline") {
		return nil
	}
	q := store.ScanQuery{SetID: p.Set.ID, Filter: store.FilterMirrored}
	if p.Wide && p.Last {
		q.SetID = 0 // includes rows that no set of this run wants, or they stay astray for ever
	}
	resume := p.Await()
	defer resume()
	err := p.LookAt(ctx, q, p.Plan.Name)
	if errors.Is(err, errLook) && ctx.Err() == nil {
		p.Fail(err)
		return nil
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

// strays reports whether lstat shows another file than the row tells. Owed work has a look of its own, and an unknown
// file may be the operator's unless the Source deleted the resource.
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

// sighting is a row whose file is not what it says.
type sighting struct {
	id      int64
	was, is store.Have
}

// LookAt compares resources with their files; wrong rows are corrected and get work.
func (s *Source) LookAt(ctx context.Context, q store.ScanQuery, told func(ids []int64)) error {
	if err := s.Target.Mirror.Check(ctx); err != nil {
		return fmt.Errorf("%w: %w", errLook, err)
	}
	q.SourceID = s.SourceID
	files := 0
	err := verify.Examine(ctx, s.Store, q, s.sight, func(_ int, seen []*sighting) error {
		n, err := s.correct(ctx, seen, told)
		files += n
		return err
	})
	if files > 0 {
		s.Told.Rotten(int64(files))
		s.Log.Warn("mirror files are not what the state says; they are owed now", "files", files)
	}
	return err
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
	if err := s.Target.Mirror.Check(ctx); err != nil { // a lost disk must not look like lost files (F12)
		return 0, fmt.Errorf("%w: %w", errLook, err)
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
