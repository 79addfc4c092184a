package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/destination/peer/source"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	syncengine "resyncd/sync"
)

// demoEvery is the pause between two catch-ups of the demo, demoSource the name of its Source.
const (
	demoEvery  = time.Second
	demoSource = "demo"
)

func (sh *shell) demoCommand() *cli.Command {
	return sh.command(&cli.Command{
		Name: "demo", Usage: "a living Source and its mirror in one process",
		Description: "Nothing to install or configure: a Source with made-up resources that change, and a catch-up of it every\n" +
			"second. Hub, daemon and console are not in this version. It ends orderly, with 0, when it is interrupted.\n\n" +
			"   resyncd demo --resources 1000 --rate 5 --for 1m",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "resources", Value: 200, Usage: "the Source has `N` resources"},
			&cli.Float64Flag{Name: "rate", Value: 2, Usage: "`R` changes a second"},
			&cli.DurationFlag{Name: "for", Usage: "stop after this `TIME`", DefaultText: "until interrupted"},
			&cli.StringFlag{Name: "dir", Usage: "data `FOLDER`, kept afterwards", DefaultText: "a temporary one, removed afterwards"},
		},
		Action: sh.demo,
	})
}

func (sh *shell) demo(c *cli.Context) (err error) {
	if err := args(c, 0, 0, "demo [flags]"); err != nil {
		return err
	}
	made := source.Synthetic{Resources: c.Int("resources"), Rate: c.Float64("rate"), Seed: 1}
	if c.Duration("for") < 0 {
		return usage("--for %s: want a time such as 30s", c.Duration("for"))
	}
	if err := (source.Options{Synthetic: &made}).Check(); err != nil {
		return usage("%w", err)
	}
	dataDir := c.String("dir")
	if dataDir == "" {
		if dataDir, err = os.MkdirTemp("", "resyncd-demo-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dataDir)) }()
	}
	ctx, cancel := context.WithCancel(c.Context)
	defer cancel()
	if d := c.Duration("for"); d > 0 {
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	err = sh.demonstrate(ctx, cancel, c, dataDir, &made)
	if ctx.Err() == nil || err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	_, err = fmt.Fprintln(sh.out, "stopped in good order")
	return err
}

// demonstrate runs the Source and its mirror until ctx ends.
func (sh *shell) demonstrate(ctx context.Context, cancel func(), c *cli.Context, dataDir string, made *source.Synthetic) error {
	cfg := config.Default()
	cfg.DataDir, cfg.Mirror = dataDir, filepath.Join(dataDir, "mirror")
	p := configured(cfg, config.Source{Name: demoSource, Policy: cfg.Defaults})
	addr, err := sh.demoAddress(ctx, c, &p)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("take up %s, where the Source of this folder was, again: %w: end the other demo, or take another --dir", addr, err)
	}
	base := "http://" + listener.Addr().String()
	src, err := source.New(ctx, source.Options{Base: base, Synthetic: made, Hashes: []rsdoc.Algorithm{rsdoc.SHA256}})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer src.Close()
	if p.src, err = cfg.Adhoc(demoSource, base+"/"); err != nil {
		return errors.Join(err, listener.Close())
	}
	if _, err := fmt.Fprintf(sh.out, "Source   %s/\nMirror   %s\n", base, p.mirror); err != nil {
		return errors.Join(err, listener.Close())
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return src.Serve(ctx, listener) })
	g.Go(func() error { return src.Run(ctx) })
	g.Go(func() error {
		defer cancel() // the Source goes with its mirror
		return sh.demoMirror(ctx, c, &p)
	})
	return g.Wait()
}

// demoAddress is where the Source of a folder was the last time: there its resources have the same names.
func (sh *shell) demoAddress(ctx context.Context, c *cli.Context, p *place) (string, error) {
	const free = "127.0.0.1:0"
	o, err := sh.openKnown(ctx, c, p, false)
	if errors.Is(err, store.ErrNotFound) {
		return free, nil
	}
	if err != nil {
		return "", err
	}
	if u, uerr := url.Parse(o.known.URL); uerr == nil {
		return u.Host, o.close()
	}
	return free, o.close()
}

// demoMirror catches up again and again, and prints a line where something changed.
func (sh *shell) demoMirror(ctx context.Context, c *cli.Context, p *place) (err error) {
	o, err := sh.openForSync(ctx, c, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	defer o.aim()()
	for {
		results, err := o.engine.Run(ctx, o.target, syncengine.RunOptions{RetryFor: time.Second, From: store.NoTime})
		if err != nil {
			return err
		}
		for i := range results {
			if r := &results[i]; r.Kind != "none" {
				fmt.Fprintf(sh.out, "%s  %-11s %5d fetched %3d deleted %3d owed  %3d requests  %5.0f ms  up to %s\n",
					sh.now().UTC().Format(time.TimeOnly), r.Kind, r.Fetched, r.Deleted, r.Owed, r.Requests, r.Seconds*1000, text(r.Position))
			}
		}
		o.target.Adopt, o.target.SweepExtra = false, false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(demoEvery):
		}
	}
}
