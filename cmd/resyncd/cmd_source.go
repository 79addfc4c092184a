package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/control"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
)

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
