package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/control"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	syncengine "resyncd/sync"
	"resyncd/sync/report"
)

func (sh *shell) sync() error {
	opts := syncengine.RunOptions{Full: sh.c.Bool("full"), From: store.NoTime}
	if from := sh.c.String("from"); sh.c.IsSet("from") {
		at, err := rsdoc.ParseMicros(from)
		if err != nil {
			return exit.Usage("--from %q: %w; write it as 2026-01-31T00:00:00Z", from, err)
		}
		opts.From = store.Micros(at)
		if err := syncengine.CheckFrom(opts.From, sh.Now()); err != nil {
			return exit.Usage("--from %q: %w", from, err)
		}
	}
	ps, err := sh.syncPlaces()
	if err != nil {
		return err
	}
	if sh.c.IsSet("sets") {
		sets := strings.Split(sh.c.String("sets"), ",")
		for i := range ps {
			if ps[i].Source.Kind == config.KindFeed {
				return exit.Usage("--sets: %s is a feed, which is one set by itself: leave --sets out", ps[i].Label())
			}
			for _, set := range sets {
				if _, err := ps[i].Config.Adhoc("set", set); err != nil {
					return exit.Usage("--sets: %q %w", set, err)
				}
			}
			ps[i].Source.Sets = sets
		}
	}
	run := &syncRun{shell: sh, opts: opts}
	for i := range ps {
		if err := run.one(sh.c.Context, &ps[i]); err != nil {
			return err
		}
	}
	return run.verdict.Err()
}

// syncPlaces: an argument with "://" makes it `sync URL DIR`.
func (sh *shell) syncPlaces() ([]mirror.Place, error) {
	const form = "sync URL DIR, or resyncd sync [NAME…]"
	given := sh.c.Args().Slice()
	urls := 0
	for _, a := range given {
		if strings.Contains(a, "://") {
			urls++
		}
	}
	switch {
	case urls == 0:
		return sh.mirrors.Places(given)
	case urls > 1 || !strings.Contains(given[0], "://"):
		return nil, exit.Usage("usage: resyncd %s: the URL comes first, and is one; several Sources go into a "+
			"configuration (`resyncd config init`)", form)
	case len(given) == 1:
		return nil, exit.Usage("the folder for the mirror is missing: resyncd sync %s DIR", given[0])
	case len(given) > 2:
		return nil, exit.Usage("usage: resyncd %s: one URL and one folder; see `resyncd sync --help`", form)
	}
	p, err := sh.mirrors.Adhoc(given[1], given[0])
	return []mirror.Place{p}, err
}

// syncRun is one invocation of sync over one or more Sources.
type syncRun struct {
	*shell
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
	err := work(ctx, p)
	for i := range r.done {
		if err := term.Summary(r.Out, p.Label(), &r.done[i]); err != nil {
			return err
		}
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return err
	case errors.Is(err, syncengine.ErrStopped) && r.c.NArg() == 0:
		r.Say("%s is paused and was left out; `resyncd source resume %s` restarts it", p.Label(), p.Label())
		return nil
	case errors.Is(err, syncengine.ErrStopped):
		err = fmt.Errorf("it is paused: run `resyncd source resume %s` first", p.Label())
	}
	r.verdict.Fail(err)
	r.Say("%s: %s", p.Label(), exit.Advised(err))
	return nil
}

// ended counts a set for the exit code and prints its JSON line; people read a Source's sets together, below what is
// owed.
func (r *syncRun) ended(res syncengine.Result) error {
	r.verdict.Count(&res)
	if r.c.Bool("json") {
		return term.JSON(r.Out).Encode(term.Result(&res))
	}
	r.done = append(r.done, res)
	return nil
}

