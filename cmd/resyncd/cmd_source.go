package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/control"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
)

func (sh *shell) sourceCommand() *cli.Command {
	return sh.group("source", "pause, resume or forget a Source", "resyncd source pause lib",
		sh.pauseCommand(), sh.resumeCommand(), sh.forgetCommand())
}

func (sh *shell) pauseCommand() *cli.Command {
	return sh.command(&cli.Command{
		Name: "pause", Usage: "stop work on a Source", ArgsUsage: "NAME",
		Description: about("Its leases are kept: what hubs deliver meanwhile is taken up when it is resumed.",
			codesChange, "resyncd source pause lib"),
		Action: func(c *cli.Context) error {
			return sh.withSource(c, "source pause NAME", 1, true, func(ctx context.Context, o *mirror.Opened) error {
				if done, err := control.Delegate(ctx, o, sh.Out, control.AskPause, control.Args{}); done || err != nil {
					return err
				}
				return sh.setPaused(ctx, o, true, "paused")
			})
		},
	})
}

func (sh *shell) resumeCommand() *cli.Command {
	return sh.command(&cli.Command{
		Name: "resume", Usage: "restart work on a Source", ArgsUsage: "NAME",
		Description: about("A running daemon goes on with it within a second.", codesChange,
			"resyncd source resume lib"),
		Action: func(c *cli.Context) error {
			return sh.withSource(c, "source resume NAME", 1, true, func(ctx context.Context, o *mirror.Opened) error {
				done, err := control.Delegate(ctx, o, sh.Out, control.AskResume, control.Args{})
				if done || err != nil {
					return err // it was not paused, or not yet
				}
				return sh.setPaused(ctx, o, false, "resumed") // a daemon looks for this
			})
		},
	})
}

func (sh *shell) setPaused(ctx context.Context, o *mirror.Opened, paused bool, done string) error {
	if err := o.Engine.Store.SetPaused(ctx, o.Known.ID, paused); err != nil {
		return err
	}
	_, err := fmt.Fprintf(sh.Out, "%s %s\n", done, o.Label())
	return err
}

func (sh *shell) forgetCommand() *cli.Command {
	return sh.command(&cli.Command{
		Name: "forget", Usage: "unsubscribe and drop the state of a Source", ArgsUsage: "NAME",
		Description: about("Its files stay, and are adopted if it is synchronised again. A running daemon "+
			"unsubscribes at the hubs; without\n"+
			"one the leases run out by themselves.", codesChange, "resyncd source forget --with-mirror ./mirror"),
		Flags: []cli.Flag{boolFlag("with-mirror", "drop its files and its trash too; files that are not its own stay")},
		Action: func(c *cli.Context) error {
			const form = "source forget [--with-mirror] NAME"
			return sh.withSource(c, form, 1, true, func(ctx context.Context, o *mirror.Opened) error {
				return sh.forget(ctx, c, o, c.Bool("with-mirror"))
			})
		},
	})
}

func (sh *shell) forget(ctx context.Context, c *cli.Context, o *mirror.Opened, withMirror bool) error {
	ask := control.Args{WithMirror: withMirror}
	if done, err := control.Delegate(ctx, o, sh.Out, control.AskForget, ask); done || err != nil {
		return err
	}
	if withMirror {
		if err := o.OpenMirror(true); err != nil {
			return err
		}
	}
	leases, err := runningLeases(ctx, o)
	if err != nil {
		return err
	}
	o.Target.Name = o.Source.Name
	if err := o.Engine.Forget(ctx, o.Target, withMirror); err != nil {
		return err
	}
	_, err = fmt.Fprintf(sh.Out, "forgot %s\n", o.Label())
	for i := range leases {
		sh.Say("%s", term.LeaseLeft(&leases[i]))
	}
	return err
}

// runningLeases are those that a forgotten Source leaves at hubs.
func runningLeases(ctx context.Context, o *mirror.Opened) ([]store.Subscription, error) {
	subs, err := o.Engine.Store.Subscriptions(ctx, o.Known.ID, false)
	if err != nil {
		return nil, err
	}
	var out []store.Subscription
	for _, s := range subs {
		if s.Live() {
			out = append(out, s)
		}
	}
	return out, nil
}
