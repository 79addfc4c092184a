package sync

import (
	"context"
	"encoding/hex"
	"errors"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"resyncd/store"
	"resyncd/store/blob"
)

// Finding is one difference that an audit or a verification found. It is a line of `audit --json` and `verify --json`.
type Finding struct {
	URI      *string `json:"uri"`
	Key      *string `json:"key"`
	Problem  string  `json:"problem"` // missing, changed, stale, extra, unlisted
	Expected *string `json:"expected"`
	Found    *string `json:"found"`
	Repaired bool    `json:"repaired"`
}

// Report ends an audit or a verification.
type Report struct {
	Checked  int64 `json:"checked"`
	Problems int64 `json:"problems"`
	Repaired int64 `json:"repaired"`
	InStep   bool  `json:"in_step"`
}

// The problems of a finding.
const (
	ProblemMissing  = "missing"
	ProblemChanged  = "changed"
	ProblemStale    = "stale"
	ProblemExtra    = "extra"
	ProblemUnlisted = "unlisted"
)

// Verify re-hashes the mirror against the state without asking the Source. With repair it fetches anew what is wrong and
// moves extra files to the trash; only then it takes a claim. emit is called once per finding, after its repair.
func (e *Engine) Verify(ctx context.Context, t Target, o RunOptions, repair bool, emit func(Finding) error) (Report, error) {
	src, err := e.Store.Source(ctx, t.Name)
	if err != nil {
		return Report{}, err
	}
	var s *session
	if repair {
		if s, err = e.begin(ctx, t, o); err != nil {
			return Report{}, err
		}
		defer s.release()
		t = s.t
	}
	var rep Report
	tell := func(f Finding) error {
		rep.count(&f)
		return emit(f)
	}
	// First, so that what lies in the way of a file is gone when that is fetched.
	if err := e.extraFiles(ctx, s, &t, src.ID, tell); err != nil {
		return rep, err
	}
	if repair {
		var found findings
		defer func() {
			if err := found.close(); err != nil {
				s.log.Warn("could not remove a temporary file", "err", err)
			}
		}()
		err = e.rehashAll(ctx, &t, src.ID, &rep, o.Progress, found.add)
		if err == nil {
			err = s.mend(ctx, &found, tell)
		}
	} else {
		err = e.rehashAll(ctx, &t, src.ID, &rep, o.Progress, func(p problem) error { return tell(p.Finding) })
	}
	if err != nil {
		return rep, err
	}
	rep.InStep = rep.Problems == rep.Repaired
	if s != nil {
		return rep, s.tidyUp(ctx)
	}
	return rep, nil
}

// problem is a finding about a known resource.
type problem struct {
	Finding
	id int64
}

func (r *Report) count(f *Finding) {
	r.Problems++
	if f.Repaired {
		r.Repaired++
	}
}

