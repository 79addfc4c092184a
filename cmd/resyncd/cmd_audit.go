package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"resyncd/store"
	syncengine "resyncd/sync"
)

func (sh *shell) auditCommand() *cli.Command {
	return sh.command(&cli.Command{
		Name: "audit", Usage: "compare Source, state and mirror", ArgsUsage: "[NAME…]",
		Description: about("Reads every list of the Source anew and hashes every file; reports what is missing, changed, stale, extra or\n"+
			"unlisted. With --repair it is mended: fetched anew, or moved to the trash.", codesAll,
			"resyncd audit ./mirror", "resyncd audit --repair lib"),
		Flags:  checkFlags(),
		Action: func(c *cli.Context) error { return sh.check(c, true) },
	})
}

func (sh *shell) verifyCommand() *cli.Command {
	return sh.command(&cli.Command{
		Name: "verify", Usage: "re-hash the mirror against the state", ArgsUsage: "[NAME…]",
		Description: about("Does not ask the Source, but for --repair, which fetches anew what is wrong and moves extra files to the trash.", codesAll,
			"resyncd verify ./mirror", "resyncd verify --repair lib"),
		Flags:  checkFlags(),
		Action: func(c *cli.Context) error { return sh.check(c, false) },
	})
}

func checkFlags() []cli.Flag {
	return []cli.Flag{
		boolFlag("repair", "mend what is found"),
		boolFlag("json", "one JSON line per finding, then one with the totals"),
	}
}

// findingLine is a line of `audit --json` and `verify --json`.
type findingLine struct {
	syncengine.Finding
	Source string `json:"source"`
}

// check runs audit or verify over Sources; one that cannot be checked does not stop the others.
func (sh *shell) check(c *cli.Context, remote bool) error {
	ps, err := sh.places(c, c.Args().Slice())
	if err != nil {
		return err
	}
	var v verdict
	all := syncengine.Report{InStep: true}
	for i := range ps {
		p := &ps[i]
		rep, err := sh.checkOne(c.Context, c, p, remote)
		all.Checked += rep.Checked
		all.Problems += rep.Problems
		all.Repaired += rep.Repaired
		all.InStep = all.InStep && rep.InStep && err == nil
		switch {
		case c.Context.Err() != nil:
			return err
		case err != nil:
			v.fail(err)
			sh.say("%s: %s", p.label(), advised(err))
		default:
			v.parts++
		}
	}
	if v.failed == len(ps) {
		return v.err()
	}
	v.differ = all.Problems > all.Repaired
	if c.Bool("json") {
		err = sh.json().Encode(all)
	} else {
		_, err = fmt.Fprintf(sh.out, "%d files checked, %d problems, %d repaired\n", all.Checked, all.Problems, all.Repaired)
	}
	if err == nil && v.differ && !c.Bool("repair") {
		sh.say("run the command with --repair to mend what it found")
	}
	return errors.Join(err, v.err())
}

func (sh *shell) checkOne(ctx context.Context, c *cli.Context, p *place, remote bool) (rep syncengine.Report, err error) {
	repair := c.Bool("repair")
	o, err := sh.openKnown(ctx, c, p, repair)
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	if err := o.openMirror(repair); err != nil {
		return rep, err
	}
	defer o.aim()()
	enc := sh.json()
	emit := func(f syncengine.Finding) error {
		if c.Bool("json") {
			return enc.Encode(findingLine{Finding: f, Source: o.src.Name})
		}
		return sh.printFinding(&f)
	}
	progress := sh.progress(o.src.Name, c.Bool("quiet"))
	opts := syncengine.RunOptions{RetryFor: o.cfg.Network.RetryFor, From: store.NoTime, Progress: progress.note}
	err = progress.while(ctx, func(ctx context.Context) (err error) {
		if !remote {
			rep, err = o.engine.Verify(ctx, o.target, opts, repair, emit)
			return err
		}
		copied, err := sh.openCopy(ctx, c, p)
		if err != nil {
			return err
		}
		rep, err = o.engine.Audit(ctx, o.target, opts, copied.engine, repair, emit)
		return errors.Join(err, copied.close())
	})
	return rep, err
}

func (sh *shell) printFinding(f *syncengine.Finding) error {
	name := text(f.URI)
	if f.URI == nil {
		name = text(f.Key)
	}
	mended := ""
	if f.Repaired {
		mended = " (repaired)"
	}
	_, err := fmt.Fprintf(sh.out, "%-9s %s%s\n", f.Problem, oneLine(name), mended)
	return err
}
