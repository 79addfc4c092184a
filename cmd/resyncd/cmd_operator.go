package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	syncengine "resyncd/sync"
)

func (sh *shell) approveCommand() *cli.Command {
	return sh.command(&cli.Command{
		Name: "approve", Usage: "carry out a held sweep now", ArgsUsage: "NAME",
		Description: "Removals by a list that would remove too much are held for you; `ls --held` shows them.\n\n   resyncd approve ./mirror",
		Flags:       []cli.Flag{boolFlag("reject", "drop the removals until the list changes")},
		Action: func(c *cli.Context) error {
			return sh.change(c, "approve [--reject] NAME", 1, func(ctx context.Context, o *opened) error {
				done, err := o.engine.Approve(ctx, o.target, c.Bool("reject"))
				if err != nil {
					return err
				}
				verb := "removed"
				if done.Rejected {
					verb = "kept until the list changes"
				}
				_, err = fmt.Fprintf(sh.out, "%d held resources %s\n", done.Resources, verb)
				return err
			})
		},
	})
}

func (sh *shell) restoreCommand() *cli.Command {
	return sh.command(&cli.Command{
		Name: "restore", Usage: "bring a file back from the trash", ArgsUsage: "NAME URI",
		Description: "It is kept, in state `kept`, until the Source lists it again; `ls --trash` shows what there is.\n\n" +
			"   resyncd restore ./mirror https://lib.example/theses/18.pdf",
		Action: func(c *cli.Context) error {
			return sh.change(c, "restore NAME URI", 2, func(ctx context.Context, o *opened) error {
				t, err := o.engine.Restore(ctx, o.target, c.Args().Get(1))
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(sh.out, "restored %s\n", t.Key)
				return err
			})
		},
	})
}

// change opens the Source that the first of n arguments names, with its mirror, for writing.
func (sh *shell) change(c *cli.Context, form string, n int, work func(context.Context, *opened) error) (err error) {
	return sh.withSource(c, form, n, true, func(ctx context.Context, o *opened) error {
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
