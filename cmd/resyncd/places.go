package main

import (
	"context"
	"errors"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/control"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
)

// onOpened is what a command does with a Source whose state is open.
type onOpened func(context.Context, *mirror.Opened) error

// withSource opens the state of the Source that the first argument names.
func (sh *shell) withSource(c *cli.Context, write bool, work onOpened) error {
	p, err := sh.opener(c).Place(c.Args().First())
	if err != nil {
		return err
	}
	return sh.withPlace(c, &p, write, work)
}

func (sh *shell) withPlace(c *cli.Context, p *mirror.Place, write bool, work onOpened) (err error) {
	o, err := sh.opener(c).OpenKnown(c.Context, p, write)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	return work(c.Context, o)
}

// ask has the daemon carry out a command on the Source that the first argument names; without one, work does it here.
func (sh *shell) ask(c *cli.Context, command string, asked control.Args, work onOpened) error {
	return sh.withSource(c, true, func(ctx context.Context, o *mirror.Opened) error {
		if done, err := control.Delegate(ctx, o, sh.Out, command, asked); done || err != nil {
			return err
		}
		return work(ctx, o)
	})
}

// each does work on every place and counts those it fails for; one does not stop the others, but the error of the only
// one is returned where alone says so, and that of an interruption always.
func (sh *shell) each(
	c *cli.Context, ps []mirror.Place, v *exit.Verdict, alone bool, work func(*mirror.Place) error,
) error {
	for i := range ps {
		err := work(&ps[i])
		switch {
		case c.Context.Err() != nil, err != nil && alone && len(ps) == 1:
			return err
		case err != nil:
			v.Fail(err)
			sh.Say("%s: %s", ps[i].Label(), exit.Advised(err))
		}
	}
	return nil
}
