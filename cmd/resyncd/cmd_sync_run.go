package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	syncengine "resyncd/sync"
	"resyncd/sync/report"
)

// syncRun is one invocation of sync over one or more Sources.
type syncRun struct {
	sh      *shell
	c       *cli.Context
	opts    syncengine.RunOptions
	verdict exit.Verdict
	done    []syncengine.Result // sets that ended, not yet told
}

// one catches one Source up. A Source that cannot be worked on does not stop the others; the error is that of an
// interruption, or of writing results.
func (r *syncRun) one(ctx context.Context, p *mirror.Place) error {
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
		r.sh.Say("%s is paused and was left out; `resyncd source resume %s` restarts it", p.Label(), p.Label())
		return nil
	case errors.Is(err, syncengine.ErrStopped):
		err = fmt.Errorf("it is paused: run `resyncd source resume %s` first", p.Label())
	}
	r.verdict.Fail(err)
	r.sh.Say("%s: %s", p.Label(), exit.Advised(err))
	return nil
}

// ended prints the JSON line of a set when it ends; people read a Source's sets together, below what is owed.
func (r *syncRun) ended(p *mirror.Place, res *syncengine.Result) error {
	if !r.c.Bool("json") {
		r.done = append(r.done, *res)
		return nil
	}
	return r.report(p, res)
}

func (r *syncRun) source(ctx context.Context, p *mirror.Place) (results []syncengine.Result, err error) {
	o, err := r.sh.opener(r.c).OpenForSync(ctx, p)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	results, done, err := r.asked(ctx, o)
	if err == nil && !done {
		results, err = r.own(ctx, o)
	}
	if err == nil {
		err = o.Identify(ctx)
	}
	if err == nil {
		err = r.afterwards(ctx, o, results)
	}
	return results, err
}

// own is the run in this process.
func (r *syncRun) own(ctx context.Context, o *mirror.Opened) (results []syncengine.Result, err error) {
	defer o.Connect()()
	opts := r.opts
	opts.RetryFor = o.Config.Network.RetryFor
	progress := r.sh.Progress(o.Source.Name, r.c.Bool("quiet"))
	opts.Progress = progress.Note
	opts.Ended = func(res syncengine.Result) error { return r.ended(&o.Place, &res) }
	err = progress.While(ctx, func(ctx context.Context) (err error) {
		results, err = o.Engine.Run(ctx, o.Target, opts)
		return err
	})
	return results, err
}

// afterwards tells what only the state knows: which sets never had a baseline, and, to people, what is owed or held.
func (r *syncRun) afterwards(ctx context.Context, o *mirror.Opened, results []syncengine.Result) error {
	sets, err := o.Engine.Store.Sets(ctx, o.Known.ID)
	if err != nil {
		return err
	}
	for i := range results {
		for j := range sets {
			if sets[j].CapabilityList == results[i].Set && sets[j].Baselines == 0 && !results[i].Unavailable &&
				o.Target.Kind != syncengine.KindFeed {
				r.sh.Say("%s: there was no baseline: the mirror holds what changes brought, and nothing from "+
					"before them", term.URL(results[i].Set))
			}
		}
	}
	if r.c.Bool("json") {
		return nil
	}
	return r.outstanding(ctx, o, results)
}

// report prints one set's result and counts it for the exit code.
func (r *syncRun) report(p *mirror.Place, res *syncengine.Result) error {
	r.verdict.Count(res)
	if r.c.Bool("json") {
		return r.sh.JSON().Encode(term.Result(res))
	}
	_, err := fmt.Fprint(r.sh.Out, term.Summary(p.Label(), res))
	return err
}

// shownOutstanding is how many owed, and how many held, resources a run lists; `ls` lists all.
const shownOutstanding = 20

var errEnough = errors.New("enough was listed")

// outstanding lists what a run leaves owed or held, with reason and next try.
func (r *syncRun) outstanding(ctx context.Context, o *mirror.Opened, results []syncengine.Result) error {
	var owed, held int64
	for i := range results {
		owed += results[i].Owed
		held += results[i].Held
	}
	for _, kind := range []struct {
		filter report.ListFilter
		n      int64
	}{{report.ListOwed, owed}, {report.ListHeld, held}} {
		if kind.n == 0 {
			continue
		}
		n := 0
		err := report.List(ctx, o.Engine.Store, o.Known.ID, kind.filter, func(l report.Listing) error {
			if n++; n > shownOutstanding {
				fmt.Fprintf(r.sh.Out, "%s: and more: resyncd ls --%s %s\n", kind.filter, kind.filter, o.Label())
				return errEnough
			}
			_, err := fmt.Fprintf(r.sh.Out, "%s: %s%s\n", kind.filter, term.OneLine(l.URI), term.Why(&l))
			return err
		})
		if err != nil && !errors.Is(err, errEnough) {
			return err
		}
	}
	return nil
}
