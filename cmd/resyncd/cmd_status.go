package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
	"resyncd/sync/report"
)

func (sh *shell) status() error {
	open := sh.opener()
	ps, err := open.Places(sh.c.Args().Slice())
	if err != nil && !errors.Is(err, mirror.ErrNoSources) { // a configuration without any has a status too
		return err
	}
	view := mirror.StatusView{Version: version, Sources: []report.SourceStatus{}}
	var feeds []map[int64]bool // of each in view: which of its sets are feeds
	var v exit.Verdict
	err = sh.each(ps, &v, true, func(p *mirror.Place) error {
		s, isFeed, err := open.Status(sh.c.Context, p)
		if err == nil {
			v.Parts++
			view.Sources, feeds = append(view.Sources, term.Status(s)), append(feeds, isFeed)
		}
		return err
	})
	if err != nil {
		return err
	}
	if sh.c.Bool("json") {
		return errors.Join(sh.JSON().Encode(view), v.Err())
	}
	for i := range view.Sources {
		printStatus(sh.Out, &view.Sources[i], feeds[i])
	}
	return v.Err()
}

func printStatus(w io.Writer, s *report.SourceStatus, feeds map[int64]bool) {
	fmt.Fprintf(w, "%s  %s\n", s.Name, s.URL)
	if s.Paused {
		fmt.Fprintln(w, "  paused: `resyncd source resume` restarts it")
	}
	if s.Problem != nil {
		fmt.Fprintf(w, "  problem: %s\n", *s.Problem)
	}
	if len(s.Sets) == 0 {
		fmt.Fprintln(w, "  never synchronised")
	}
	for i := range s.Sets {
		printSet(w, &s.Sets[i], feeds[s.Sets[i].ID])
	}
}

func printSet(w io.Writer, set *report.SetStatus, feed bool) {
	state := "in step"
	if !set.InStep {
		state = "NOT in step"
	}
	label, baselines := set.CapabilityList, fmt.Sprintf("; %d baselines", set.Baselines)
	if feed { // which has none
		label, baselines = "feed "+label, ""
	}
	fmt.Fprintf(w, "  %s\n    %s, up to %s, last pull %s, next pull %s\n    %d resources, %s; %d owed, %d held, %d "+
		"refused%s\n",
		label, state, set.Position, set.LastPull, set.NextPull, set.Resources, term.Bytes(set.Bytes),
		set.Owed, set.Held, set.Refused, baselines)
	if set.Problem != nil {
		fmt.Fprintf(w, "    problem: %s\n", *set.Problem)
	}
	for i := range set.Channels {
		printChannel(w, &set.Channels[i])
	}
	for i := range set.Gaps {
		printGap(w, &set.Gaps[i], feed)
	}
}

func printGap(w io.Writer, g *report.GapStatus, feed bool) {
	if feed && g.State == string(store.GapUnprovable) {
		fmt.Fprintf(w, "    the feed did not reach back: entries between %s and %s may be missing, nobody can tell\n",
			g.From, g.Until)
		return
	}
	fmt.Fprintf(w, "    gap %s to %s: %s", g.From, g.Until, g.State)
	if g.ClosedBy != nil {
		fmt.Fprintf(w, " by %s", *g.ClosedBy)
	}
	fmt.Fprintln(w)
}

// printChannel tells where a channel stands, until when its lease runs, and what came by it.
func printChannel(w io.Writer, c *report.ChannelStatus) {
	fmt.Fprintf(w, "    %s channel %s at %s", c.Kind, c.State, c.Hub)
	if c.Live() {
		fmt.Fprintf(w, " until %s, to be renewed at %s", c.ExpiresAt, c.RenewAt)
	}
	if c.Reason != nil && *c.Reason != "" {
		fmt.Fprintf(w, " (%s)", term.OneLine(*c.Reason))
	}
	fmt.Fprintf(w, "\n      %d delivered, last %s; %d duplicates, %d rejected, %d push misses\n",
		c.Delivered, c.LastDelivery, c.Duplicates, c.Rejected, c.PushMisses)
}

// subscriptionLine is a line of `subscription list --json`: a channel of status with its Source and set.
type subscriptionLine struct {
	Source string `json:"source"`
	Set    string `json:"set"`
	report.ChannelStatus
}

func (sh *shell) listSubscriptions() error { return sh.eachSource(false, sh.listSubscriptionsOf) }

func (sh *shell) listSubscriptionsOf(ctx context.Context, o *mirror.Opened) error {
	sets, err := o.Engine.Store.Sets(ctx, o.Known.ID)
	if err != nil {
		return err
	}
	names := map[int64]string{}
	for i := range sets {
		names[sets[i].ID] = sets[i].CapabilityList
	}
	subs, _, err := sh.matching(ctx, o)
	if err != nil {
		return err
	}
	enc := sh.JSON()
	for i := range subs {
		line := subscriptionLine{
			Source: o.Source.Name, Set: term.URL(names[subs[i].SetID]),
			ChannelStatus: term.Channel(report.Channel(&subs[i])),
		}
		if sh.c.Bool("json") {
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
