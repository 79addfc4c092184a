package sync

import (
	"context"
	"hash/maphash"
	"slices"

	"resyncd/sync/inspect"
	"resyncd/sync/transfer"
	"resyncd/sync/verify"
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

// The problems of a finding.
const (
	ProblemMissing  = inspect.ProblemMissing
	ProblemChanged  = inspect.ProblemChanged
	ProblemStale    = inspect.ProblemStale
	ProblemExtra    = inspect.ProblemExtra
	ProblemUnlisted = inspect.ProblemUnlisted
)

// Audit compares Source and mirror through package inspect, which shares no code with the catch-up, and changes
// nothing. With repair it runs the differences as wants, and a second inspection judges the repair.
func (e *Engine) Audit(
	ctx context.Context, t Target, o RunOptions, repair bool, emit func(Finding) error,
) (Report, error) {
	if repair {
		return e.auditAndRepair(ctx, t, o, emit)
	}
	var rep Report
	tell := func(f Finding) error {
		rep.count(&f)
		return emit(f)
	}
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
	defer func() {
		if err := found.Close(); err != nil {
			e.log().Warn("could not remove a temporary file", "err", err)
		}
	}()
	// A hash of the URI bounds the memory for each difference.
	told, seed := map[uint64]struct{}{}, maphash.MakeSeed()
	known := func(f *Finding) bool {
		if f.URI == nil {
			return false
		}
		_, is := told[maphash.String(seed, *f.URI)]
		return is
	}
	out, err := e.inspect(ctx, &t, o, func(f Finding) error {
		told[maphash.String(seed, *f.URI)] = struct{}{}
		return found.Add(verify.Problem{Finding: f})
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
	tell := func(f Finding) error {
		rep.count(&f)
		return emit(f)
	}
	// Verify finds extra files, and files that disagree with their rows.
	_, err = e.Verify(ctx, t, o, true, func(f Finding) error {
		if known(&f) {
			return nil
		}
		return tell(f)
	})
	if err == nil && !found.Empty() {
		rep.InStep, err = e.judgeRepair(ctx, &t, o, &found, known, tell)
	}
	rep.InStep = rep.InStep && rep.Problems == rep.Repaired
	return rep, err
}

// judgeRepair reports each finding, and whether a second inspection still has it.
func (e *Engine) judgeRepair(
	ctx context.Context, t *Target, o RunOptions, found *problems, known func(*Finding) bool, tell func(Finding) error,
) (bool, error) {
	left, seed := map[uint64]struct{}{}, maphash.MakeSeed()
	o.Progress = nil
	out, err := e.inspect(ctx, t, o, func(f Finding) error {
		left[maphash.String(seed, *f.URI)] = struct{}{}
		if known(&f) {
			return nil
		}
		return tell(f)
	})
	if err != nil {
		return false, err
	}
	return out.Whole, found.Pages(mendPage, func(page []verify.Problem) error {
		for i := range page {
			_, still := left[maphash.String(seed, *page[i].URI)]
			page[i].Repaired = !still
			if err := tell(page[i].Finding); err != nil {
				return err
			}
		}
		return nil
	})
}

func (e *Engine) inspect(
	ctx context.Context, t *Target, o RunOptions, tell func(Finding) error,
) (inspect.Outcome, error) {
	opts := inspect.Options{
		Name: t.Name, URL: t.URL, Feed: t.Kind == KindFeed, NoFeeds: t.Kind == KindResourceSync,
		Records: t.Records == RecordsResourceFinder, Follow: t.Follow, Hub: t.Hub, Topic: t.Topic,
		Sets: t.Sets, Scope: t.Scope, Include: t.Include, Exclude: t.Exclude, MaxResource: t.MaxResource,
		Concurrency: t.Concurrency, RetryFor: o.RetryFor,
		Client: t.Client, Policy: t.Policy, Mirror: t.Mirror, Store: e.Store, Log: e.log(),
	}
	if o.Progress != nil {
		opts.Progress = func(files int64) { o.Progress(transfer.Progress{Listed: files, Done: files}) }
	}
	return inspect.Inspect(ctx, opts, tell)
}
