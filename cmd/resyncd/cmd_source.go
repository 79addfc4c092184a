package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"resyncd/cmd/resyncd/internal/control"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/destination/rsdoc"
	"resyncd/destination/subscribe"
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
		return errors.Join(term.JSON(sh.Out).Encode(view), v.Err())
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

func (sh *shell) listSubscriptions() error {
	return sh.eachSource(false, func(ctx context.Context, o *mirror.Opened) error {
		sets, err := o.Engine.Store.Sets(ctx, o.Known.ID)
		if err != nil {
			return err
		}
		names := map[int64]string{}
		for i := range sets {
			names[sets[i].ID] = sets[i].CapabilityList
		}
		subs, _, err := sh.matching(ctx, o)
		for i := 0; i < len(subs) && err == nil; i++ {
			line := subscriptionLine{
				Source: o.Source.Name, Set: term.URL(names[subs[i].SetID]),
				ChannelStatus: term.Channel(report.Channel(&subs[i])),
			}
			if sh.c.Bool("json") {
				err = term.JSON(sh.Out).Encode(line)
			} else {
				err = term.Write(sh.Out, "subscription", &line)
			}
		}
		return err
	})
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
	rel, href := sh.c.String("rel"), sh.c.String("href")
	if rel == "" && href != "" {
		return exit.Usage("--href is the target of a link: name its relation with --rel beside it")
	}
	if rel == "patch" {
		rel = rsdoc.RelPatch
	}
	out := bufio.NewWriterSize(sh.Out, 64<<10)
	return sh.withSource(false, func(ctx context.Context, o *mirror.Opened) error {
		err := report.List(ctx, o.Engine.Store, o.Known.ID, filter, func(l report.Listing) error {
			if rel != "" && !l.Linked(rel, href) {
				return nil
			}
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

// onOpened is what a command does with a Source whose state is open.
type onOpened func(context.Context, *mirror.Opened) error

// withSource opens the state of the Source that the first argument names.
func (sh *shell) withSource(write bool, work onOpened) error {
	p, err := sh.mirrors.Place(sh.c.Args().First())
	if err != nil {
		return err
	}
	return sh.withPlace(&p, write, work)
}

func (sh *shell) withPlace(p *mirror.Place, write bool, work onOpened) (err error) {
	o, err := sh.mirrors.OpenKnown(sh.c.Context, p, write)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	return work(sh.c.Context, o)
}

// eachSource opens the state of every Source that is named, or of all; one that was never synchronised has nothing to
// show.
func (sh *shell) eachSource(write bool, work onOpened) error {
	ps, err := sh.mirrors.Places(sh.c.Args().Slice())
	if err != nil {
		return err
	}
	var v exit.Verdict
	err = sh.each(ps, &v, true, func(p *mirror.Place) error {
		err := sh.withPlace(p, write, work)
		if errors.Is(err, store.ErrNotFound) && sh.c.NArg() == 0 && len(ps) > 1 {
			return nil
		}
		if err == nil {
			v.Parts++
		}
		return err
	})
	return cmp.Or(err, v.Err())
}

// each does work on every place and counts those it fails for; one does not stop the others, but the error of the only
// one is returned where alone says so, and that of an interruption always.
func (sh *shell) each(ps []mirror.Place, v *exit.Verdict, alone bool, work func(*mirror.Place) error) error {
	for i := range ps {
		err := work(&ps[i])
		switch {
		case sh.c.Context.Err() != nil, err != nil && alone && len(ps) == 1:
			return err
		case err != nil:
			v.Fail(err)
			sh.Say("%s: %s", ps[i].Label(), exit.Advised(err))
		}
	}
	return nil
}

// watched has the engine work on a Source while its progress is shown.
func (sh *shell) watched(
	ctx context.Context, o *mirror.Opened, opts syncengine.RunOptions,
	work func(context.Context, syncengine.RunOptions) error,
) error {
	defer o.Connect()()
	progress := sh.Progress(o.Source.Name, sh.c.Bool("quiet"))
	opts.RetryFor, opts.Progress = o.Config.Network.RetryFor, progress.Note
	return progress.While(ctx, func(ctx context.Context) error { return work(ctx, opts) })
}

// put writes a result: v as a line of JSON where that was asked for, else a line of text.
func (sh *shell) put(w io.Writer, v any, format string, args ...any) error {
	if sh.c.Bool("json") {
		return term.JSON(w).Encode(v)
	}
	_, err := fmt.Fprintf(w, format, args...)
	return err
}

// ask is a command that the daemon carries out on the Source that the first argument names, and that is carried out
// here where no daemon holds it.
func (sh *shell) ask(command string) func() error {
	return func() error {
		asked := control.Args{
			Reject: sh.c.Bool("reject"), URI: sh.c.Args().Get(1), WithMirror: sh.c.Bool("with-mirror"),
		}
		return sh.withSource(true, func(ctx context.Context, o *mirror.Opened) error {
			return sh.askOpened(ctx, o, command, asked)
		})
	}
}

func (sh *shell) askOpened(ctx context.Context, o *mirror.Opened, command string, asked control.Args) error {
	if done, err := control.Delegate(ctx, o, sh.Out, command, asked); done || err != nil {
		return err
	}
	said, err := sh.alone(ctx, o, command, asked)
	if errors.Is(err, syncengine.ErrStopped) {
		return fmt.Errorf("%s is paused: run `resyncd source resume %s` first", o.Label(), o.Label())
	}
	if err == nil {
		err = sh.Print("%s\n", said)
	}
	return err
}

// alone carries out a command without a daemon and says what it did. What is asked of hubs is recorded for the next
// daemon.
func (sh *shell) alone(
	ctx context.Context, o *mirror.Opened, command string, asked control.Args,
) (said string, err error) {
	st := o.Engine.Store
	if command == control.AskApprove || command == control.AskRestore || asked.WithMirror {
		if err := o.OpenMirror(true); err != nil {
			return "", err
		}
		defer o.Connect()()
	}
	keeper := subscribe.New(subscribe.Options{Store: st, Now: sh.Now})
	record := keeper.Renew
	switch command {
	case control.AskApprove:
		done, err := o.Engine.Approve(ctx, o.Target, asked.Reject)
		return term.Approved(&done), err
	case control.AskRestore:
		back, err := o.Engine.Restore(ctx, o.Target, asked.URI)
		return term.Restored(&back), err
	case control.AskPause:
		return "paused " + o.Label(), st.SetPaused(ctx, o.Known.ID, true)
	case control.AskResume:
		return "resumed " + o.Label(), st.SetPaused(ctx, o.Known.ID, false)
	case control.AskForget:
		return "forgot " + o.Label(), sh.forget(ctx, o, asked.WithMirror)
	case control.AskCancel:
		record = keeper.Cancel
	}
	n, err := record(ctx, o.Known.ID, asked.Topic)
	// A daemon may be there all the same: the Source was paused, or is just being taken up again.
	return fmt.Sprintf("%s: recorded for %d subscriptions; `resyncd serve` carries it out, within half a minute where "+
		"one runs", o.Label(), n), err
}

// forget drops a Source and tells of the leases that it leaves.
func (sh *shell) forget(ctx context.Context, o *mirror.Opened, withMirror bool) error {
	subs, err := o.Engine.Store.Subscriptions(ctx, o.Known.ID, false)
	if err != nil {
		return err
	}
	o.Target.Name = o.Source.Name
	if err := o.Engine.Forget(ctx, o.Target, withMirror); err != nil {
		return err
	}
	for i := range subs {
		if subs[i].Live() {
			sh.Say("%s", term.LeaseLeft(&subs[i]))
		}
	}
	return nil
}

// askHubs has hubs asked about the subscriptions of all Sources that are meant.
func (sh *shell) askHubs(command string) func() error {
	return func() error {
		found := 0
		err := sh.eachSource(true, func(ctx context.Context, o *mirror.Opened) error {
			subs, topic, err := sh.matching(ctx, o)
			if err != nil || len(subs) == 0 {
				return err
			}
			found += len(subs)
			return sh.askOpened(ctx, o, command, control.Args{Topic: topic})
		})
		if err == nil && found == 0 {
			err = errors.New("no subscription matches: see `resyncd subscription list`")
		}
		return err
	}
}

// matching are the subscriptions that are meant; topic is theirs, "" for all.
func (sh *shell) matching(ctx context.Context, o *mirror.Opened) (subs []store.Subscription, topic string, err error) {
	subs, err = o.Engine.Store.Subscriptions(ctx, o.Known.ID, false)
	if err != nil || !sh.c.IsSet("topic") {
		return subs, "", err
	}
	topic = term.TopicNamed(subs, sh.c.String("topic"))
	return slices.DeleteFunc(subs, func(s store.Subscription) bool { return s.Topic != topic }), topic, nil
}
