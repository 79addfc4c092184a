package sync

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"

	"resyncd/destination"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/inspect"
	"resyncd/sync/keymap"
	"resyncd/sync/merge"
	"resyncd/sync/plan"
	"resyncd/sync/pull"
	"resyncd/sync/transfer"
)

// Finding is one difference that an audit or a verification found.
type Finding = inspect.Finding

// Report ends an audit or a verification.
type Report struct {
	Checked  int64 `json:"checked"`
	Problems int64 `json:"problems"`
	Repaired int64 `json:"repaired"`
	InStep   bool  `json:"in_step"`
}

// Audit compares Source and mirror through package inspect, which shares no code with the catch-up, and changes
// nothing. With repair it runs the differences as wants, and a second inspection judges the repair.
func (e *Engine) Audit(
	ctx context.Context, t Target, o RunOptions, repair bool, emit func(Finding) error,
) (Report, error) {
	if repair {
		return e.auditAndRepair(ctx, t, o, emit)
	}
	var rep Report
	tell := rep.counting(emit)
	out, err := e.inspect(ctx, &t, o, tell)
	if err != nil {
		return rep, err
	}
	src, err := e.Store.Source(ctx, t.Name)
	if err != nil {
		return rep, err
	}
	err = e.extraFiles(ctx, nil, &t, src.ID, tell)
	rep.Checked = out.Checked
	rep.InStep = err == nil && out.Whole && rep.Problems == 0
	return rep, err
}

func (e *Engine) auditAndRepair(
	ctx context.Context, t Target, o RunOptions, emit func(Finding) error,
) (rep Report, err error) {
	var found problems
	defer e.discard(&found)
	told := uris{maphash.MakeSeed(), map[uint64]bool{}}
	out, err := e.inspect(ctx, &t, o, func(f Finding) error {
		told.add(*f.URI)
		return found.Add(problem{Finding: f})
	})
	if err != nil {
		return rep, err
	}
	rep.Checked, rep.InStep = out.Checked, out.Whole
	if !found.Empty() {
		run := o
		run.Full = true
		results, err := e.Run(ctx, t, run)
		if err != nil {
			return rep, err
		}
		rep.InStep = !slices.ContainsFunc(results, func(r Result) bool { return !r.InStep })
	}
	tell := rep.counting(emit)
	untold := func(f Finding) error {
		if f.URI != nil && told.has(*f.URI) {
			return nil
		}
		return tell(f)
	}
	// Verify finds extra files, and files that disagree with their rows.
	if _, err = e.Verify(ctx, t, o, true, untold); err == nil && !found.Empty() {
		rep.InStep, err = e.judgeRepair(ctx, &t, o, &found, untold, tell)
	}
	rep.InStep = rep.InStep && rep.Problems == rep.Repaired
	return rep, err
}

// uris is a set of URIs by their hashes, which bound its memory.
type uris struct {
	seed maphash.Seed
	all  map[uint64]bool
}

func (u uris) add(uri string)      { u.all[maphash.String(u.seed, uri)] = true }
func (u uris) has(uri string) bool { return u.all[maphash.String(u.seed, uri)] }

func (e *Engine) judgeRepair(
	ctx context.Context, t *Target, o RunOptions, found *problems, untold, tell func(Finding) error,
) (bool, error) {
	left := uris{maphash.MakeSeed(), map[uint64]bool{}}
	o.Progress = nil
	out, err := e.inspect(ctx, t, o, func(f Finding) error {
		left.add(*f.URI)
		return untold(f)
	})
	if err != nil {
		return false, err
	}
	return out.Whole, found.Pages(mendPage, func(page []problem) error {
		for i := range page {
			page[i].Repaired = !left.has(*page[i].URI)
		}
		return tellAll(page, tell)
	})
}

