package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/control"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	syncengine "resyncd/sync"
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

func (sh *shell) sourceCommand() *cli.Command {
	return sh.group("source", "pause, resume or forget a Source", "resyncd source pause lib",
		sh.pauseCommand("pause", "stop work on a Source", "Its leases are kept: what hubs deliver meanwhile is taken "+
			"up when it is resumed.", control.AskPause, true),
		sh.pauseCommand("resume", "restart work on a Source", "A running daemon goes on with it within a second.",
			control.AskResume, false),
		sh.forgetCommand())
}

// pauseCommand is pause or resume. What the daemon did not do is recorded, where it looks for it.
func (sh *shell) pauseCommand(name, text, what, command string, paused bool) *cli.Command {
	return sh.command("source "+name+" NAME", 1, 1, &cli.Command{
		Name: name, Usage: text, ArgsUsage: "NAME",
		Description: about(what, codesChange, "resyncd source "+name+" lib"),
		Action: func(c *cli.Context) error {
			return sh.ask(c, command, control.Args{}, func(ctx context.Context, o *mirror.Opened) error {
				if err := o.Engine.Store.SetPaused(ctx, o.Known.ID, paused); err != nil {
					return err
				}
				_, err := fmt.Fprintf(sh.Out, "%sd %s\n", name, o.Label())
				return err
			})
		},
	})
}

func (sh *shell) forgetCommand() *cli.Command {
	return sh.command("source forget [--with-mirror] NAME", 1, 1, &cli.Command{
		Name: "forget", Usage: "unsubscribe and drop the state of a Source", ArgsUsage: "NAME",
		Description: about("Its files stay, and are adopted if it is synchronised again. A running daemon "+
			"unsubscribes at the hubs; without one the leases run out by themselves.", codesChange,
			"resyncd source forget --with-mirror ./mirror"),
		Flags: []cli.Flag{boolFlag("with-mirror", "drop its files and its trash too; files that are not its own stay")},
		Action: func(c *cli.Context) error {
			asked := control.Args{WithMirror: c.Bool("with-mirror")}
			return sh.ask(c, control.AskForget, asked, func(ctx context.Context, o *mirror.Opened) error {
				return sh.forget(ctx, o, asked.WithMirror)
			})
		},
	})
}

func (sh *shell) forget(ctx context.Context, o *mirror.Opened, withMirror bool) error {
	if withMirror {
		if err := o.OpenMirror(true); err != nil {
			return err
		}
	}
	subs, err := o.Engine.Store.Subscriptions(ctx, o.Known.ID, false)
	if err != nil {
		return err
	}
	o.Target.Name = o.Source.Name
	if err := o.Engine.Forget(ctx, o.Target, withMirror); err != nil {
		return err
	}
	_, err = fmt.Fprintf(sh.Out, "forgot %s\n", o.Label())
	for i := range subs {
		if subs[i].Live() {
			sh.Say("%s", term.LeaseLeft(&subs[i]))
		}
	}
	return err
}
