package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
	syncengine "resyncd/sync"
)

func (sh *shell) auditCommand() *cli.Command {
	return sh.command("", 0, -1, &cli.Command{
		Name: "audit", Usage: "compare Source, state and mirror", ArgsUsage: "[NAME…]",
		Description: about("Reads every list of the Source anew and hashes every file; reports what is missing, "+
			"changed, stale, extra or unlisted. Where the lists do not decide, the Source is asked for the resource. "+
			"What was fetched before is not believed. With --repair it is mended: fetched anew, or moved to the "+
			"trash.", codesAll,
			"resyncd audit ./mirror", "resyncd audit --repair lib"),
		Flags:  checkFlags(),
		Action: func(c *cli.Context) error { return sh.check(c, true) },
	})
}

func (sh *shell) verifyCommand() *cli.Command {
	return sh.command("", 0, -1, &cli.Command{
		Name: "verify", Usage: "re-hash the mirror against the state", ArgsUsage: "[NAME…]",
		Description: about("Does not ask the Source, but for --repair, which fetches anew what is wrong and moves "+
			"extra files to the trash.", codesAll,
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
	ps, err := sh.opener(c).Places(c.Args().Slice())
	if err != nil {
		return err
	}
	var v exit.Verdict
	all := syncengine.Report{InStep: true}
	err = sh.each(c, ps, &v, false, func(p *mirror.Place) error {
		rep, err := sh.checkOne(c, p, remote)
		all.Checked += rep.Checked
		all.Problems += rep.Problems
		all.Repaired += rep.Repaired
		all.InStep = all.InStep && rep.InStep && err == nil
		if err == nil {
			v.Parts++
		}
		return err
	})
	if err != nil || v.Failed == len(ps) {
		return cmp.Or(err, v.Err())
	}
	v.Differ, v.Owed = all.Problems > all.Repaired, !all.InStep
	if c.Bool("json") {
		err = sh.JSON().Encode(all)
	} else {
		_, err = fmt.Fprintf(sh.Out, "%d files checked, %d problems, %d repaired\n", all.Checked, all.Problems,
			all.Repaired)
	}
	if err == nil && v.Differ && !c.Bool("repair") {
		sh.Say("run the command with --repair to mend what it found")
	}
	return errors.Join(err, v.Err())
}

func (sh *shell) checkOne(c *cli.Context, p *mirror.Place, remote bool) (rep syncengine.Report, err error) {
	repair := c.Bool("repair")
	err = sh.withPlace(c, p, repair, func(ctx context.Context, o *mirror.Opened) error {
		if err := o.OpenMirror(repair); err != nil {
			return err
		}
		defer o.Connect()()
		enc := sh.JSON()
		emit := func(f syncengine.Finding) error {
			if c.Bool("json") {
				return enc.Encode(findingLine{Finding: f, Source: o.Source.Name})
			}
			return sh.printFinding(&f)
		}
		check := o.Engine.Verify
		if remote {
			check = o.Engine.Audit
		}
		progress := sh.Progress(o.Source.Name, c.Bool("quiet"))
		opts := syncengine.RunOptions{RetryFor: o.Config.Network.RetryFor, From: store.NoTime, Progress: progress.Note}
		return progress.While(ctx, func(ctx context.Context) (err error) {
			rep, err = check(ctx, o.Target, opts, repair, emit)
			return err
		})
	})
	return rep, err
}

func (sh *shell) printFinding(f *syncengine.Finding) error {
	mended := ""
	if f.Repaired {
		mended = " (repaired)"
	}
	_, err := fmt.Fprintf(sh.Out, "%-9s %s%s\n", f.Problem, term.OneLine(term.Text(cmp.Or(f.URI, f.Key))), mended)
	return err
}
