package pull

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/transfer"
	"resyncd/sync/verify"
)

// The mirror may be changed by others than us: emptied, or replaced by an older copy of itself. Documents tell nothing of that, so
// every run looks at some files before it calls a set in step, and at all of them where one of those is not what its row says.

// lookSample is how many resources a run looks at that finds nothing wrong.
const lookSample = 64

// errLook is the mirror's failure to be looked at: whether the set is in step nobody can tell then.
var errLook = errors.New("could not compare the mirror with its state")

// BeginLook decides whether this run, or pull of a Follower, looks at all files, and has those go that are back though the Source
// deleted their resources: a baseline drops the rows that tell of them.
func (s *Source) BeginLook(ctx context.Context) error {
	s.Wide = s.Full
	if s.Target.Mirror == nil {
		return nil
	}
	if !s.Wide {
		s.Wide = s.Target.Mirror.Check(ctx) != nil // what the look at the end will tell
	}
	if !s.Wide {
		var err error
		if s.Wide, err = s.Astray(ctx); err != nil || !s.Wide {
			return err
		}
		s.Site.Log.Warn("the mirror is not what the state says: all its files are looked at; those of which the state knows nothing stay, see `resyncd verify`")
	}
	resume := s.Await()
	defer resume()
	err := s.LookAt(ctx, store.ScanQuery{Filter: store.FilterAbsent}, s.Site.Name)
	if errors.Is(err, errLook) && ctx.Err() == nil {
		return nil // the look at the end meets it too
	}
	return err
}

// look is the look at the end of a pull: what differs is owed, so that the set is not in step before it is put right. A baseline
// that is not the first has it too, as the one time that a lone file's loss is found for certain.
func (p *Puller) look(ctx context.Context) error {
	if p.Source.Target.Mirror == nil || !p.Source.Wide && (p.first || p.Out.Kind != "baseline") {
		return nil
	}
	q := store.ScanQuery{SetID: p.Set.ID, Filter: store.FilterMirrored}
	if p.Source.Wide && p.Last {
		q.SetID = 0 // what no set of this run wants too, or it would be found astray for ever
	}
	resume := p.Source.Await()
	defer resume()
	err := p.Source.LookAt(ctx, q, p.Plan.Name)
	if errors.Is(err, errLook) && ctx.Err() == nil {
		p.Fail(err)
		return nil
	}
	return err
}

// Astray tells whether one of some files that chance picks is not what its row says.
func (s *Source) Astray(ctx context.Context) (bool, error) {
	rs, err := s.Site.Store.Sample(ctx, s.Site.SourceID, lookSample)
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
	s.Site.Rows.Lock() // what was placed or removed between row and look is none of them
	defer s.Site.Rows.Unlock()
	if rs, err = s.Site.Store.ByIDs(ctx, ids); err != nil {
		return false, err
	}
	return slices.ContainsFunc(s.Site.Idle(rs), func(r *store.Resource) bool { return s.strays(ctx, r) }), nil
}

// strays tells whether the file of a resource is not what its row says, by lstat. What is owed is looked at by whoever does that
// work; a file that no row knows counts only where the Source took the resource away, else it may be the operator's own.
func (s *Source) strays(ctx context.Context, r *store.Resource) bool {
	if r.Work.Action != store.ActionNone {
		return false
	}
	if r.Have.State == store.HaveNone {
		if w := merge.Effective(r.Wants); w == nil || w.State != store.WantAbsent {
			return false
		}
	}
	return s.Site.Differs(ctx, r)
}

// sighting is a row whose file is not what it says.
type sighting struct {
	id      int64
	was, is store.Have
}

// LookAt compares the resources of a query with their files, and has the rows that are wrong tell the truth and be worked on.
func (s *Source) LookAt(ctx context.Context, q store.ScanQuery, told func(ids []int64)) error {
	if err := s.Target.Mirror.Check(ctx); err != nil {
		return fmt.Errorf("%w: %w", errLook, err)
	}
	q.SourceID = s.Site.SourceID
	files := 0
	err := verify.Examine(ctx, s.Site.Store, q, s.sight, func(_ int, seen []*sighting) error {
		n, err := s.correct(ctx, seen, told)
		files += n
		return err
	})
	if files > 0 {
		TellOf(s.Told.Rotten, int64(files))
		s.Site.Log.Warn("mirror files are not what the state says; they are owed now", "files", files)
	}
	return err
}

func (s *Source) sight(ctx context.Context, r *store.Resource) (*sighting, error) {
	if !s.strays(ctx, r) {
		return nil, nil
	}
	find := s.Site.Actual
	if r.Have.State == store.HaveNone {
		find = s.Site.Intruder
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

// correct records what was seen, but of rows that were worked on since: what was seen may be older than they are.
func (s *Source) correct(ctx context.Context, seen []*sighting, told func(ids []int64)) (n int, err error) {
	if len(seen) == 0 {
		return 0, nil
	}
	if err := s.Target.Mirror.Check(ctx); err != nil { // a disk that went away must not look like files that are gone (F12)
		return 0, fmt.Errorf("%w: %w", errLook, err)
	}
	ids, by := make([]int64, len(seen)), make(map[int64]*sighting, len(seen))
	for i, v := range seen {
		ids[i], by[v.id] = v.id, v
	}
	s.Site.Rows.Lock()
	defer s.Site.Rows.Unlock()
	rs, err := s.Site.Store.ByIDs(ctx, ids)
	if err != nil {
		return 0, err
	}
	c, sums, now := &store.Commit{Claim: s.Site.Claim}, map[int64]*store.SetChange{}, s.Site.LocalNow()
	for _, r := range s.Site.Idle(rs) {
		v := by[r.ID]
		if r.Have != v.was || r.Work.Action != store.ActionNone {
			continue
		}
		work := merge.WorkForAll(r.Wants, &v.is, now)
		merge.Total(sums, r.Wants, &r.Have, r.Wants, &v.is)
		c.Resources = append(c.Resources, store.ResourceChange{ID: r.ID, Have: &v.is, Work: &work})
	}
	if len(c.Resources) == 0 {
		return 0, nil
	}
	for _, sum := range sums {
		c.Sets = append(c.Sets, *sum)
	}
	if err := s.Site.Store.Commit(ctx, c); err != nil {
		return 0, err
	}
	ids = transfer.Due(c)
	if len(ids) > 0 {
		told(ids)
	}
	return len(ids), nil
}
