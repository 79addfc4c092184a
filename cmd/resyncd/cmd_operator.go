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
	return sh.command("approve [--reject] NAME", 1, 1, &cli.Command{
		Name: "approve", Usage: "carry out a held sweep now", ArgsUsage: "NAME",
		Description: about("Removals by a list that would remove too much are held for you; `ls --held` shows them.",
			codesChange,
			"resyncd approve ./mirror", "resyncd approve --reject lib"),
		Flags: []cli.Flag{boolFlag("reject", "drop the removals until the list changes")},
		Action: func(c *cli.Context) error {
			asked := control.Args{Reject: c.Bool("reject")}
			return sh.change(c, control.AskApprove, asked, func(ctx context.Context, o *mirror.Opened) (string, error) {
				done, err := o.Engine.Approve(ctx, o.Target, asked.Reject)
				return term.Approved(&done), err
			})
		},
	})
}

func (sh *shell) restoreCommand() *cli.Command {
	return sh.command("restore NAME URI|KEY", 2, 2, &cli.Command{
		Name: "restore", Usage: "bring a file back from the trash", ArgsUsage: "NAME URI|KEY",
		Description: about("It is kept, in state `kept`, until the Source lists it again; `ls --trash` shows what "+
			"there is, with the URI of each, or the path below the mirror of a file that was no resource's.",
			codesChange,
			"resyncd restore ./mirror https://lib.example/theses/18.pdf"),
		Action: func(c *cli.Context) error {
			asked := control.Args{URI: c.Args().Get(1)}
			return sh.change(c, control.AskRestore, asked, func(ctx context.Context, o *mirror.Opened) (string, error) {
				back, err := o.Engine.Restore(ctx, o.Target, asked.URI)
				return term.Restored(&back), err
			})
		},
	})
}

// change asks for a command as ask does; work does it with the mirror open too, and says what it did.
func (sh *shell) change(
	c *cli.Context, command string, asked control.Args, work func(context.Context, *mirror.Opened) (string, error),
) error {
	return sh.ask(c, command, asked, func(ctx context.Context, o *mirror.Opened) error {
		if err := o.OpenMirror(true); err != nil {
			return err
		}
		defer o.Connect()()
		did, err := work(ctx, o)
		if errors.Is(err, syncengine.ErrStopped) {
			return fmt.Errorf("%s is paused: run `resyncd source resume %s` first", o.Label(), o.Label())
		}
		if err == nil {
			_, err = fmt.Fprintln(sh.Out, did)
		}
		return err
	})
}
