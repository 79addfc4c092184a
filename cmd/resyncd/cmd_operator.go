package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/control"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	syncengine "resyncd/sync"
)

func (sh *shell) approveCommand() *cli.Command {
	return sh.command(&cli.Command{
		Name: "approve", Usage: "carry out a held sweep now", ArgsUsage: "NAME",
		Description: about("Removals by a list that would remove too much are held for you; `ls --held` shows them.",
			codesChange,
			"resyncd approve ./mirror", "resyncd approve --reject lib"),
		Flags: []cli.Flag{boolFlag("reject", "drop the removals until the list changes")},
		Action: func(c *cli.Context) error {
			ask := control.Args{Reject: c.Bool("reject")}
			const form = "approve [--reject] NAME"
			return sh.change(c, form, 1, control.AskApprove, ask, func(ctx context.Context, o *mirror.Opened) error {
				done, err := o.Engine.Approve(ctx, o.Target, ask.Reject)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(sh.Out, term.Approved(&done))
				return err
			})
		},
	})
}

func (sh *shell) restoreCommand() *cli.Command {
	return sh.command(&cli.Command{
		Name: "restore", Usage: "bring a file back from the trash", ArgsUsage: "NAME URI|KEY",
		Description: about("It is kept, in state `kept`, until the Source lists it again; `ls --trash` shows what "+
			"there is, with the\n"+
			"URI of each, or the path below the mirror of a file that was no resource's.", codesChange,
			"resyncd restore ./mirror https://lib.example/theses/18.pdf"),
		Action: func(c *cli.Context) error {
			ask := control.Args{URI: c.Args().Get(1)}
			const form = "restore NAME URI|KEY"
			return sh.change(c, form, 2, control.AskRestore, ask, func(ctx context.Context, o *mirror.Opened) error {
				t, err := o.Engine.Restore(ctx, o.Target, ask.URI)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(sh.Out, term.Restored(&t))
				return err
			})
		},
	})
}

// change has the daemon carry out a command on the Source that the first of n arguments names; without one, work does
// it here, with state and mirror open for writing.
func (sh *shell) change(
	c *cli.Context, form string, n int, command string, ask control.Args, work onOpened,
) (err error) {
	return sh.withSource(c, form, n, true, func(ctx context.Context, o *mirror.Opened) error {
		if done, err := control.Delegate(ctx, o, sh.Out, command, ask); done || err != nil {
			return err
		}
		if err := o.OpenMirror(true); err != nil {
			return err
		}
		defer o.Connect()()
		err := work(ctx, o)
		if errors.Is(err, syncengine.ErrStopped) {
			err = fmt.Errorf("%s is paused: run `resyncd source resume %s` first", o.Label(), o.Label())
		}
		return err
	})
}

// onOpened is what a command does with a Source whose state is open.
type onOpened func(context.Context, *mirror.Opened) error

// withSource opens the state of the Source that the first of n arguments names.
func (sh *shell) withSource(c *cli.Context, form string, n int, write bool, work onOpened) (err error) {
	if err := args(c, n, n, form); err != nil {
		return err
	}
	p, err := sh.opener(c).Place(c.Args().First())
	if err != nil {
		return err
	}
	o, err := sh.opener(c).OpenKnown(c.Context, &p, write)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	return work(c.Context, o)
}