// rehashAll reads every file that the state knows, as many at a time as there are processors.
func (e *Engine) rehashAll(ctx context.Context, t *Target, source int64, rep *Report, tell func(Progress), add func(problem) error) error {
	for after := int64(0); ; {
		rs, err := e.Store.Scan(ctx, store.ScanQuery{SourceID: source, Filter: store.FilterMirrored, After: after, Limit: 1000})
		if err != nil || len(rs) == 0 {
			return err
		}
		after = rs[len(rs)-1].ID
		found := make([]*problem, len(rs))
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(max(runtime.GOMAXPROCS(0), 2))
		for i, r := range rs {
			g.Go(func() (err error) {
				found[i], err = checkFile(gctx, t.Mirror, r)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		rep.Checked += int64(len(rs))
		if tell != nil {
			tell(Progress{Listed: int64(len(rs)), Done: int64(len(rs))})
		}
		for _, p := range found {
			if p == nil {
				continue
			}
			if err := add(*p); err != nil {
				return err
			}
		}
	}
}

// checkFile compares one file with its row; nil when it is right.
func checkFile(ctx context.Context, m blob.Mirror, r *store.Resource) (*problem, error) {
	p := &problem{id: r.ID, Finding: Finding{URI: &r.URI, Key: &r.Key, Expected: ptr(digestOf(&r.Have))}}
	sum, _, _, err := hashFile(ctx, m, r.Key, nil)
	switch {
	case err == nil && sum == r.Have.SHA256:
		return nil, nil
	case err == nil:
		p.Problem, p.Found = ProblemChanged, ptr("sha-256:"+hex.EncodeToString(sum[:]))
	case missing(err):
		p.Problem = ProblemMissing
	case errors.Is(err, blob.ErrNotRegular):
		p.Problem, p.Found = ProblemChanged, ptr("not a regular file")
	case ctx.Err() != nil || blob.Systemic(err) && !errors.Is(err, blob.ErrIO):
		return nil, err
	default:
		p.Problem, p.Found = ProblemChanged, ptr("unreadable: "+err.Error())
	}
	return p, nil
}

// mendPage is how many problems are recorded, or judged, in one step.
const mendPage = 500

// mend turns problems into wants, runs them, and tells of each whether it is right now.
func (s *session) mend(ctx context.Context, found *findings, tell func(Finding) error) error {
	if found.empty() {
		return nil
	}
	if err := found.pages(mendPage, func(page []problem) error { return s.disown(ctx, page) }); err != nil {
		return err
	}
	planned := make(chan struct{})
	close(planned)
	rec := &reconciler{s: s, workers: s.t.workers(), planned: planned, failing: newBitmap(), scope: noScope}
	if err := rec.pass(ctx, func() store.Micros { return endOfTime }); err != nil {
		return err
	}
	if err := s.retry(ctx, nil, rec); err != nil {
		return err
	}
	if err := s.mendTopics(ctx); err != nil {
		return err
	}
	return found.pages(mendPage, func(page []problem) error {
		if err := s.judgeMended(ctx, page); err != nil {
			return err
		}
		for i := range page {
			if err := tell(page[i].Finding); err != nil {
				return err
			}
		}
		return nil
	})
}

// noScope: the resources at hand passed the scope when they were planned; redirects are held to the addresses only.
func noScope(string) string { return "" }

// renew has files that are not what they were fetched anew, by a reconciler that is at work: a file that is just being
// replaced, or was since it was looked at, is none of them.
func (s *session) renew(ctx context.Context, found []problem) error {
	ids := make([]int64, len(found))
	for i := range found {
		ids[i] = found[i].id
	}
	s.flight.mu.Lock()
	defer s.flight.mu.Unlock()
	rs, err := s.Store.ByIDs(ctx, ids)
	if err != nil {
		return err
	}
	same := map[int64]bool{}
	for _, r := range s.flight.grounded(rs) {
		same[r.ID] = true
		for i := range found {
			if found[i].id == r.ID && *found[i].Expected != digestOf(&r.Have) {
				same[r.ID] = false
			}
		}
	}
	found = slices.DeleteFunc(found, func(p problem) bool { return !same[p.id] })
	if len(found) == 0 {
		return nil
	}
	s.observe.rotten(int64(len(found)))
	for i := range found {
		s.log.Warn("a mirror file is not what it was; it is fetched anew", "key", *found[i].Key, "problem", found[i].Problem)
	}
	if err := s.disown(ctx, found); err != nil {
		return err
	}
	s.hand(ids)
	return nil
}

// disown makes rows tell the truth about files that are not what they were. One that stays where it is until a good one
// takes its place is not forgotten meanwhile: should the Source delete the resource first, it has to go.
func (s *session) disown(ctx context.Context, found []problem) error {
	ids := make([]int64, len(found))
	for i := range found {
		ids[i] = found[i].id
	}
	rs, err := s.Store.ByIDs(ctx, ids)
	if err != nil {
		return err
	}
	c := &store.Commit{Claim: s.claim}
	sums := map[int64]*store.SetChange{}
	now := s.localNow()
	for _, r := range rs {
		var have store.Have
		var work store.Work
		switch w := Effective(r.Wants); {
		case w == nil || w.Refused != "": // no good one will come, so this one belongs to nobody
		case w.State == store.WantAbsent:
			have = s.spoilt(ctx, r)
			work = s.workFor(w, &have, now)
		default:
			have, work = s.spoilt(ctx, r), store.Work{Action: store.ActionFetch, Due: now}
		}
		total(sums, r.Wants, &r.Have, r.Wants, &have)
		c.Resources = append(c.Resources, store.ResourceChange{ID: r.ID, Have: &have, Work: &work})
	}
	for _, sc := range sums {
		c.Sets = append(c.Sets, *sc)
	}
	return s.Store.Commit(ctx, c)
}

// spoilt is what a row has where its file was found not to be what it was. One that cannot be read is there all the same.
func (s *session) spoilt(ctx context.Context, r *store.Resource) store.Have {
	now, err := s.actual(ctx, r)
	switch {
	case err != nil:
		h := s.unknown([32]byte{}, r.Have.Length, r.Have.ModTime)
		h.State = r.Have.State
		return h
	case now == nil:
		return r.Have
	}
	return *now
}

func (s *session) judgeMended(ctx context.Context, found []problem) error {
	ids := make([]int64, len(found))
	at := map[int64]*problem{}
	for i := range found {
		ids[i] = found[i].id
		at[found[i].id] = &found[i]
	}
	rs, err := s.Store.ByIDs(ctx, ids)
	for _, r := range rs {
		p := at[r.ID]
		p.Repaired = r.Have.State != store.HaveNone && r.Work.Action == store.ActionNone &&
			(p.Found == nil || digestOf(&r.Have) != *p.Found)
	}
	return err
}

// extraFiles reports what lies in the mirror and belongs to no resource; s, if not nil, moves it to the trash.
func (e *Engine) extraFiles(ctx context.Context, s *session, t *Target, source int64, tell func(Finding) error) error {
	return walkExtras(ctx, e.Store, t.Mirror, source, func(infos []blob.Info) error {
		infos, keys, err := e.strangers(ctx, s, source, infos)
		if err != nil || len(keys) == 0 {
			return err
		}
		repaired := false
		if s != nil {
			if _, err := s.discard(ctx, keys, "belongs to no resource"); err != nil {
				s.log.Warn("could not move extra files to the trash", "err", err)
			} else {
				repaired = true
			}
		}
		for i := range infos {
			f := Finding{Key: &keys[i], Problem: ProblemExtra, Found: ptr(infos[i].Kind.String()), Repaired: repaired}
			if err := tell(f); err != nil {
				return err
			}
		}
		return nil
	})
}

// strangers leaves out what lies where a resource's file should be, which was told already, and the files of resources that
// are still owed: an interrupted run put them there, and the next one looks at them before it fetches anything. Where the
// state says of none, as that of a backup may, s, if not nil, sees to it.
func (e *Engine) strangers(ctx context.Context, s *session, source int64, infos []blob.Info) ([]blob.Info, []string, error) {
	keys := make([]string, len(infos))
	for i := range infos {
		keys[i] = infos[i].Key
	}
	owners, err := e.Store.ByKeys(ctx, source, keys)
	if err != nil {
		return nil, nil, err
	}
	left, names := infos[:0], keys[:0]
	for i, info := range infos {
		o := owners[i]
		if o != nil && o.Have.State != store.HaveNone {
			continue
		}
		if o != nil && o.Work.Action == store.ActionFetch && info.Kind == blob.KindFile {
			if s != nil && !s.look {
				s.doubts.add(o.ID)
			}
			continue
		}
		left, names = append(left, info), append(names, info.Key)
	}
	return left, names, nil
}

// tidyUp ends a session that did not discover.
func (s *session) tidyUp(ctx context.Context) error {
	if s.hot != nil {
		return nil // the run of a Follower goes on
	}
	unclean := s.look || s.doubts.any() // what a run left uncertain stays so until a run has looked
	if !unclean && !s.underway.told() {
		return nil
	}
	return s.Store.Commit(ctx, &store.Commit{Claim: s.claim, Source: &store.SourceChange{Unclean: &unclean}})
}

func ptr(s string) *string { return &s }
