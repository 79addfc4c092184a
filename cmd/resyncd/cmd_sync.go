package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

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

func (sh *shell) syncCommand() *cli.Command {
	return sh.command("", 0, -1, &cli.Command{
		Name: "sync", Aliases: []string{"catch-up"},
		Usage:     "catch up once: URL into DIR, or configured Sources",
		ArgsUsage: "URL DIR | [NAME…]",
		Description: about("Finds what the Source offers and makes the mirror an exact copy. Run again, it fetches "+
			"only what changed; killed at any moment and run again, it goes on. URL is a site, Source Description, "+
			"Capability List, Resource List, Change List or feed; the state lies in DIR/.resyncd. Without arguments "+
			"all configured Sources are caught up.", codesSync,
			"resyncd sync https://lib.example/ ./mirror",
			"resyncd sync --dry-run https://lib.example/ ./mirror",
			"resyncd sync --quiet --json lib"),
		Flags: []cli.Flag{
			boolFlag("dry-run", "name what would be fetched and deleted; touch and create nothing"),
			boolFlag("full", "take a baseline even if none is needed"),
			&cli.StringFlag{Name: "from", Usage: "position (W3C `TIME`) for sets that have none; they get no " +
				"baseline then"},
			&cli.StringFlag{Name: "delete", Usage: "what happens to files of deleted resources: `MODE` trash, " +
				"keep or now", DefaultText: "as configured, trash"},
			&cli.StringFlag{Name: "sets", Usage: "only these Capability Lists: `URL,…`"},
			&cli.IntFlag{Name: "concurrency", Usage: "at most `N` parallel fetches per host",
				DefaultText: "as configured, 16"},
			&cli.DurationFlag{Name: "retry-for", Usage: "`TIME` for which failures are retried before they " +
				"are left owed", DefaultText: "as configured, 30s"},
			&cli.DurationFlag{Name: "idle-timeout", Usage: "cut a transfer that moves nothing for this `TIME`",
				DefaultText: "as configured, 60s"},
			boolFlag("json", "one JSON line per set"),
		},
		Action: sh.sync,
	})
}

func (sh *shell) sync(c *cli.Context) error {
	opts := syncengine.RunOptions{Full: c.Bool("full"), From: store.NoTime}
	if from := c.String("from"); c.IsSet("from") {
		at, err := rsdoc.ParseMicros(from)
		if err != nil {
			return exit.Usage("--from %q: %w; write it as 2026-01-31T00:00:00Z", from, err)
		}
		opts.From = store.Micros(at)
		if err := syncengine.CheckFrom(opts.From, sh.Now()); err != nil {
			return exit.Usage("--from %q: %w", from, err)
		}
	}
	ps, err := sh.syncPlaces(c)
	if err != nil {
		return err
	}
	if c.IsSet("sets") {
		sets := strings.Split(c.String("sets"), ",")
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
	run := &syncRun{sh: sh, c: c, opts: opts}
	for i := range ps {
		if err := run.one(c.Context, &ps[i]); err != nil {
			return err
		}
	}
	return run.verdict.Err()
}

// syncPlaces: an argument with "://" makes it `sync URL DIR`.
func (sh *shell) syncPlaces(c *cli.Context) ([]mirror.Place, error) {
	const form = "sync URL DIR, or resyncd sync [NAME…]"
	given := c.Args().Slice()
	urls := 0
	for _, a := range given {
		if strings.Contains(a, "://") {
			urls++
		}
	}
	switch {
	case urls == 0:
		return sh.opener(c).Places(given)
	case urls > 1 || !strings.Contains(given[0], "://"):
		return nil, exit.Usage("usage: resyncd %s: the URL comes first, and is one; several Sources go into a "+
			"configuration (`resyncd config init`)", form)
	case len(given) == 1:
		return nil, exit.Usage("the folder for the mirror is missing: resyncd sync %s DIR", given[0])
	case len(given) > 2:
		return nil, exit.Usage("usage: resyncd %s: one URL and one folder; see `resyncd sync --help`", form)
	}
	p, err := sh.opener(c).Adhoc(given[1], given[0])
	return []mirror.Place{p}, err
}

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
	err := work(ctx, p)
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

func (r *syncRun) source(ctx context.Context, p *mirror.Place) (err error) {
	o, err := r.sh.opener(r.c).OpenForSync(ctx, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	held, err := control.DaemonHolds(ctx, o)
	if err != nil {
		return err
	}
	var results []syncengine.Result
	if held != nil {
		results, err = r.asked(ctx, o, held)
		if exit.IsHeld(err) { // nobody answers: who held it may be gone by now
			var unknown error
			if held, unknown = control.DaemonHolds(ctx, o); unknown != nil {
				held = err
			}
		}
	}
	if held == nil {
		opts := r.opts
		opts.Ended = func(res syncengine.Result) error { return r.ended(&o.Place, &res) }
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
	o, err := r.sh.opener(r.c).OpenCopy(ctx, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	out := bufio.NewWriterSize(r.sh.Out, 64<<10)
	defer func() { err = errors.Join(err, out.Flush()) }()
	enc := term.JSONTo(out)
	opts := r.opts
	opts.Plan = func(pl syncengine.Planned) error {
		if !r.c.Bool("json") {
			_, err := fmt.Fprintf(out, "%-6s %s\n", pl.Action, term.OneLine(cmp.Or(pl.URI, pl.Key)))
			return err
		}
		if pl.Action == "keep" {
			return nil
		}
		return enc.Encode(pl)
	}
	opts.Ended = func(res syncengine.Result) error { return errors.Join(out.Flush(), r.ended(p, &res)) }
	_, err = r.run(ctx, o, opts)
	return err
}

// run has the engine work in this process.
func (r *syncRun) run(ctx context.Context, o *mirror.Opened, opts syncengine.RunOptions) (
	results []syncengine.Result, err error) {
	defer o.Connect()()
	progress := r.sh.Progress(o.Source.Name, r.c.Bool("quiet"))
	opts.RetryFor, opts.Progress = o.Config.Network.RetryFor, progress.Note
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

// asked lets the daemon catch one Source up and shows what it does, as a run of our own would.
func (r *syncRun) asked(ctx context.Context, o *mirror.Opened, held error) ([]syncengine.Result, error) {
	if o.AdHoc {
		return nil, held
	}
	if err := r.honoured(o); err != nil {
		return nil, err
	}
	ask := control.Args{Full: r.opts.Full, RetryFor: o.Config.Network.RetryFor}
	progress := r.sh.Progress(o.Source.Name, r.c.Bool("quiet"))
	ended := func(res *syncengine.Result) error { return r.ended(&o.Place, res) }
	return control.Pull(ctx, o, ask, progress, held, ended)
}

// honoured refuses what the daemon would do in another way than was asked for: it goes by its configuration alone, so
// a flag may only repeat that.
func (r *syncRun) honoured(o *mirror.Opened) error {
	plain := r.sh.settings(r.c)
	plain.Flag = func(string) (string, bool) { return "", false }
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
