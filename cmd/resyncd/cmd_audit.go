package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
	syncengine "resyncd/sync"
)

// findingLine is a line of `audit --json` and `verify --json`.
type findingLine struct {
	syncengine.Finding
	Source string `json:"source"`
}

// check is audit and verify, over Sources; one that cannot be checked does not stop the others.
func (sh *shell) check() error {
	ps, err := sh.mirrors.Places(sh.c.Args())
	if err != nil {
		return err
	}
	var v exit.Verdict
	all := syncengine.Report{InStep: true}
	err = sh.each(ps, &v, false, func(p *mirror.Place) error {
		rep, err := sh.checkOne(p)
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
	if sh.c.Bool("json") {
		err = sh.JSON().Encode(all)
	} else {
		_, err = fmt.Fprintf(sh.Out, "%d files checked, %d problems, %d repaired\n", all.Checked, all.Problems,
			all.Repaired)
	}
	if err == nil && v.Differ && !sh.c.Bool("repair") {
		sh.Say("run the command with --repair to mend what it found")
	}
	return errors.Join(err, v.Err())
}

func (sh *shell) checkOne(p *mirror.Place) (rep syncengine.Report, err error) {
	repair := sh.c.Bool("repair")
	err = sh.withPlace(p, repair, func(ctx context.Context, o *mirror.Opened) error {
		if err := o.OpenMirror(repair); err != nil {
			return err
		}
		defer o.Connect()()
		enc := sh.JSON()
		emit := func(f syncengine.Finding) error {
			if sh.c.Bool("json") {
				return enc.Encode(findingLine{Finding: f, Source: o.Source.Name})
			}
			return sh.printFinding(&f)
		}
		check := o.Engine.Verify
		if sh.c.Command.Name == "audit" {
			check = o.Engine.Audit
		}
		progress := sh.Progress(o.Source.Name, sh.c.Bool("quiet"))
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
