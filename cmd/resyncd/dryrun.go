package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"resyncd/store"
	"resyncd/store/sqlite"
	syncengine "resyncd/sync"
)

// dryRun plans on a throw-away copy of the state: the same code as the real run, and nothing touched.
func (r *syncRun) dryRun(ctx context.Context, p *place) (results []syncengine.Result, err error) {
	o, err := r.sh.openCopy(ctx, r.c, p)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	defer o.aim()()
	opts := r.opts
	opts.RetryFor = o.cfg.Network.RetryFor
	out := bufio.NewWriterSize(r.sh.out, 64<<10)
	defer func() { err = errors.Join(err, out.Flush()) }()
	enc := jsonTo(out)
	opts.Plan = func(pl syncengine.Planned) error {
		if !r.c.Bool("json") {
			name := pl.URI
			if name == "" {
				name = pl.Key
			}
			_, err := fmt.Fprintf(out, "%-6s %s\n", pl.Action, oneLine(name))
			return err
		}
		if pl.Action == "keep" {
			return nil
		}
		return enc.Encode(pl)
	}
	progress := r.sh.progress(o.src.Name, r.c.Bool("quiet"))
	opts.Progress = progress.note
	opts.Ended = func(res syncengine.Result) error { return errors.Join(out.Flush(), r.ended(p, &res)) }
	err = progress.while(ctx, func(ctx context.Context) (err error) {
		results, err = o.engine.Run(ctx, o.target, opts)
		return err
	})
	return results, err
}

// openCopy opens a copy of the state in a temporary folder, and the mirror, if there is one, for reading. Closing it
// removes the copy.
func (sh *shell) openCopy(ctx context.Context, c *cli.Context, p *place) (o *opened, err error) {
	tmp, err := os.MkdirTemp("", "resyncd-plan-")
	if err != nil {
		return nil, err
	}
	drop := func() error { return os.RemoveAll(tmp) }
	defer func() {
		if err != nil {
			err = errors.Join(err, drop())
		}
	}()
	q := *p
	q.state = filepath.Join(tmp, stateFile)
	err = sqlite.Snapshot(ctx, p.state, q.state)
	if err != nil && (!errors.Is(err, store.ErrNotFound) || p.src.URL == "") {
		return nil, p.absent(err)
	}
	o, err = sh.openState(ctx, c, &q, true)
	if err != nil {
		return nil, err
	}
	if p.src.URL == "" {
		_, err = o.source()
	}
	if err == nil {
		err = o.settleURL(ctx)
	}
	if err == nil {
		err = o.openForPlan()
	}
	if err != nil {
		return nil, errors.Join(err, o.close())
	}
	inner := o.close
	o.close = func() error { return errors.Join(inner(), drop()) }
	return o, nil
}
