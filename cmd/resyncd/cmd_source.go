package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"
)

func (sh *shell) sourceCommand() *cli.Command {
	return group("source", "pause, resume or forget a Source", "resyncd source pause ./mirror",
		sh.pauseCommand("pause", "stop work on a Source", "paused", true),
		sh.pauseCommand("resume", "restart work on a Source", "resumed", false),
		sh.forgetCommand())
}

func (sh *shell) pauseCommand(name, text, done string, paused bool) *cli.Command {
	return sh.command(&cli.Command{
		Name: name, Usage: text, ArgsUsage: "NAME", Description: "   resyncd source " + name + " ./mirror",
		Action: func(c *cli.Context) error {
			return sh.withSource(c, "source "+name+" NAME", 1, true, func(ctx context.Context, o *opened) error {
				if err := o.engine.Store.SetPaused(ctx, o.known.ID, paused); err != nil {
					return err
				}
				_, err := fmt.Fprintf(sh.out, "%s %s\n", done, o.label())
				return err
			})
		},
	})
}

func (sh *shell) forgetCommand() *cli.Command {
	return sh.command(&cli.Command{
		Name: "forget", Usage: "drop the state of a Source", ArgsUsage: "NAME",
		Description: "Its files stay, and are adopted if it is synchronised again.\n\n   resyncd source forget --with-mirror ./mirror",
		Flags:       []cli.Flag{boolFlag("with-mirror", "drop its files and its trash too; files that are not its own stay")},
		Action: func(c *cli.Context) error {
			return sh.withSource(c, "source forget [--with-mirror] NAME", 1, true, func(ctx context.Context, o *opened) error {
				if c.Bool("with-mirror") {
					if err := o.openMirror(true); err != nil {
						return err
					}
				}
				o.target.Name = o.src.Name
				if err := o.engine.Forget(ctx, o.target, c.Bool("with-mirror")); err != nil {
					return err
				}
				_, err := fmt.Fprintf(sh.out, "forgot %s\n", o.label())
				return err
			})
		},
	})
}
