package sync

import (
	"context"
	"fmt"
	"hash/maphash"
)

// Audit compares Source, state and mirror: a full pull into a throw-away copy of the state tells what the Source says now,
// a verification tells what is on disk. It shares no bookkeeping with the catch-up it checks: every list is read anew and
// every file hashed. copied is that copy; nothing is changed but with repair, which runs the differences as wants.
func (e *Engine) Audit(ctx context.Context, t Target, o RunOptions, copied *Engine, repair bool, emit func(Finding) error) (Report, error) {
	var rep Report
	// By the hash of their URI: a difference that is told costs 20 bytes here, whatever its length.
	seen, seed := map[uint64]struct{}{}, maphash.MakeSeed()
	var remote findings
	defer func() {
		if err := remote.close(); err != nil {
			e.Log.Warn("could not remove a temporary file", "err", err)
		}
	}()
	plan := o
	plan.Full = true
	plan.Plan = func(p Planned) error {
		f := Finding{URI: &p.URI, Problem: ProblemMissing}
		if p.Key != "" {
			f.Key = &p.Key
		}
		switch {
		case p.Action == "keep", p.Extra: // Verify tells of those
			return nil
		case p.Action == "delete":
			f.Problem = ProblemUnlisted
		case p.Had:
			f.Problem = ProblemStale
		}
		seen[maphash.String(seed, p.URI)] = struct{}{}
		return remote.add(problem{Finding: f})
	}
	results, err := copied.Run(ctx, t, plan)
	if err != nil {
		return rep, err
	}
	if err := allUsable(results); err != nil {
		return rep, err
	}
	mended := repair && !remote.empty()
	if mended {
		run := o
		run.Full = true
		if results, err = e.Run(ctx, t, run); err != nil {
			return rep, err
		}
	}
	err = remote.pages(mendPage, func(page []problem) error {
		if mended {
			if err := e.judgeRemote(ctx, t, page); err != nil {
				return err
			}
		}
		for i := range page {
			rep.count(&page[i].Finding)
			if err := emit(page[i].Finding); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return rep, err
	}
	local, err := e.Verify(ctx, t, o, repair, func(f Finding) error {
		told := false
		if f.URI != nil {
			_, told = seen[maphash.String(seed, *f.URI)]
		}
		if !told {
			return emit(f)
		}
		rep.Problems-- // above already
		if f.Repaired {
			rep.Repaired--
		}
		return nil
	})
	rep.Checked = local.Checked
	rep.Problems += local.Problems
	rep.Repaired += local.Repaired
	rep.InStep = rep.Problems == rep.Repaired
	for _, r := range results {
		rep.InStep = rep.InStep && (r.InStep || !repair && r.Problem == "")
	}
	return rep, err
}

func allUsable(results []Result) error {
	for _, r := range results {
		if r.Unavailable {
			return fmt.Errorf("audit %s: no document of set %s could be used: %s", r.Source, r.Set, r.Problem)
		}
	}
	return nil
}

// judgeRemote asks the state which of the differences are gone after the repair.
func (e *Engine) judgeRemote(ctx context.Context, t Target, found []problem) error {
	src, err := e.Store.Source(ctx, t.Name)
	if err != nil {
		return err
	}
	for i := range found {
		r, err := e.Store.Resource(ctx, src.ID, *found[i].URI)
		switch {
		case err != nil:
			found[i].Repaired = found[i].Problem == ProblemUnlisted // the row is gone with its tombstone
		default:
			found[i].Repaired = stateName(r) != "owed" && stateName(r) != "held"
		}
	}
	return nil
}