// source has the daemon that holds a Source catch it up, and does it here where there is none; both show the same.
func (r *syncRun) source(ctx context.Context, p *mirror.Place) (err error) {
	o, err := r.mirrors.OpenForSync(ctx, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	results, done, err := control.Pull(ctx, o, &control.Pulling{
		Args:     control.Args{Full: r.opts.Full, RetryFor: o.Config.Network.RetryFor},
		Before:   func() error { return r.honoured(o) },
		Progress: r.Progress(o.Source.Name, r.c.Bool("quiet")),
		Ended:    r.ended,
	})
	if err == nil && !done {
		opts := r.opts
		opts.Ended = r.ended
		results, err = r.run(ctx, o, opts)
	}
	if err == nil {
		err = o.Identify(ctx)
	}
	if err == nil {
		err = r.afterwards(ctx, o, results)
	}
	return err
}

// dryRun plans on a throw-away copy of the state: the same code as the real run, and nothing touched.
func (r *syncRun) dryRun(ctx context.Context, p *mirror.Place) (err error) {
	o, err := r.mirrors.OpenCopy(ctx, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	out := bufio.NewWriterSize(r.Out, 64<<10)
	defer func() { err = errors.Join(err, out.Flush()) }()
	opts := r.opts
	opts.Plan = func(pl syncengine.Planned) error {
		if r.c.Bool("json") && pl.Action == "keep" {
			return nil
		}
		return r.put(out, pl, "%-6s %s\n", pl.Action, term.OneLine(cmp.Or(pl.URI, pl.Key)))
	}
	opts.Ended = func(res syncengine.Result) error { return errors.Join(out.Flush(), r.ended(res)) }
	_, err = r.run(ctx, o, opts)
	return err
}

// run has the engine work in this process.
func (r *syncRun) run(ctx context.Context, o *mirror.Opened, opts syncengine.RunOptions) (
	results []syncengine.Result, err error) {
	err = r.watched(ctx, o, opts, func(ctx context.Context, opts syncengine.RunOptions) (err error) {
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
	left := map[report.ListFilter]int64{}
	for i := range results {
		res := &results[i]
		left[report.ListOwed] += res.Owed
		left[report.ListHeld] += res.Held
		if !res.Unavailable && o.Target.Kind != syncengine.KindFeed && slices.ContainsFunc(sets,
			func(s store.Set) bool { return s.CapabilityList == res.Set && s.Baselines == 0 }) {
			r.Say("%s: there was no baseline: the mirror holds what changes brought, and nothing from before them",
				term.URL(res.Set))
		}
	}
	for _, kind := range []report.ListFilter{report.ListOwed, report.ListHeld} {
		if left[kind] > 0 && !r.c.Bool("json") {
			err = errors.Join(err, r.outstanding(ctx, o, kind))
		}
	}
	return err
}

// shownOutstanding is how many owed, and how many held, resources a run lists; `ls` lists all.
const shownOutstanding = 20

var errEnough = errors.New("enough was listed")

// outstanding lists what a run leaves owed or held, with reason and next try.
func (r *syncRun) outstanding(ctx context.Context, o *mirror.Opened, kind report.ListFilter) error {
	n := 0
	err := report.List(ctx, o.Engine.Store, o.Known.ID, kind, func(l report.Listing) error {
		if n++; n > shownOutstanding {
			_ = r.Print("%s: and more: resyncd ls --%[1]s %[2]s\n", kind, o.Label())
			return errEnough
		}
		return r.Print("%s: %s%s\n", kind, term.OneLine(l.URI), term.Why(&l))
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// honoured refuses what the daemon would do in another way than was asked for: it goes by its configuration alone, so
// a flag may only repeat that.
func (r *syncRun) honoured(o *mirror.Opened) error {
	plain := *r.mirrors
	plain.Flags = nil
	cfg, err := plain.Config()
	if err != nil {
		return err
	}
	src, _ := cfg.Source(o.Source.Name)
	for _, flag := range []struct {
		name string
		same bool
	}{
		{"delete", src.Delete == o.Source.Delete},
		{"concurrency", src.Concurrency == o.Source.Concurrency},
		{"idle-timeout", cfg.Network.IdleTimeout == o.Config.Network.IdleTimeout},
		{"sets", slices.Equal(src.Sets, o.Source.Sets)},
		{"from", false},
	} {
		if r.c.IsSet(flag.name) && !flag.same {
			return &exit.Error{Code: exit.Held, Err: fmt.Errorf("the daemon works on %s and goes by its "+
				"configuration: --%s cannot be honoured; leave it out, change the configuration and send the "+
				"daemon SIGHUP, or stop the daemon", o.Label(), flag.name)}
		}
	}
	return nil
}
