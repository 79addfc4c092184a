package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	syncengine "resyncd/sync"
)

// dryRun plans on a throw-away copy of the state: the same code as the real run, and nothing touched.
func (r *syncRun) dryRun(ctx context.Context, p *mirror.Place) (results []syncengine.Result, err error) {
	o, err := r.sh.opener(r.c).OpenCopy(ctx, p)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	defer o.Connect()()
	opts := r.opts
	opts.RetryFor = o.Config.Network.RetryFor
	out := bufio.NewWriterSize(r.sh.Out, 64<<10)
	defer func() { err = errors.Join(err, out.Flush()) }()
	enc := term.JSONTo(out)
	opts.Plan = func(pl syncengine.Planned) error {
		if !r.c.Bool("json") {
			name := pl.URI
			if name == "" {
				name = pl.Key
			}
			_, err := fmt.Fprintf(out, "%-6s %s\n", pl.Action, term.OneLine(name))
			return err
		}
		if pl.Action == "keep" {
			return nil
		}
		return enc.Encode(pl)
	}
	progress := r.sh.Progress(o.Source.Name, r.c.Bool("quiet"))
	opts.Progress = progress.Note
	opts.Ended = func(res syncengine.Result) error { return errors.Join(out.Flush(), r.ended(p, &res)) }
	err = progress.While(ctx, func(ctx context.Context) (err error) {
		results, err = o.Engine.Run(ctx, o.Target, opts)
		return err
	})
	return results, err
}
