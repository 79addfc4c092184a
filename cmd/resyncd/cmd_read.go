package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
	"resyncd/store/blob"
	syncengine "resyncd/sync"
	"resyncd/sync/report"
)

func (sh *shell) status() error {
	ps, err := sh.mirrors.Places(sh.c.Args().Slice())
	if err != nil && !errors.Is(err, mirror.ErrNoSources) { // a configuration without any has a status too
		return err
	}
	view := mirror.StatusView{Version: version, Sources: []report.SourceStatus{}}
	var feeds []map[int64]bool // of each in view: which of its sets are feeds
	var v exit.Verdict
	err = sh.each(ps, &v, true, func(p *mirror.Place) error {
		s, isFeed, err := sh.mirrors.Status(sh.c.Context, p)
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

// filters are what ls may show less than all by, each with a flag of its name.
var filters = []report.ListFilter{report.ListOwed, report.ListHeld, report.ListRefused, report.ListTrash}

func (sh *shell) ls() error {
	filter := report.ListAll
	for _, f := range filters {
		if !sh.c.Bool(string(f)) {
			continue
		}
		if filter != report.ListAll {
			return exit.Usage("ls takes one filter: leave out --%s or --%s", filter, f)
		}
		filter = f
	}
	out := bufio.NewWriterSize(sh.Out, 64<<10)
	return sh.withSource(false, func(ctx context.Context, o *mirror.Opened) error {
		err := report.List(ctx, o.Engine.Store, o.Known.ID, filter, func(l report.Listing) error {
			length := "-"
			if l.Length != nil {
				length = fmt.Sprint(*l.Length)
			}
			return sh.put(out, l, "%-8s %12s  %-27s  %s\n", l.State, length, l.Changed,
				term.OneLine(cmp.Or(l.URI, term.Text(l.Key))+term.Why(&l)))
		})
		return errors.Join(err, out.Flush())
	})
}

func (sh *shell) cat() error { return sh.withSource(false, sh.copyOut) }

func (sh *shell) copyOut(ctx context.Context, o *mirror.Opened) (err error) {
	uri := sh.c.Args().Get(1)
	r, err := o.Engine.Store.Resource(ctx, o.Known.ID, uri)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("%s knows no resource %s: see `resyncd ls %s`", o.Label(), uri, o.Label())
	case err != nil:
		return err
	case r.Have.State == store.HaveNone:
		return fmt.Errorf("%s is not in the mirror: see `resyncd history %s %s`", uri, o.Label(), uri)
	}
	if err := o.OpenMirror(false); err != nil {
		return err
	}
	f, _, err := o.Target.Mirror.Open(ctx, r.Key)
	if errors.Is(err, blob.ErrNotFound) || errors.Is(err, blob.ErrNotRegular) {
		return fmt.Errorf("%w: run `resyncd verify --repair %s`", err, o.Label())
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = io.Copy(sh.Out, f)
	return err
}

func (sh *shell) history() error {
	uri := sh.c.Args().Get(1)
	return sh.withSource(false, func(ctx context.Context, o *mirror.Opened) error {
		lines, err := report.History(ctx, o.Engine.Store, o.Known.ID, uri)
		if err == nil && len(lines) == 0 {
			err = fmt.Errorf("nothing is known of %s: see `resyncd ls %s`", uri, o.Label())
		}
		for i := range lines {
			l := &lines[i]
			detail := term.Text(l.Detail)
			if l.EditLine != nil && l.Detail == nil {
				detail = term.Edit(l.EditLine)
			}
			if err := sh.put(sh.Out, l, "%-27s  %-13s  %-27s  %s  %s\n", l.At, l.What, l.Version, term.OneLine(detail),
				term.OneLine(term.Text(l.Evidence))); err != nil {
				return err
			}
		}
		return err
	})
}

// findingLine is a line of `audit --json` and `verify --json`.
type findingLine struct {
	syncengine.Finding
	Source string `json:"source"`
}

// check is audit and verify, over Sources; one that cannot be checked does not stop the others.
func (sh *shell) check() error {
	ps, err := sh.mirrors.Places(sh.c.Args().Slice())
	if err != nil {
		return err
	}
	var v exit.Verdict
	all := syncengine.Report{InStep: true}
	err = sh.each(ps, &v, false, func(p *mirror.Place) error {
		rep, err := sh.checkOne(p)
		all.Checked += rep.Checked
		all.Problems += rep.Problems
		all.Repaired += rep.Repaired
		all.InStep = all.InStep && rep.InStep && err == nil
		if err == nil {
			v.Parts++
		}
		return err
	})
	if err != nil || v.Failed == len(ps) {
		return cmp.Or(err, v.Err())
	}
	v.Differ, v.Owed = all.Problems > all.Repaired, !all.InStep
	err = sh.put(sh.Out, all, "%d files checked, %d problems, %d repaired\n", all.Checked, all.Problems, all.Repaired)
	if err == nil && v.Differ && !sh.c.Bool("repair") {
		sh.Say("run the command with --repair to mend what it found")
	}
	return errors.Join(err, v.Err())
}

func (sh *shell) checkOne(p *mirror.Place) (rep syncengine.Report, err error) {
	repair := sh.c.Bool("repair")
	err = sh.withPlace(p, repair, func(ctx context.Context, o *mirror.Opened) error {
		if err := o.OpenMirror(repair); err != nil {
			return err
		}
		emit := func(f syncengine.Finding) error {
			mended := ""
			if f.Repaired {
				mended = " (repaired)"
			}
			return sh.put(sh.Out, findingLine{Finding: f, Source: o.Source.Name}, "%-9s %s%s\n", f.Problem,
				term.OneLine(term.Text(cmp.Or(f.URI, f.Key))), mended)
		}
		check := o.Engine.Verify
		if sh.c.Command.Name == "audit" {
			check = o.Engine.Audit
		}
		return sh.watched(ctx, o, syncengine.RunOptions{From: store.NoTime},
			func(ctx context.Context, opts syncengine.RunOptions) (err error) {
				rep, err = check(ctx, o.Target, opts, repair, emit)
				return err
			})
	})
	return rep, err
}
