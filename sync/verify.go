package sync

import (
	"context"
	"errors"
	"slices"

	"resyncd/destination"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/inspect"
	"resyncd/sync/merge"
	"resyncd/sync/spill"
	"resyncd/sync/transfer"
)

// Verify re-hashes the mirror against the state without asking the Source. With repair it takes a claim, fetches
// damaged files and moves extra files to the trash; emit gets each finding after its repair.
func (e *Engine) Verify(
	ctx context.Context, t Target, o RunOptions, repair bool, emit func(Finding) error,
) (Report, error) {
	src, err := e.Store.Source(ctx, t.Name)
	if err != nil {
		return Report{}, err
	}
	var s *session
	if repair {
		if s, err = e.begin(ctx, t, o, Observer{}); err != nil {
			return Report{}, err
		}
		defer s.release()
		t = s.Target
	}
	var rep Report
	tell := rep.counting(emit)
	// Extra files go first, because they may lie in the way of a fetched file.
	if err := e.extraFiles(ctx, s, &t, src.ID, tell); err != nil {
		return rep, err
	}
	var found problems
	defer e.discard(&found)
	add := func(p problem) error { return tell(p.Finding) }
	if repair {
		add = found.Add
	}
	look := func(ctx context.Context, r *store.Resource) (*problem, error) { return check(ctx, t.Mirror, r) }
	q := store.ScanQuery{SourceID: src.ID, Filter: store.FilterMirrored}
	err = transfer.Examine(ctx, e.Store, q, look, func(looked int, page []*problem) error {
		rep.Checked += int64(looked)
		if o.Progress != nil {
			o.Progress(transfer.Progress{Listed: int64(looked), Done: int64(looked)})
		}
		for _, p := range page {
			if err := add(*p); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && repair {
		err = s.mend(ctx, &found, tell)
	}
	if err != nil {
		return rep, err
	}
	if rep.InStep = rep.Problems == rep.Repaired; repair {
		err = s.tidyUp(ctx)
	}
	return rep, err
}

// problem is a finding about a resource that the state knows.
type problem struct {
	Finding
	ID int64
}

type problems = spill.List[problem]

// check compares a file with its row; nil when it is right.
func check(ctx context.Context, m blob.Mirror, r *store.Resource) (*problem, error) {
	f, err := inspect.Check(ctx, m, r)
	if f == nil {
		return nil, err
	}
	return &problem{*f, r.ID}, err
}

func (e *Engine) discard(found *problems) {
	if err := found.Close(); err != nil {
		e.log().Warn("could not remove a temporary file", "err", err)
	}
}

// counting is emit with each finding counted.
func (r *Report) counting(emit func(Finding) error) func(Finding) error {
	return func(f Finding) error {
		if r.Problems++; f.Repaired {
			r.Repaired++
		}
		return emit(f)
	}
}

const mendPage = 500

func (s *session) mend(ctx context.Context, found *problems, tell func(Finding) error) error {
	if found.Empty() {
		return nil
	}
	if err := found.Pages(mendPage, func(page []problem) error { return s.disown(ctx, page) }); err != nil {
		return err
	}
	if err := s.carryOut(ctx); err != nil {
		return err
	}
	if err := s.mendTopics(ctx); err != nil {
		return err
	}
	return found.Pages(mendPage, func(page []problem) error {
		if err := s.judgeMended(ctx, page); err != nil {
			return err
		}
		return tellAll(page, tell)
	})
}

func tellAll(page []problem, tell func(Finding) error) error {
	for i := range page {
		if err := tell(page[i].Finding); err != nil {
			return err
		}
	}
	return nil
}

// renew has damaged files fetched by a running reconciler, unless they are being replaced or were since.
func (s *session) renew(ctx context.Context, found []problem) error {
	ids := idsOf(found)
	s.Rows.Lock()
	defer s.Rows.Unlock()
	rs, err := s.Store.ByIDs(ctx, ids)
	if err != nil {
		return err
	}
	same := map[int64]string{}
	for _, r := range s.Idle(rs) {
		same[r.ID] = merge.DigestOf(&r.Have)
	}
	found = slices.DeleteFunc(found, func(p problem) bool {
		digest, idle := same[p.ID]
		return !idle || digest != *p.Expected
	})
	if len(found) == 0 {
		return nil
	}
	s.Observe.Rotten(int64(len(found)))
	for i := range found {
		s.Log.Warn("a mirror file is not what it was; it is fetched anew",
			"key", *found[i].Key, "problem", found[i].Problem)
	}
	if err := s.disown(ctx, found); err != nil {
		return err
	}
	s.Name(ids)
	return nil
}

func idsOf(found []problem) []int64 {
	ids := make([]int64, len(found))
	for i := range found {
		ids[i] = found[i].ID
	}
	return ids
}

// disown corrects the rows of damaged files. One that stays until it is replaced must still be removable.
func (s *session) disown(ctx context.Context, found []problem) error {
	rs, err := s.Store.ByIDs(ctx, idsOf(found))
	if err != nil {
		return err
	}
	v := s.NewRevision()
	for _, r := range rs {
		was := r.Have
		var work store.Work
		switch w := merge.Effective(r.Wants); {
		case w == nil || w.Refused != "": // no replacement will come
			r.Have = store.Have{}
		case w.State == store.WantAbsent:
			r.Have = s.spoilt(ctx, r)
			work = merge.WorkFor(w, &r.Have, v.Now)
		default:
			r.Have, work = s.spoilt(ctx, r), store.Work{Action: store.ActionFetch, Due: v.Now}
		}
		v.Change(store.ResourceChange{ID: r.ID, Have: &r.Have, Work: &work})
		v.Count(r.Wants, was, r)
	}
	_, err = v.Write(ctx)
	return err
}

func (s *session) spoilt(ctx context.Context, r *store.Resource) store.Have {
	now, err := s.Actual(ctx, r)
	switch {
	case err != nil:
		h := s.Unknown([32]byte{}, r.Have.Length, r.Have.ModTime)
		h.State = r.Have.State
		return h
	case now == nil:
		return r.Have
	}
	return *now
}

func (s *session) judgeMended(ctx context.Context, found []problem) error {
	at := map[int64]*problem{}
	for i := range found {
		at[found[i].ID] = &found[i]
	}
	rs, err := s.Store.ByIDs(ctx, idsOf(found))
	for _, r := range rs {
		p := at[r.ID]
		p.Repaired = r.Have.State != store.HaveNone && r.Work.Action == store.ActionNone &&
			(p.Found == nil || merge.DigestOf(&r.Have) != *p.Found)
	}
	return err
}

func (e *Engine) extraFiles(ctx context.Context, s *session, t *Target, source int64, tell func(Finding) error) error {
	return strangers(ctx, e.Store, t.Mirror, source, func(extra []blob.Info, owed []int64) error {
		repaired := false
		if s != nil {
			s.doubt(owed)
		}
		if s != nil && len(extra) > 0 {
			if _, err := s.discard(ctx, keysOf(extra), "belongs to no resource"); err != nil {
				s.Log.Warn("could not move extra files to the trash", "err", err)
			} else {
				repaired = true
			}
		}
		for i := range extra {
			f := Finding{
				Key: &extra[i].Key, Problem: inspect.ProblemExtra, Repaired: repaired,
				Found: new(extra[i].Kind.String()),
			}
			if err := tell(f); err != nil {
				return err
			}
		}
		return nil
	})
}

// mendTopics reads topics anew for entry bytes that the mirror lost, because no other place has them.
func (s *session) mendTopics(ctx context.Context) error {
	sets, err := s.Store.Sets(ctx, s.SourceID)
	if err != nil {
		return err
	}
	for i := range sets {
		some, _, err := s.LostContent(ctx, sets[i].ID)
		if err != nil {
			return err
		}
		if !some {
			continue
		}
		err = s.mendTopic(ctx, &sets[i])
		if own, theirs := errors.AsType[*destination.Error](err); theirs && ctx.Err() == nil {
			s.Log.Warn("a topic cannot be read for what the mirror has lost of it; the next run tries again",
				"set", sets[i].CapabilityList, "err", own)
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (s *session) mendTopic(ctx context.Context, set *store.Set) error {
	offer, err := s.discover(ctx, s.Reader)
	if err != nil {
		return err
	}
	if o := offerOf(offer, set.CapabilityList); o != nil && o.Topic != nil {
		p, err := s.NewPuller(set, o)
		if err != nil {
			return err
		}
		if err := p.Run(ctx); err != nil {
			return err
		}
		if p.Out.Problem != nil {
			s.Log.Warn("a topic was read in part only for what the mirror has lost of it",
				"set", set.CapabilityList, "err", p.Out.Problem)
		}
	}
	return s.carryOut(ctx)
}

const scrubPage = 200

// scrub re-hashes a few files and fetches damaged ones anew (F13).
func (f *Follower) scrub(ctx context.Context) error {
	s := f.s
	if f.rec.IsHalted() || s.Target.Mirror.Check(ctx) != nil { // a missing disk is no damage
		return nil
	}
	rs, err := s.Store.Scan(ctx, store.ScanQuery{
		SourceID: s.SourceID, Filter: store.FilterMirrored, After: f.scrubbed, Limit: scrubPage,
	})
	if err != nil {
		return err
	}
	if len(rs) == 0 {
		f.scrubbed = 0
		return nil
	}
	f.scrubbed = rs[len(rs)-1].ID
	var found []problem
	for _, r := range rs {
		p, err := check(ctx, s.Target.Mirror, r)
		if err != nil && ctx.Err() == nil { // of the machine, not of the file
			s.Log.Warn("the mirror cannot be looked at; it is tried again later", "err", err)
			return nil
		}
		if err != nil {
			return err
		}
		if p != nil {
			found = append(found, *p)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return s.renew(ctx, found)
}