func (e *Engine) inspect(
	ctx context.Context, t *Target, o RunOptions, tell func(Finding) error,
) (inspect.Outcome, error) {
	opts := inspect.Options{
		Name: t.Name, URL: t.URL, Feed: t.Kind == KindFeed, NoFeeds: t.Kind == pull.KindResourceSync,
		Records: t.Records == plan.RecordsResourceFinder, Follow: t.Follow, Hub: t.Hub, Topic: t.Topic, Sets: t.Sets,
		Scope: t.Scope, Include: t.Include, Exclude: t.Exclude, Collections: t.Collections, Metadata: t.Metadata,
		MaxResource: t.MaxResource, Concurrency: t.Concurrency, Dumps: t.UsesDumps(),
		RetryFor: o.RetryFor, Client: t.Client, Policy: t.Policy, Mirror: t.Mirror, Store: e.Store, Log: e.log(),
	}
	if o.Progress != nil {
		opts.Progress = func(files int64) { o.Progress(transfer.Progress{Listed: files, Done: files}) }
	}
	return inspect.Inspect(ctx, opts, tell)
}

// sweepExtra waits until every offered set had a baseline, or the files of an unread one would go (P5).
func (s *session) sweepExtra(ctx context.Context, rec *transfer.Reconciler, offer *destination.Offer) error {
	sets, err := s.Store.Sets(ctx, s.SourceID)
	if err != nil {
		return err
	}
	feeds := false
	for _, o := range offer.Sets {
		if !slices.ContainsFunc(sets, func(s store.Set) bool { return s.CapabilityList == o.ID && s.Baselines > 0 }) {
			return nil
		}
		feeds = feeds || o.Topic != nil
	}
	if s.sweep = false; feeds { // no feed lists all that it ever showed
		return nil
	}
	gone, err := s.sweepAll(ctx)
	rec.Went(gone)
	return err
}

// sweepAll moves files without an owner to the trash, under the sweep guard. With an empty mirror a later run judges
// again; with transfer.DeleteKeep the files stay, because deleted files that were to be kept are among them.
func (s *session) sweepAll(ctx context.Context) (gone int64, err error) {
	if s.Target.Delete == transfer.DeleteKeep {
		if s.o.Plan == nil {
			return 0, nil
		}
		return 0, s.extras(ctx, func(keys []string) error { return s.planExtra(ctx, keys, "keep") })
	}
	have, err := s.mirrored(ctx)
	if err != nil {
		return 0, err
	}
	var extra int64
	err = s.extras(ctx, func(keys []string) error {
		extra += int64(len(keys))
		return nil
	})
	if err != nil || extra == 0 {
		return 0, err
	}
	if merge.Hold(have == 0, extra, have+extra, s.Target.DeleteGuard) {
		s.sweep = have == 0
		s.Log.Warn("the folder holds many files that no list names; they are left alone: "+
			"look at them with `resyncd verify`, remove them with `resyncd verify --repair`",
			"files", extra, "listed", have)
		return 0, nil
	}
	err = s.extras(ctx, func(keys []string) error {
		if s.o.Plan != nil {
			return s.planExtra(ctx, keys, "delete")
		}
		n, err := s.discard(ctx, keys, "no list names it")
		gone += n
		return err
	})
	return gone, err
}

func (s *session) mirrored(ctx context.Context) (have int64, err error) {
	sets, err := s.Store.Sets(ctx, s.SourceID)
	for _, set := range sets {
		have += set.Resources
	}
	if err != nil || s.o.Plan == nil {
		return have, err
	}
	for r, err := range s.Owed(store.ActionFetch).All(ctx) {
		if err != nil {
			return have, err
		}
		for i := range r.Wants {
			will := merge.Counted(&r.Wants[i], &store.Have{State: store.HavePresent})
			have += will.Resources - merge.Counted(&r.Wants[i], &r.Have).Resources
		}
	}
	return have, nil
}

func (s *session) planExtra(ctx context.Context, keys []string, action string) error {
	uris, err := s.urisOf(ctx, keys)
	for i := 0; i < len(keys) && err == nil; i++ {
		err = s.o.Plan(Planned{URI: uris[i], Key: keys[i], Action: action, Extra: true})
	}
	return err
}

