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
	"resyncd/destination/subscribe"
	"resyncd/store"
	"resyncd/sync/report"
)

func (sh *shell) subscriptionCommand() *cli.Command {
	return sh.group("subscription", "list, renew or cancel WebSub subscriptions", "resyncd subscription list",
		sh.subscriptionListCommand(),
		sh.subscriptionChangeCommand("renew", "ask hubs for a new lease now, also for what was cancelled",
			"The daemon asks the hub at once, without one the next `resyncd serve` does.", control.AskRenew),
		sh.subscriptionChangeCommand("cancel", "unsubscribe, and stay so until renewed",
			"The daemon unsubscribes at the hub at once, without one the next `resyncd serve` does. The channel "+
				"stays `off`\n"+
				"until `resyncd subscription renew`; the Source is pulled by schedule meanwhile.", control.AskCancel))
}

func topicFlag() *cli.StringFlag {
	return &cli.StringFlag{Name: "topic", Usage: "only the channel of this `URL`"}
}

func (sh *shell) subscriptionListCommand() *cli.Command {
	return sh.command(&cli.Command{
		Name: "list", Usage: "subscriptions with their hubs and leases", ArgsUsage: "[NAME…]",
		Description: about("Reads the state only; works beside a running daemon.", codesEach,
			"resyncd subscription list --json"),
		Flags: []cli.Flag{topicFlag(), boolFlag("json", "one JSON object a line")},
		Action: func(c *cli.Context) error {
			return sh.eachSource(c, false, func(ctx context.Context, o *mirror.Opened) error {
				return sh.listSubscriptions(ctx, c, o)
			})
		},
	})
}

// subscriptionLine is a line of `subscription list --json`: a channel of status with its Source and set.
type subscriptionLine struct {
	Source string `json:"source"`
	Set    string `json:"set"`
	report.ChannelStatus
}

func (sh *shell) listSubscriptions(ctx context.Context, c *cli.Context, o *mirror.Opened) error {
	sets, err := o.Engine.Store.Sets(ctx, o.Known.ID)
	if err != nil {
		return err
	}
	names := map[int64]string{}
	for i := range sets {
		names[sets[i].ID] = sets[i].CapabilityList
	}
	subs, err := o.Engine.Store.Subscriptions(ctx, o.Known.ID, false)
	if err != nil {
		return err
	}
	enc, topic := sh.JSON(), term.TopicNamed(subs, c.String("topic"))
	for i := range subs {
		if c.IsSet("topic") && subs[i].Topic != topic {
			continue
		}
		line := subscriptionLine{
			Source: o.Source.Name, Set: term.URL(names[subs[i].SetID]),
			ChannelStatus: term.Channel(report.Channel(&subs[i])),
		}
		if c.Bool("json") {
			if err := enc.Encode(line); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(sh.Out, "%s  %s\n", line.Source, line.Topic)
		printChannel(sh.Out, &line.ChannelStatus)
	}
	return nil
}

func (sh *shell) subscriptionChangeCommand(name, text, what, command string) *cli.Command {
	return sh.command(&cli.Command{
		Name: name, Usage: text, ArgsUsage: "[NAME…]",
		Description: about(what, codesSync, "resyncd subscription "+name+" lib", "resyncd subscription "+name+
			" --topic https://lib.example/changes"),
		Flags: []cli.Flag{topicFlag()},
		Action: func(c *cli.Context) error {
			found := 0
			err := sh.eachSource(c, true, func(ctx context.Context, o *mirror.Opened) error {
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
func (sh *shell) matching(ctx context.Context, c *cli.Context, o *mirror.Opened) (topic string, n int, err error) {
	subs, err := o.Engine.Store.Subscriptions(ctx, o.Known.ID, false)
	if c.IsSet("topic") {
		topic = term.TopicNamed(subs, c.String("topic"))
	}
	for i := range subs {
		if !c.IsSet("topic") || subs[i].Topic == topic {
			n++
		}
	}
	return topic, n, err
}

// changeSubscriptions lets the daemon carry it out; without one it is recorded for the next.
func (sh *shell) changeSubscriptions(
	ctx context.Context, c *cli.Context, o *mirror.Opened, command, topic string,
) error {
	if done, err := control.Delegate(ctx, o, sh.Out, command, control.Args{Topic: topic}); done || err != nil {
		return err
	}
	record := subscribe.RequestRenew
	if command == control.AskCancel {
		record = subscribe.RequestCancel
	}
	n, err := record(ctx, o.Engine.Store, sh.Now(), o.Known.ID, topic)
	if err != nil {
		return err
	}
	// A daemon may be there all the same: the Source was paused, or is just being taken up again.
	_, err = fmt.Fprintf(sh.Out, "%s: recorded for %d subscriptions; `resyncd serve` carries it out, within half a "+
		"minute where one runs\n", o.Label(), n)
	return err
}

// eachSource opens the state of every Source that is named, or of all; one that was never synchronised has nothing to
// show.
func (sh *shell) eachSource(c *cli.Context, write bool, work onOpened) error {
	ps, err := sh.opener(c).Places(c.Args().Slice())
	if err != nil {
		return err
	}
	var v exit.Verdict
	for i := range ps {
		err := sh.withPlace(c, &ps[i], write, work)
		switch {
		case c.Context.Err() != nil, err != nil && len(ps) == 1:
			return err
		case errors.Is(err, store.ErrNotFound) && c.NArg() == 0:
		case err != nil:
			v.Fail(err)
			sh.Say("%s: %s", ps[i].Label(), exit.Advised(err))
		default:
			v.Parts++
		}
	}
	return v.Err()
}

func (sh *shell) withPlace(c *cli.Context, p *mirror.Place, write bool, work onOpened) (err error) {
	o, err := sh.opener(c).OpenKnown(c.Context, p, write)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	return work(c.Context, o)
}
