package main

import (
	"context"
	"errors"
	"io"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/sync/report"
)

func (sh *shell) status() error {
	open := sh.opener()
	ps, err := open.Places(sh.c.Args())
	if err != nil && !errors.Is(err, mirror.ErrNoSources) { // a configuration without any has a status too
		return err
	}
	view := mirror.StatusView{Version: version, Sources: []report.SourceStatus{}}
	var feeds []map[int64]bool // of each in view: which of its sets are feeds
	var v exit.Verdict
	err = sh.each(ps, &v, true, func(p *mirror.Place) error {
		s, isFeed, err := open.Status(sh.ctx, p)
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
		err = errors.Join(err, printStatus(sh.Out, &view.Sources[i], feeds[i]))
	}
	return errors.Join(err, v.Err())
}

// printStatus tells how a Source stands; feeds says which of its sets are feeds.
func printStatus(w io.Writer, s *report.SourceStatus, feeds map[int64]bool) error {
	return term.Write(w, "status", struct {
		*report.SourceStatus
		Feeds map[int64]bool
	}{s, feeds})
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
			err = enc.Encode(line)
		} else {
			err = term.Write(sh.Out, "subscription", &line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
