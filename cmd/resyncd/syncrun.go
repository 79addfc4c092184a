package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	syncengine "resyncd/sync"
)

// syncRun is one invocation of sync over one or more Sources.
type syncRun struct {
	sh      *shell
	c       *cli.Context
	opts    syncengine.RunOptions
	verdict verdict
	done    []syncengine.Result // sets that ended, not yet told
}

// one catches one Source up. A Source that cannot be worked on does not stop the others; the error is that of an
// interruption, or of writing results.
func (r *syncRun) one(ctx context.Context, p *place) error {
	work := r.source
	if r.c.Bool("dry-run") {
		work = r.dryRun
	}
	r.done = nil
	_, err := work(ctx, p)
	for i := range r.done {
		if err := r.report(p, &r.done[i]); err != nil {
			return err
		}
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return err
	case errors.Is(err, syncengine.ErrStopped) && r.c.NArg() == 0:
		r.sh.say("%s is paused and was left out; `resyncd source resume %s` restarts it", p.label(), p.label())
		return nil
	case errors.Is(err, syncengine.ErrStopped):
		err = fmt.Errorf("it is paused: run `resyncd source resume %s` first", p.label())
	}
	r.verdict.fail(err)
	r.sh.say("%s: %s", p.label(), advised(err))
	return nil
}

// ended prints the JSON line of a set when it ends; people read a Source's sets together, below what is owed.
func (r *syncRun) ended(p *place, res *syncengine.Result) error {
	if !r.c.Bool("json") {
		r.done = append(r.done, *res)
		return nil
	}
	return r.report(p, res)
}

func (r *syncRun) source(ctx context.Context, p *place) (results []syncengine.Result, err error) {
	o, err := r.sh.openForSync(ctx, r.c, p)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	held, err := r.sh.daemonHolds(r.c, o)
	if err != nil {
		return nil, err
	}
	if held != nil {
		results, err = r.asked(ctx, o, held)
		if isHeld(err) { // nobody answers: who held it may be gone by now
			var unknown error
			if held, unknown = r.sh.daemonHolds(r.c, o); unknown != nil {
				held = err
			}
		}
	}
	if held == nil {
		results, err = r.own(ctx, o)
	}
	if err == nil {
		err = o.identify(ctx)
	}
	if err == nil {
		err = r.afterwards(ctx, o, results)
	}
	return results, err
}

// own is the run in this process.
func (r *syncRun) own(ctx context.Context, o *opened) (results []syncengine.Result, err error) {
	defer o.aim()()
	opts := r.opts
	opts.RetryFor = o.cfg.Network.RetryFor
	progress := r.sh.progress(o.src.Name, r.c.Bool("quiet"))
	opts.Progress = progress.note
	opts.Ended = func(res syncengine.Result) error { return r.ended(&o.place, &res) }
	err = progress.while(ctx, func(ctx context.Context) (err error) {
		results, err = o.engine.Run(ctx, o.target, opts)
		return err
	})
	return results, err
}

// afterwards tells what only the state knows: which sets never had a baseline, and, to people, what is owed or held.
func (r *syncRun) afterwards(ctx context.Context, o *opened, results []syncengine.Result) error {
	sets, err := o.engine.Store.Sets(ctx, o.known.ID)
	if err != nil {
		return err
	}
	for i := range results {
		for j := range sets {
			if sets[j].CapabilityList == results[i].Set && sets[j].Baselines == 0 && !results[i].Unavailable && o.target.Kind != syncengine.KindFeed {
				r.sh.say("%s: there was no baseline: the mirror holds what changes brought, and nothing from before them", shownURL(results[i].Set))
			}
		}
	}
	if r.c.Bool("json") {
		return nil
	}
	return r.outstanding(ctx, o, results)
}

// openForSync opens state and mirror for a run, and makes them where they are new. A folder without a URL must be a
// mirror already.
func (sh *shell) openForSync(ctx context.Context, c *cli.Context, p *place) (o *opened, err error) {
	switch {
	case p.alone && p.src.URL == "":
		o, err = sh.openExisting(ctx, c, p)
	case p.alone:
		if err = p.prepare(); err == nil {
			o, err = sh.openState(ctx, c, p, true)
		}
	default:
		o, err = sh.openState(ctx, c, p, true)
	}
	if err != nil {
		return nil, err
	}
	if err = o.settleURL(ctx); err == nil {
		err = o.makeMirror(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, o.close())
	}
	return o, nil
}

// report prints one set's result and counts it for the exit code.
func (r *syncRun) report(p *place, res *syncengine.Result) error {
	r.verdict.count(res)
	if r.c.Bool("json") {
		return r.sh.json().Encode(shownResult(res))
	}
	_, err := fmt.Fprint(r.sh.out, summary(p, res))
	return err
}
