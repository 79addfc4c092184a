package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"resyncd/store"
	syncengine "resyncd/sync"
)

func (sh *shell) approveCommand() *cli.Command {
	return sh.command(&cli.Command{
		Name: "approve", Usage: "carry out a held sweep now", ArgsUsage: "NAME",
		Description: about("Removals by a list that would remove too much are held for you; `ls --held` shows them.", codesChange,
			"resyncd approve ./mirror", "resyncd approve --reject lib"),
		Flags: []cli.Flag{boolFlag("reject", "drop the removals until the list changes")},
		Action: func(c *cli.Context) error {
			ask := askArgs{Reject: c.Bool("reject")}
			return sh.change(c, "approve [--reject] NAME", 1, askApprove, ask, func(ctx context.Context, o *opened) error {
				done, err := o.engine.Approve(ctx, o.target, ask.Reject)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(sh.out, approvedText(&done))
				return err
			})
		},
	})
}

func (sh *shell) restoreCommand() *cli.Command {
	return sh.command(&cli.Command{
		Name: "restore", Usage: "bring a file back from the trash", ArgsUsage: "NAME URI|KEY",
		Description: about("It is kept, in state `kept`, until the Source lists it again; `ls --trash` shows what there is, with the\n"+
			"URI of each, or the path below the mirror of a file that was no resource's.", codesChange,
			"resyncd restore ./mirror https://lib.example/theses/18.pdf"),
		Action: func(c *cli.Context) error {
			ask := askArgs{URI: c.Args().Get(1)}
			return sh.change(c, "restore NAME URI|KEY", 2, askRestore, ask, func(ctx context.Context, o *opened) error {
				t, err := o.engine.Restore(ctx, o.target, ask.URI)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(sh.out, restoredText(&t))
				return err
			})
		},
	})
}

// approvedText and restoredText are the same whoever did it, this process or the daemon.
func approvedText(done *syncengine.Approved) string {
	verb := "removed"
	if done.Rejected {
		verb = "kept until the list changes"
	}
	return fmt.Sprintf("%d held resources %s", done.Resources, verb)
}

func restoredText(t *store.Trashed) string { return "restored " + t.Key }

func isHeld(err error) bool {
	var held *store.HeldError
	return errors.As(err, &held)
}

// change has the daemon carry out a command on the Source that the first of n arguments names; without one, work does it
// here, with state and mirror open for writing.
func (sh *shell) change(c *cli.Context, form string, n int, command string, ask askArgs, work func(context.Context, *opened) error) (err error) {
	return sh.withSource(c, form, n, true, func(ctx context.Context, o *opened) error {
		if done, err := sh.entrust(ctx, c, o, command, ask); done || err != nil {
			return err
		}
		if err := o.openMirror(true); err != nil {
			return err
		}
		defer o.aim()()
		err := work(ctx, o)
		if errors.Is(err, syncengine.ErrStopped) {
			err = fmt.Errorf("%s is paused: run `resyncd source resume %s` first", o.label(), o.label())
		}
		return err
	})
}

// withSource opens the state of the Source that the first of n arguments names.
func (sh *shell) withSource(c *cli.Context, form string, n int, write bool, work func(context.Context, *opened) error) (err error) {
	if err := args(c, n, n, form); err != nil {
		return err
	}
	p, err := sh.place(c, c.Args().First())
	if err != nil {
		return err
	}
	o, err := sh.openKnown(c.Context, c, &p, write)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	return work(c.Context, o)
}

// openKnown opens the state of a Source that was synchronised before.
func (sh *shell) openKnown(ctx context.Context, c *cli.Context, p *place, write bool) (*opened, error) {
	if write {
		return sh.openExisting(ctx, c, p)
	}
	o, err := sh.openState(ctx, c, p, false)
	if err != nil {
		return nil, err
	}
	if _, err := o.source(); err != nil {
		return nil, errors.Join(err, o.close())
	}
	return o, nil
}
