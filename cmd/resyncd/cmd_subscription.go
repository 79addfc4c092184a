package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

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
				"stays `off` until `resyncd subscription renew`; the Source is pulled by schedule meanwhile.",
			control.AskCancel))
}

func topicFlag() *cli.StringFlag {
	return &cli.StringFlag{Name: "topic", Usage: "only the channel of this `URL`"}
}

func (sh *shell) subscriptionListCommand() *cli.Command {
	return sh.command("", 0, -1, &cli.Command{
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
	subs, _, err := matching(ctx, c, o)
	if err != nil {
		return err
	}
	enc := sh.JSON()
	for i := range subs {
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

// matching are the subscriptions that are meant; topic is theirs, "" for all.
func matching(ctx context.Context, c *cli.Context, o *mirror.Opened) (subs []store.Subscription, topic string,
	err error) {
	subs, err = o.Engine.Store.Subscriptions(ctx, o.Known.ID, false)
	if err != nil || !c.IsSet("topic") {
		return subs, "", err
	}
	topic = term.TopicNamed(subs, c.String("topic"))
	return slices.DeleteFunc(subs, func(s store.Subscription) bool { return s.Topic != topic }), topic, nil
}

func (sh *shell) subscriptionChangeCommand(name, text, what, command string) *cli.Command {
	return sh.command("", 0, -1, &cli.Command{
		Name: name, Usage: text, ArgsUsage: "[NAME…]",
		Description: about(what, codesSync, "resyncd subscription "+name+" lib", "resyncd subscription "+name+
			" --topic https://lib.example/changes"),
		Flags: []cli.Flag{topicFlag()},
		Action: func(c *cli.Context) error {
			found := 0
			err := sh.eachSource(c, true, func(ctx context.Context, o *mirror.Opened) error {
				subs, topic, err := matching(ctx, c, o)
				if err != nil || len(subs) == 0 {
					return err
				}
				found += len(subs)
				return sh.changeSubscriptions(ctx, c, o, command, topic)
			})
			if err == nil && found == 0 {
				err = errors.New("no subscription matches: see `resyncd subscription list`")
			}
			return err
		},
	})
}

// changeSubscriptions lets the daemon carry it out; without one it is recorded for the next.
func (sh *shell) changeSubscriptions(
	ctx context.Context, c *cli.Context, o *mirror.Opened, command, topic string,
) error {
	if done, err := control.Delegate(ctx, o, sh.Out, command, control.Args{Topic: topic}); done || err != nil {
		return err
	}
	keeper := subscribe.New(subscribe.Options{Store: o.Engine.Store, Now: sh.Now})
	record := keeper.Renew
	if command == control.AskCancel {
		record = keeper.Cancel
	}
	n, err := record(ctx, o.Known.ID, topic)
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
	err = sh.each(c, ps, &v, true, func(p *mirror.Place) error {
		err := sh.withPlace(c, p, write, work)
		if errors.Is(err, store.ErrNotFound) && c.NArg() == 0 && len(ps) > 1 {
			return nil
		}
		if err == nil {
			v.Parts++
		}
		return err
	})
	return cmp.Or(err, v.Err())
}
