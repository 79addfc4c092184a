package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"resyncd/destination/keeper"
	"resyncd/store"
	syncengine "resyncd/sync"
)

func (sh *shell) subscriptionCommand() *cli.Command {
	return group("subscription", "list, renew or cancel WebSub subscriptions", "resyncd subscription list",
		sh.subscriptionListCommand(),
		sh.subscriptionChangeCommand("renew", "ask hubs for a new lease now, also for what was cancelled",
			"The daemon asks the hub at once, without one the next `resyncd serve` does.", askRenew),
		sh.subscriptionChangeCommand("cancel", "unsubscribe, and stay so until renewed",
			"The daemon unsubscribes at the hub at once, without one the next `resyncd serve` does. The channel stays `off`\n"+
				"until `resyncd subscription renew`; the Source is pulled by schedule meanwhile.", askCancel))
}

func topicFlag() *cli.StringFlag {
	return &cli.StringFlag{Name: "topic", Usage: "only the channel of this `URL`"}
}

func (sh *shell) subscriptionListCommand() *cli.Command {
	return sh.command(&cli.Command{
		Name: "list", Usage: "subscriptions with their hubs and leases", ArgsUsage: "[NAME…]",
		Description: about("Reads the state only; works beside a running daemon.", codesEach, "resyncd subscription list --json"),
		Flags:       []cli.Flag{topicFlag(), boolFlag("json", "one JSON object a line")},
		Action: func(c *cli.Context) error {
			return sh.eachSource(c, false, func(ctx context.Context, o *opened) error { return sh.listSubscriptions(ctx, c, o) })
		},
	})
}

// subscriptionLine is a line of `subscription list --json`: a channel of status with its Source and set.
type subscriptionLine struct {
	Source string `json:"source"`
	Set    string `json:"set"`
	syncengine.ChannelStatus
}

func (sh *shell) listSubscriptions(ctx context.Context, c *cli.Context, o *opened) error {
	sets, err := o.engine.Store.Sets(ctx, o.known.ID)
	if err != nil {
		return err
	}
	names := map[int64]string{}
	for i := range sets {
		names[sets[i].ID] = sets[i].CapabilityList
	}
	subs, err := o.engine.Store.Subscriptions(ctx, o.known.ID, false)
	if err != nil {
		return err
	}
	enc, topic := sh.json(), topicNamed(subs, c.String("topic"))
	for i := range subs {
		if c.IsSet("topic") && subs[i].Topic != topic {
			continue
		}
		line := subscriptionLine{Source: o.src.Name, Set: shownURL(names[subs[i].SetID]), ChannelStatus: shownChannel(syncengine.Channel(&subs[i]))}
		if c.Bool("json") {
			if err := enc.Encode(line); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(sh.out, "%s  %s\n", line.Source, line.Topic)
		printChannel(sh.out, &line.ChannelStatus)
	}
	return nil
}

func (sh *shell) subscriptionChangeCommand(name, text, what, command string) *cli.Command {
	return sh.command(&cli.Command{
		Name: name, Usage: text, ArgsUsage: "[NAME…]",
		Description: about(what, codesSync, "resyncd subscription "+name+" lib", "resyncd subscription "+name+" --topic https://lib.example/changes"),
		Flags:       []cli.Flag{topicFlag()},
		Action: func(c *cli.Context) error {
			found := 0
			err := sh.eachSource(c, true, func(ctx context.Context, o *opened) error {
				topic, n, err := sh.matching(ctx, c, o)
				if err != nil || n == 0 {
					return err
				}
				found += n
				return sh.changeSubscriptions(ctx, c, o, command, topic)
			})
			if err == nil && found == 0 {
				err = errors.New("no subscription matches: see `resyncd subscription list`")
			}
			return err
		},
	})
}

// matching counts the subscriptions that are meant; topic is theirs, "" for all.
func (sh *shell) matching(ctx context.Context, c *cli.Context, o *opened) (topic string, n int, err error) {
	subs, err := o.engine.Store.Subscriptions(ctx, o.known.ID, false)
	if c.IsSet("topic") {
		topic = topicNamed(subs, c.String("topic"))
	}
	for i := range subs {
		if !c.IsSet("topic") || subs[i].Topic == topic {
			n++
		}
	}
	return topic, n, err
}

// changeSubscriptions lets the daemon carry it out; without one it is recorded for the next.
func (sh *shell) changeSubscriptions(ctx context.Context, c *cli.Context, o *opened, command, topic string) error {
	if done, err := sh.entrust(ctx, c, o, command, askArgs{Topic: topic}); done || err != nil {
		return err
	}
	record := keeper.RequestRenew
	if command == askCancel {
		record = keeper.RequestCancel
	}
	n, err := record(ctx, o.engine.Store, sh.now(), o.known.ID, topic)
	if err != nil {
		return err
	}
	// A daemon may be there all the same: the Source was paused, or is just being taken up again.
	_, err = fmt.Fprintf(sh.out, "%s: recorded for %d subscriptions; `resyncd serve` carries it out, within half a minute where one runs\n", o.label(), n)
	return err
}

// eachSource opens the state of every Source that is named, or of all; one that was never synchronised has nothing to show.
func (sh *shell) eachSource(c *cli.Context, write bool, work func(context.Context, *opened) error) error {
	ps, err := sh.places(c, c.Args().Slice())
	if err != nil {
		return err
	}
	var v verdict
	for i := range ps {
		err := sh.withPlace(c, &ps[i], write, work)
		switch {
		case c.Context.Err() != nil, err != nil && len(ps) == 1:
			return err
		case errors.Is(err, store.ErrNotFound) && c.NArg() == 0:
		case err != nil:
			v.fail(err)
			sh.say("%s: %s", ps[i].label(), advised(err))
		default:
			v.parts++
		}
	}
	return v.err()
}

func (sh *shell) withPlace(c *cli.Context, p *place, write bool, work func(context.Context, *opened) error) (err error) {
	o, err := sh.openKnown(c.Context, c, p, write)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	return work(c.Context, o)
}
