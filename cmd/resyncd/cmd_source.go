package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"resyncd/store"
	syncengine "resyncd/sync"
)

func (sh *shell) sourceCommand() *cli.Command {
	return group("source", "pause, resume or forget a Source", "resyncd source pause lib",
		sh.pauseCommand(), sh.resumeCommand(), sh.forgetCommand())
}

func (sh *shell) pauseCommand() *cli.Command {
	return sh.command(&cli.Command{
		Name: "pause", Usage: "stop work on a Source", ArgsUsage: "NAME",
		Description: about("Its leases are kept: what hubs deliver meanwhile is taken up when it is resumed.", codesChange, "resyncd source pause lib"),
		Action: func(c *cli.Context) error {
			return sh.withSource(c, "source pause NAME", 1, true, func(ctx context.Context, o *opened) error {
				if done, err := sh.entrust(ctx, c, o, askPause, askArgs{}); done || err != nil {
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
		Description: about("A running daemon goes on with it within a second.", codesChange, "resyncd source resume lib"),
		Action: func(c *cli.Context) error {
			return sh.withSource(c, "source resume NAME", 1, true, func(ctx context.Context, o *opened) error {
				if done, err := sh.entrust(ctx, c, o, askResume, askArgs{}); done || err != nil {
					return err // it was not paused, or not yet
				}
				return sh.setPaused(ctx, o, false, "resumed") // a daemon looks for this
			})
		},
	})
}

func (sh *shell) setPaused(ctx context.Context, o *opened, paused bool, done string) error {
	if err := o.engine.Store.SetPaused(ctx, o.known.ID, paused); err != nil {
		return err
	}
	_, err := fmt.Fprintf(sh.out, "%s %s\n", done, o.label())
	return err
}

func (sh *shell) forgetCommand() *cli.Command {
	return sh.command(&cli.Command{
		Name: "forget", Usage: "unsubscribe and drop the state of a Source", ArgsUsage: "NAME",
		Description: about("Its files stay, and are adopted if it is synchronised again. A running daemon unsubscribes at the hubs; without\n"+
			"one the leases run out by themselves.", codesChange, "resyncd source forget --with-mirror ./mirror"),
		Flags: []cli.Flag{boolFlag("with-mirror", "drop its files and its trash too; files that are not its own stay")},
		Action: func(c *cli.Context) error {
			return sh.withSource(c, "source forget [--with-mirror] NAME", 1, true, func(ctx context.Context, o *opened) error {
				return sh.forget(ctx, c, o, c.Bool("with-mirror"))
			})
		},
	})
}

func (sh *shell) forget(ctx context.Context, c *cli.Context, o *opened, withMirror bool) error {
	if done, err := sh.entrust(ctx, c, o, askForget, askArgs{WithMirror: withMirror}); done || err != nil {
		return err
	}
	if withMirror {
		if err := o.openMirror(true); err != nil {
			return err
		}
	}
	leases, err := runningLeases(ctx, o)
	if err != nil {
		return err
	}
	o.target.Name = o.src.Name
	if err := o.engine.Forget(ctx, o.target, withMirror); err != nil {
		return err
	}
	_, err = fmt.Fprintf(sh.out, "forgot %s\n", o.label())
	for i := range leases {
		sh.say("%s", leaseLeft(&leases[i]))
	}
	return err
}

// runningLeases are those that a forgotten Source leaves at hubs.
func runningLeases(ctx context.Context, o *opened) ([]store.Subscription, error) {
	subs, err := o.engine.Store.Subscriptions(ctx, o.known.ID, false)
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

// leaseLeft says what a forgotten Source leaves at a hub.
func leaseLeft(s *store.Subscription) string {
	return fmt.Sprintf("%s is still subscribed at %s, which delivers in vain until %s", shownURL(s.Topic), shownURL(s.Hub), text(syncengine.RFC3339(s.Expires)))
}