func (s *session) discard(ctx context.Context, keys []string, reason string) (gone int64, err error) {
	uris, err := s.urisOf(ctx, keys)
	if err != nil {
		return 0, err
	}
	if err := s.Begun(ctx, nil); err != nil {
		return 0, err
	}
	items := make([]blob.TrashItem, len(keys))
	for i, k := range keys {
		items[i] = blob.TrashItem{Key: k, ID: blob.NewTrashID(s.Now())}
	}
	c := &store.Commit{Claim: s.Claim}
	var failed error
	for i, err := range s.Target.Mirror.Trash(ctx, items) {
		if err != nil && !blob.Missing(err) {
			failed = errors.Join(failed, err)
			continue
		}
		if err == nil {
			gone++
		}
		c.Trash = append(c.Trash, store.Trashed{ID: items[i].ID, SourceID: s.SourceID, URI: uris[i], Key: keys[i],
			Length: -1, Reason: reason,
			At: s.LocalNow()})
	}
	return gone, errors.Join(failed, s.Store.Commit(ctx, c))
}

func (s *session) extras(ctx context.Context, each func(keys []string) error) error {
	return strangers(ctx, s.Store, s.Target.Mirror, s.SourceID, func(extra []blob.Info, owed []int64) error {
		s.doubt(owed)
		if len(extra) == 0 {
			return nil
		}
		return each(keysOf(extra))
	})
}

// strangers hands over files of a mirror that belong to no resource, page by page. Files of owed resources are left out
// and named beside: an interrupted run put them there.
func strangers(
	ctx context.Context, st store.Resources, m blob.Mirror, source int64,
	each func(extra []blob.Info, owed []int64) error,
) error {
	var page []blob.Info
	flush := func() error {
		found, err := owners(ctx, st, m, source, keysOf(page))
		if err != nil {
			return err
		}
		extra, owed := page[:0], []int64(nil)
		for i, info := range page {
			switch o := found[i]; {
			case o != nil && o.Have.State != store.HaveNone:
			case o != nil && o.Work.Action == store.ActionFetch && info.Kind == blob.KindFile:
				owed = append(owed, o.ID)
			default:
				extra = append(extra, info)
			}
		}
		page = page[:0]
		return each(extra, owed)
	}
	err := m.Walk(ctx, func(i blob.Info) error {
		if page = append(page, i); len(page) < mendPage {
			return nil
		}
		return flush()
	})
	if err != nil || len(page) == 0 {
		return err
	}
	return flush()
}

func keysOf(infos []blob.Info) []string {
	keys := make([]string, len(infos))
	for i := range infos {
		keys[i] = infos[i].Key
	}
	return keys
}

// doubt has a run look at rows without a file where one exists.
func (s *session) doubt(owed []int64) {
	for _, id := range owed {
		if !s.Look {
			s.Doubt(id)
		}
	}
}

// urisOf returns the URIs of unowned files, from a row with that key or from the key itself; "" if unknown.
func (s *session) urisOf(ctx context.Context, keys []string) ([]string, error) {
	owners, err := owners(ctx, s.Store, s.Target.Mirror, s.SourceID, keys)
	if err != nil {
		return nil, err
	}
	origins, err := s.origins(ctx)
	uris := make([]string, len(keys))
	for i, key := range keys {
		if o := owners[i]; o == nil {
			uris[i] = keymap.URIOf(origins, key)
		} else if !foreign(o) {
			uris[i] = o.URI
		}
	}
	return uris, err
}

// owners are the resources of keys, found by the names that the disk goes by; nil where there is none.
func owners(
	ctx context.Context, st store.Resources, m blob.Mirror, source int64, keys []string,
) ([]*store.Resource, error) {
	if m.FoldsCase() {
		keys = slices.Clone(keys)
		for i := range keys {
			keys[i] = keymap.FoldKey(keys[i])
		}
	}
	return st.ByKeys(ctx, source, keys)
}

// foreign reports a restored file that is no resource of the Source: its URI is its key.
func foreign(r *store.Resource) bool { return r.Key != "" && r.URI == r.Key }

func (s *session) origins(ctx context.Context) (out []string, err error) {
	sets, err := s.Store.Sets(ctx, s.SourceID)
	known := append([]string{s.Target.URL}, s.Target.Scope...)
	for i := range sets {
		known = append(known, sets[i].CapabilityList)
	}
	for _, u := range known {
		if origin := keymap.OriginOf(u); origin != "" && !slices.Contains(out, origin) {
			out = append(out, origin)
		}
	}
	return out, err
}
